"""Draw the figures of docs/concepts: the flow, averages, and proportions of tissue.

    python experiments/draw_concepts.py

Needs the extra `report`. Everything is simulated from densities of three tissues. Writes
docs/figures/method-flow.svg, method-averages.svg and method-proportions.svg.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ndflow
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.figures import style
from ndflow.population import TissueModel, estimated_proportions
from ndflow.population.proportions import OF_SITE, Variation
from ndflow.transport import Flow

FOLDER = Path(__file__).parents[1] / "docs" / "figures"
MEANS, SDS = (0.25, 0.58, 0.90), (0.07, 0.065, 0.05)  # CSF, GM and WM, for a scanner like most
USUAL = (0.18, 0.46, 0.36)
PARTIAL = 0.25  # share of a tissue that is mixed with the next
X = np.linspace(-3.2, 2.6, 400)


def tissue(which: int, means: tuple[float, ...]) -> ndflow.GaussianMixture:
    """Return the density of a tissue: itself, and what it shares with its neighbours."""
    neighbours = [one for one in (which - 1, which + 1) if 0 <= one < len(means)]
    parts = [(means[which], SDS[which], 1 - PARTIAL)]
    for one in neighbours:
        between = 0.65 * means[which] + 0.35 * means[one]
        parts.append((between, 1.6 * SDS[which], PARTIAL / len(neighbours)))
    centres, widths, shares = zip(*parts, strict=True)
    return ndflow.GaussianMixture(shares, centres, [1 / width**2 for width in widths])


def scan(
    proportions: tuple[float, ...], means: tuple[float, ...] = MEANS
) -> ndflow.GaussianMixture:
    """Return the density of a scan with these proportions of CSF, GM and WM."""
    tissues = [tissue(which, means) for which in range(3)]
    return ndflow.GaussianMixture(
        np.concatenate(
            [share * one.weights for share, one in zip(proportions, tissues, strict=True)]
        ),
        np.concatenate([one.means for one in tissues]),
        np.concatenate([one.precisions for one in tissues]),
    )


def in_units(mixture: ndflow.GaussianMixture, affine: ndflow.Affine) -> ndflow.GaussianMixture:
    return mixture.transformed(affine.matrix, affine.offset)


def standard(mixture: ndflow.GaussianMixture) -> ndflow.GaussianMixture:
    return in_units(mixture, ndflow.transport.align(mixture))


def draw_flow() -> Figure:
    """Draw the components before and after the match, and intensities along the flow."""
    source, target = standard(scan(USUAL, (0.16, 0.42, 0.90))), standard(scan(USUAL))
    found = ndflow.transport.match(source, target)
    with style.new_figure(9.2, 3.2) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
        left.fill_between(X, target.pdf(X), color=style.FAINT, lw=0, label="target")
        for mixture, colour, name in (
            (source, style.SECOND, "scan, aligned"),
            (found.matched, style.ACCENT, "scan, matched"),
        ):
            left.plot(X, mixture.pdf(X), color=colour, lw=1.5, label=name)
            for k in range(mixture.components):
                part = ndflow.GaussianMixture([1.0], mixture.means[k], mixture.precisions[k])
                left.plot(X, mixture.weights[k] * part.pdf(X), color=colour, lw=0.5)
        left.set(title="match: components move", xlabel="standard deviations", xlim=(-3.2, 2.4))
        left.legend(loc="upper left", fontsize=7)
        style.density_axes(left)
        trace(right, source, found.matched)
        right.set(title="flow: intensities are carried along", xlabel="standard deviations")
        right.set_yticks([0, 1], ["scan", "result"])
        right.set_xlim(-3.2, 2.4)
    return figure


def trace(axes: Axes, source: ndflow.GaussianMixture, matched: ndflow.GaussianMixture) -> None:
    """Draw the way of a few intensities through time, between the densities at its ends."""
    starts = source.quantile(np.linspace(0.01, 0.99, 34))
    times = np.linspace(0.0, 1.0, 11)
    sds = 1 / np.sqrt(source.precisions[:, 0, 0]), 1 / np.sqrt(matched.precisions[:, 0, 0])
    ways = [starts]
    for time in times[1:]:
        means = (1 - time) * source.means + time * matched.means
        widths = (1 - time) * sds[0] + time * sds[1]
        then = ndflow.GaussianMixture(source.weights, means, 1 / widths**2)
        ways.append(Flow(source, then)(starts))
    axes.plot(np.array(ways), times, color=style.INK, lw=0.5)
    for mixture, colour, base, sign in (
        (source, style.SECOND, 0.0, -1),
        (matched, style.ACCENT, 1.0, 1),
    ):
        axes.fill_between(
            X, base, base + sign * 0.5 * mixture.pdf(X), color=colour, lw=0, alpha=0.8
        )
    axes.spines["left"].set_visible(False)


def draw_averages() -> Figure:
    """Draw the two averages of scans whose peaks are in different places."""
    contrasts = ((0.15, 0.44, 0.90), (0.25, 0.58, 0.90), (0.36, 0.70, 0.90))
    scans = [scan(USUAL, means) for means in contrasts]
    with style.new_figure(9.2, 2.7) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        titles = {"density": "averaged densities", "quantile": "averaged quantiles"}
        for axes, average in zip(panels, ("density", "quantile"), strict=True):
            for one in scans:
                axes.plot(X, standard(one).pdf(X), color=style.FAINT, lw=1.2)
            mean = ndflow.reference(scans, average=average).mixture
            axes.plot(X, mean.pdf(X), color=style.ACCENT, lw=1.8)
            axes.set(title=titles[average], xlabel="standard deviations", xlim=(-3.0, 2.4))
            style.density_axes(axes)
    return figure


def draw_proportions() -> Figure:
    """Draw two people at one scanner, and the map that matching gives the older one."""
    young, old = scan(USUAL), scan((0.26, 0.43, 0.31))
    units = ndflow.transport.align(young)
    reference, own = in_units(young, units), in_units(old, units)
    model = TissueModel(
        tuple(in_units(tissue(which, MEANS), units) for which in range(3)),
        USUAL,
        2.5e-3 * (np.eye(3) - 1 / 3),
    )
    targets = [("to the reference", reference, style.SECOND, "-")]
    for contrast, line in ((0.2, "--"), (0.04, "-")):
        variation = Variation(contrast, OF_SITE.noise)
        found = estimated_proportions(own.quantile(QUANTILE_LEVELS), model, variation)
        goal = model.target(found.proportions)
        targets.append((f"to its tissues, κ = {contrast:g}", goal, style.ACCENT, line))
    with style.new_figure(9.2, 3.0) as figure:
        left, right = figure.subplots(1, 2)
        left.plot(X, reference.pdf(X), color=style.INK, lw=1.5, label="reference")
        left.plot(X, own.pdf(X), color=style.SECOND, lw=1.5, label="a person with more CSF")
        left.set(title="one scanner, two people", xlabel="intensity", xlim=(-3.2, 2.2))
        left.legend(loc="upper left", fontsize=7)
        style.density_axes(left)
        x = np.linspace(*own.quantile([0.002, 0.998]), 500)
        right.axhline(0, color=style.FAINT, lw=1.2)
        for name, target, colour, line in targets:
            imap = ndflow.transport.QuantileMap(own, target)
            right.plot(x, imap(x) - x, color=colour, ls=line, lw=1.5, label=name)
        right.set(
            title="what the map changes (nothing should)",
            xlabel="intensity",
            ylabel="result − intensity",
            xlim=(-3.2, 2.2),
        )
        right.legend(loc="upper right", fontsize=7)
    return figure


DRAWN = {
    "method-flow.svg": lambda: style.svg(draw_flow()),
    "method-averages.svg": lambda: style.svg(draw_averages()),
    "method-proportions.svg": lambda: style.svg(draw_proportions()),
}


if __name__ == "__main__":
    for name, draw in DRAWN.items():
        (FOLDER / name).write_bytes(draw())
