"""Is a joint flow worth it? Worlds of several channels with a known truth.

    python benchmarks/channel_worlds.py [--channels 2] [--worlds 24]
    python benchmarks/channel_worlds.py --kinds mixing --mixing 0.1  # scanners that mix less

Each scan is brought to the density of the reference: by aligning the mean and standard deviation of
each channel, by a map of each channel, and by the joint map; the last two also found without the
voxels of lesions. No setting of a method was chosen by these worlds. How much scanners mix channels
was raised from 0.2 to 0.3 after a look at the world with the seed 0, which is not reported, so 0.1
and 0.2 are reported as well.
Numbers are means over worlds, and medians of the ratio to the maps of each channel in the same
world, with 95 % bootstrap intervals over worlds.

Tissues that overlap in one channel are apart in another, as in the brain: GM and WM differ in T1w
and hardly in FLAIR, CSF is dark in T1w and FLAIR and bright in T2w, and lesions look like GM in T1w
but are the brightest of all in FLAIR. People are those of `ndflow.demo.simulate`; the *canonical*
intensities of a voxel, one for each channel, are the means of its tissues and lesion, plus texture.

There is a reference: some healthy people, whose scanner shows canonical intensities. Other scanners
show ``f_j(z_j)`` in channel j, with an increasing contrast curve f_j of their own and

    z = (I + W) c,    W_jj = −Σ_i W_ji,                                                  (1)

so that channel j has a share W_ji of the contrast of channel i, which may be negative. Kinds of
worlds differ in what scanners do:

- ``"curves"``: W = 0. Maps of each channel can undo all of it.
- ``"mixing"``: W is random, up to a largest share. Maps of each channel cannot undo it, as it
  changes how channels depend on each other.
- ``"people"``: scanners show canonical intensities, as that of the reference does. Only people
  differ, in their age and so in the amounts of tissues, and nothing is to be undone.

Each scan is by a scanner of its own. Half of the people have a lesion; nobody in the reference has.

All maps bring scans to the same reference, so everything is measured in its scale, in standard
deviations of its canonical intensities, channel by channel.

- *spread*: voxels of the same canonical intensities, shown by each of the scanners and then mapped,
  should have the same values. The root mean square difference from their mean over scans; the
  voxels are those of the reference.
- *error*: the root mean square difference of the same values from the truth, which the reference
  shows.
- *tissues*: the quartiles of CSF, GM and WM in the mapped scans, without noise and bias field,
  minus the true ones; the standard deviation over scans, as a root mean square over the nine.
- *lesion*: the contrast of lesions with WM in FLAIR, relative to the true contrast; the root mean
  square of how far that is from 1. `kept` is its mean: below 1, lesions fade.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats
from scipy.interpolate import PchipInterpolator
from worlds import world_grid

from ndflow.demo.simulate import (
    MEANS,
    Grid,
    SimulatedSubject,
    draw_fields,
    make_subject,
    simulate_scan,
)
from ndflow.density import GaussianMixture, fit, histogram
from ndflow.density.condense import joint_histogram
from ndflow.evaluation.tissues import weighted_quantile
from ndflow.preparation.registration import Anatomy, load_anatomy
from ndflow.transport import Affine, IntensityMap, PiecewiseLinear
from ndflow.transport.joint import EFFECTIVE_COUNT, JointMap, joint_map
from ndflow.values import FloatArray

# ── worlds ────────────────────────────────────────────────────────────────────────────────────────

CHANNELS = ("T1w", "FLAIR", "T2w")
KINDS = ("curves", "mixing", "people")
MIXING = 0.3  # the largest share of one channel in another

_TISSUE_MEANS = np.array([MEANS, (0.15, 0.62, 0.55), (0.95, 0.55, 0.42)])  # CSF, GM, WM
_LESION_MEANS = np.array([0.65, 0.95, 0.75])
_SHARED = np.array([1.0, -0.3, -0.5])  # of the texture of T1w
_TEXTURE = 0.03  # sd of each channel's own texture
_NODES = np.linspace(-0.4, 1.6, 6)  # intensities at which a contrast curve is given
_CONTRAST = (0.15, 0.5)  # sd of the logarithms of its increments
_GAIN, _NOISE, _BIAS = (300, 2000), (0.008, 0.025), (0.01, 0.04)  # see `simulate_scan`
_AGES, _AGE = (20.0, 80.0), 50.0
_ATROPHY, _ATROPHY_PER_YEAR, _ATROPHY_SD = 1.4, 0.025, 0.35  # as in the demonstration
_SCANS, _REFERENCE = 4, 4  # scans to normalise, and people in the reference


class Scanner(NamedTuple):
    """What a scanner makes of canonical intensities.

    Attributes
    ----------
    mixing : (d, d), the matrix I + W of equation (1).
    curves : the contrast curve of each channel.
    noise, bias : see `simulate_scan`.
    """

    mixing: FloatArray
    curves: tuple[PiecewiseLinear, ...]
    noise: float
    bias: float

    def shown(self, canonical: FloatArray) -> FloatArray:
        """Return what it shows of canonical intensities, (n, d), without noise and bias field."""
        mixed = self.mixed(canonical)
        columns = zip(self.curves, mixed.T, strict=True)
        return np.stack([curve(column) for curve, column in columns], axis=1)

    def mixed(self, canonical: FloatArray) -> FloatArray:
        """Return z of equation (1)."""
        mixed: FloatArray = np.einsum("ji,ni->nj", self.mixing, canonical)
        return mixed


class ChannelScan(NamedTuple):
    """A scan of several channels, and the truth about it.

    Attributes
    ----------
    values, canonical : (n, d), its intensities, and what they truly are.
    tissues : (n, 3), the probabilities of CSF, GM and WM.
    lesion : (n,), whether a voxel belongs to a lesion.
    scanner : that made it.
    """

    values: FloatArray
    canonical: FloatArray
    tissues: FloatArray
    lesion: NDArray[np.bool_]
    scanner: Scanner


class ChannelWorld(NamedTuple):
    """A reference, and scans that are to look like it.

    Attributes
    ----------
    reference : scans of healthy people by one scanner, which shows canonical intensities.
    scans : each by a scanner of its own.
    """

    reference: tuple[ChannelScan, ...]
    scans: tuple[ChannelScan, ...]


def draw_channel_world(
    seed: int, kind: str, channels: int, anatomy: Anatomy, grid: Grid, *, mixing: float = MIXING
) -> ChannelWorld:
    """Draw a random world of several channels.

    Parameters
    ----------
    seed : the same seed gives the same people in worlds of all kinds, and the same curves.
    kind : one of `KINDS`.
    channels : how many of `CHANNELS`, two or three.
    anatomy : the template.
    grid : of the scans, see `world_grid`.
    mixing : the largest W_ji of equation (1), for the kind ``"mixing"``.
    """
    strength = mixing if kind == "mixing" else 0.0
    contrast = float(np.random.default_rng([seed, 18]).uniform(*_CONTRAST))
    scans = []
    for number in range(_REFERENCE + _SCANS):
        generator = np.random.default_rng([seed, 18, number])
        other = number >= _REFERENCE
        alike = kind == "people" or not other
        scanner = _draw_scanner(contrast, channels, strength * other, alike, generator)
        lesion = other and number % 2 == 1
        scans.append(_scan(anatomy, grid, scanner, lesion, channels, generator))
    return ChannelWorld(tuple(scans[:_REFERENCE]), tuple(scans[_REFERENCE:]))


def _draw_scanner(
    contrast: float, channels: int, mixing: float, alike: bool, generator: np.random.Generator
) -> Scanner:
    count = len(CHANNELS)
    steps = np.diff(_NODES) * np.exp(contrast * generator.standard_normal((count, _NODES.size - 1)))
    shares = mixing * generator.uniform(-1, 1, size=(count, count))[:channels, :channels]
    gains = np.exp(generator.uniform(np.log(_GAIN[0]), np.log(_GAIN[1]), size=count))
    noise, bias = float(generator.uniform(*_NOISE)), float(generator.uniform(*_BIAS))
    if alike:
        steps, gains = np.tile(np.diff(_NODES), (count, 1)), np.full(count, 1000.0)
    np.fill_diagonal(shares, 0.0)
    np.fill_diagonal(shares, 1 - shares.sum(axis=1))
    knots = np.linspace(_NODES[0], _NODES[-1], 201)
    curves = tuple(
        PiecewiseLinear(knots, gain * PchipInterpolator(_NODES, np.cumsum([0, *own]))(knots))
        for own, gain in zip(steps[:channels], gains, strict=False)
    )
    return Scanner(shares, curves, noise, bias)


def _scan(
    anatomy: Anatomy,
    grid: Grid,
    scanner: Scanner,
    lesion: bool,
    channels: int,
    generator: np.random.Generator,
) -> ChannelScan:
    age, own = generator.uniform(*_AGES), generator.standard_normal()
    atrophy = _ATROPHY + _ATROPHY_PER_YEAR * (age - _AGE) + _ATROPHY_SD * own
    fields = draw_fields(anatomy.brain.shape, generator)
    subject = make_subject(anatomy, fields, grid, atrophy=float(atrophy), lesion=lesion)
    canonical = _canonical(subject, generator)[:, :channels]
    columns = zip(scanner.curves, scanner.mixed(canonical).T, strict=True)
    values = [
        simulate_scan(
            subject._replace(canonical=mixed.astype(np.float32)),
            curve,
            generator,
            bias=scanner.bias,
            noise=scanner.noise,
        )
        for curve, mixed in columns
    ]
    return ChannelScan(
        np.stack(values, axis=1).astype(np.float64),
        canonical,
        subject.tissues.astype(np.float64),
        subject.lesion,
        scanner,
    )


def _canonical(subject: SimulatedSubject, generator: np.random.Generator) -> FloatArray:
    """Return the canonical intensities of all channels, (n, 3)."""
    tissues = subject.tissues.astype(np.float64)
    texture = subject.canonical - np.einsum("nk,k->n", tissues, _TISSUE_MEANS[0])
    means = np.einsum("nk,jk->nj", tissues, _TISSUE_MEANS)
    means[subject.lesion] = _LESION_MEANS
    texture[subject.lesion] = 0.0
    fresh = _TEXTURE * generator.standard_normal(means.shape) * (_SHARED != 1)
    canonical: FloatArray = means + texture[:, np.newaxis] * _SHARED + fresh
    return canonical


# ── scores ────────────────────────────────────────────────────────────────────────────────────────

_QUARTILES = (0.25, 0.5, 0.75)
_POINTS = 4000  # voxels of the reference
_FLAIR, _WM = CHANNELS.index("FLAIR"), 2


class ChannelScores(NamedTuple):
    """How well maps recover the truth; 0 is perfect, except for `kept`. See the module.

    Attributes
    ----------
    spread, error, tissues : of each channel.
    lesion, kept : the error of the contrast of lesions in FLAIR, and how much of it is kept.
    """

    spread: tuple[float, ...]
    error: tuple[float, ...]
    tissues: tuple[float, ...]
    lesion: float
    kept: float


def channel_scores(world: ChannelWorld, maps: Sequence[IntensityMap]) -> ChannelScores:
    """Return how well maps recover the truth of a world.

    Parameters
    ----------
    world : a reference, and scans.
    maps : the map that normalises each scan, in their order. The intensities of the reference, and
        so those to reach, are those of its scanner.
    """
    home = world.reference[0].scanner
    truth = np.concatenate([scan.canonical for scan in world.reference])
    truth = truth[:: max(1, len(truth) // _POINTS)]
    sd = home.shown(truth).std(axis=0)
    goal = home.shown(truth) / sd
    pairs = list(zip(world.scans, maps, strict=True))
    shown = np.array([own(scan.scanner.shown(truth)) for scan, own in pairs]) / sd
    off = np.array([_off(scan, own, home.shown(scan.canonical)) / sd for scan, own in pairs])
    contrasts = np.array(
        [
            _contrast(scan, own(scan.values)) / _contrast(scan, home.shown(scan.canonical))
            for scan, own in pairs
            if scan.lesion.any()
        ]
    )
    return ChannelScores(
        _root_mean_square(shown - shown.mean(axis=0)),
        _root_mean_square(shown - goal),
        _root_mean_square(off.std(axis=0, ddof=1)),
        float(np.sqrt(((contrasts - 1) ** 2).mean())),
        float(contrasts.mean()),
    )


def _root_mean_square(values: FloatArray) -> tuple[float, ...]:
    """Return the root mean square of each channel, over all axes but the last."""
    rows = values.reshape(-1, values.shape[-1])
    return tuple(np.sqrt((rows**2).mean(axis=0)).tolist())


def _off(scan: ChannelScan, own: IntensityMap, truth: FloatArray) -> FloatArray:
    """Return how far the quartiles of tissues, (3, 3, d), are from the true ones."""
    mapped = own(scan.scanner.shown(scan.canonical))
    return _quartiles(scan, mapped) - _quartiles(scan, truth)


def _quartiles(scan: ChannelScan, values: FloatArray) -> FloatArray:
    """Return the quartiles of CSF, GM and WM outside lesions in each channel, (3, 3, d)."""
    healthy = ~scan.lesion
    return np.array(
        [
            [weighted_quantile(column[healthy], share[healthy], _QUARTILES) for column in values.T]
            for share in scan.tissues.T
        ]
    ).swapaxes(1, 2)


def _contrast(scan: ChannelScan, values: FloatArray) -> float:
    """Return the contrast of the lesion with WM in FLAIR, by medians."""
    flair, healthy = values[:, _FLAIR], ~scan.lesion
    wm = weighted_quantile(flair[healthy], scan.tissues[healthy, _WM], [0.5])[0]
    return float(np.median(flair[scan.lesion]) - wm)


# ── all methods in all worlds ─────────────────────────────────────────────────────────────────────

ALIGNED, ALONE, JOINT = "alignment", "each channel by itself", "joint"
WITHOUT = ", lesions left out"
METHODS = (ALIGNED, ALONE, ALONE + WITHOUT, JOINT, JOINT + WITHOUT)

Row = dict[str, dict[str, ChannelScores]]  # by kind and method


def aligned(scan: ChannelScan, target: GaussianMixture) -> IntensityMap:
    """Return the map that aligns the mean and standard deviation of each channel."""
    scale = np.sqrt(np.diagonal(target.covariance())) / scan.values.std(axis=0)
    return Affine(np.diag(scale), target.mean() - scale * scan.values.mean(axis=0))


def found(values: np.ndarray, target: GaussianMixture) -> JointMap:
    """Return the joint map of some voxels; its first stage are the maps of each channel."""
    return joint_map(values, [fit(histogram(column)).mixture for column in values.T], target)


def one_world(seed: int, channels: int, kinds: Sequence[str], mixing: float) -> Row:
    """Run all methods in the worlds of some kinds with a seed."""
    anatomy = load_anatomy()
    grid = world_grid(anatomy)
    row = {}
    for kind in kinds:
        world = draw_channel_world(seed, kind, channels, anatomy, grid, mixing=mixing)
        voxels = np.concatenate([scan.values for scan in world.reference])
        target = fit(joint_histogram(voxels), effective_count=EFFECTIVE_COUNT).mixture
        maps: dict[str, list[IntensityMap]] = {name: [] for name in METHODS}
        for scan in world.scans:
            whole = found(scan.values, target).map
            healthy = found(scan.values[~scan.lesion], target).map if scan.lesion.any() else whole
            maps[ALIGNED].append(aligned(scan, target))
            for name, own in (("", whole), (WITHOUT, healthy)):
                maps[ALONE + name].append(own.maps[0])
                maps[JOINT + name].append(own)
        row[kind] = {name: channel_scores(world, own) for name, own in maps.items()}
    print(f"world {seed}", file=sys.stderr, flush=True)
    return row


def interval(values: np.ndarray, statistic: Any = np.mean, digits: int = 3) -> str:
    """Return a statistic with its 95 % bootstrap interval over worlds."""
    generator = np.random.default_rng(0)
    drawn = generator.integers(values.size, size=(2000, values.size))
    low, high = np.quantile([statistic(values[own]) for own in drawn], [0.025, 0.975])
    cells = (f"{number:.{digits}f}" for number in (statistic(values), low, high))
    return "{} ({}–{})".format(*cells)


def table(rows: list[Row], kind: str, channels: int) -> str:
    """Return the table of one kind of worlds, in Markdown."""
    names = CHANNELS[:channels]
    head = [f"spread, {name}" for name in names] + [f"tissues, {name}" for name in names]
    head = ["", *head, "÷ each by itself: spread", "tissues", "better (spread)", "lesion kept"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    scores = {name: [row[kind][name] for row in rows] for name in METHODS}
    before = {
        field: np.array([getattr(one, field) for one in scores[ALONE]])
        for field in ("spread", "tissues")
    }
    for name, own in scores.items():
        cells, ratios = [name], []
        for field in ("spread", "tissues"):
            values = np.array([getattr(one, field) for one in own])
            cells += [interval(column) for column in values.T]
            ratios.append(np.sqrt((values**2).mean(axis=1) / (before[field] ** 2).mean(axis=1)))
        won = int((ratios[0] < 1).sum())
        low, high = stats.binomtest(won, len(rows)).proportion_ci()
        same = name == ALONE
        cells += ["–" if same else interval(ratio, np.median, 2) for ratio in ratios]
        cells.append("–" if same else f"{won} of {len(rows)} ({low:.0%}–{high:.0%})")
        cells.append(interval(np.array([one.kept for one in own]), digits=2))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--channels", type=int, default=2, choices=[2, 3])
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument(
        "--mixing",
        type=float,
        default=MIXING,
        help="the largest share",
    )
    parser.add_argument("--worlds", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the scores of each world to this file")
    given = parser.parse_args()
    seeds = range(1, 1 + given.worlds)
    rows = Parallel(given.jobs)(
        delayed(one_world)(seed, given.channels, given.kinds, given.mixing) for seed in seeds
    )
    if given.json:
        plain = [
            {kind: {name: one._asdict() for name, one in own.items()} for kind, own in row.items()}
            for row in rows
        ]
        given.json.write_text(json.dumps(dict(zip(seeds, plain, strict=True)), indent=1))
    for kind in given.kinds:
        print(f"\n### {kind}\n\n{table(rows, kind, given.channels)}")


if __name__ == "__main__":
    main()
