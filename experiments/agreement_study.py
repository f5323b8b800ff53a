"""Can positions of GM and WM without tissue maps judge methods? docs/reference/evaluation.md.

    python experiments/agreement_study.py COHORT [WORLDS]

COHORT is a BIDS dataset with masks and tissue probability maps. A report with such maps says how
far the medians of tissues lie apart between scans, in units of the gap between GM and WM. Without
maps there is only the density of each scan. Candidates find GM and WM there; their positions go
through the maps of ten methods, and the methods are ranked by the standard deviation over scans,
mean of both tissues, in units of the mean gap. A good candidate ranks them

- as the medians of tissues do, in the scans of the cohort and in each of its sites;
- as the truth does in random simulated studies (the spread of ``benchmarks/worlds.py``), at least
  as well as medians from true tissue maps do.

Candidates were compared on every other scan and on worlds with even seeds, and are reported on the
others. Numbers are Spearman's rank correlations over methods, medians over WORLDS (6) worlds.
*Error* is the standard deviation of ``position − median`` within sites, mean of both tissues, in
units of the gap, and *shown* the number that a user would see for the default, z-scoring and Nyúl.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr
from study import flat

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import worlds

from ndflow.density import GaussianMixture, Histogram, fit, histogram
from ndflow.evaluation.tissues import weighted_quantile
from ndflow.image.read import read_volume
from ndflow.methods.base import DensityModel, method_called
from ndflow.options import Options
from ndflow.population import TISSUES
from ndflow.transport import IntensityMap, align

METHODS = {
    "z-scored": Options(method="affine"),
    "nyul": Options(method="nyul"),
    "quantile": Options(method="quantile"),
    "hellier": Options(method="hellier"),
    "paper": Options(),
    "site": Options(mode="site"),
    "individual, quantiles averaged": Options(average="quantile"),
    "individual, adaptive": Options(**{**worlds.ADAPTIVE, "mode": "individual"}),
    "two-level, average": Options(**{**worlds.ADAPTIVE, "proportions": "average"}),
    "two-level, adaptive": Options(**worlds.ADAPTIVE),
}
SHOWN = ["two-level, adaptive", "z-scored", "nyul"]
LANDMARKS = ("nyul", "quantile", "hellier")
X = np.linspace(-4.5, 4.5, 901)  # standard deviations of a scan
PAIR = tuple[float, float]  # GM and WM


class Scans(NamedTuple):
    """The scans of a study: sites, densities, medians of CSF, GM and WM, and maps of methods."""

    sites: list[str]
    mixtures: list[GaussianMixture]
    medians: np.ndarray
    maps: dict[str, list[IntensityMap]]
    truth: dict[str, float]


def mapped(sites: list[str], counted: list[Histogram]) -> tuple[list[GaussianMixture], dict]:
    """Return the densities of scans, and the maps of all methods."""
    mixtures = [fit(one).mixture for one in counted]
    names = [str(place) for place in range(len(sites))]
    maps = {}
    for label, options in METHODS.items():
        name = options.method
        known = [
            method_called(name).measure(one, options) if name in LANDMARKS else None
            for one in counted
        ]
        models = dict(zip(names, map(DensityModel, mixtures, known), strict=True))
        goals = worlds.goals_in_memory(dict(zip(names, sites, strict=True)), models, options)
        maps[label] = [goals[name].solve(models[name]).imap for name in names]
    return mixtures, maps


def cohort_scans(cohort: Path) -> Scans:
    """Read the scans of the cohort."""
    sites, counted, medians = [], [], []
    with (cohort / "participants.tsv").open(encoding="utf-8") as file:
        people = list(csv.DictReader(file, delimiter="\t"))
    for person in people:
        name = person["participant_id"]
        start = cohort / name / "anat" / name
        volume = read_volume(f"{start}_T1w.nii.gz")
        inside = flat(Path(f"{start}_desc-brain_mask.nii.gz")) > 0.5
        stored = volume.flat[inside]
        values = np.asarray(volume.values(stored), np.float64)
        labels = [flat(Path(f"{start}_label-{one}_probseg.nii.gz"))[inside] for one in TISSUES]
        sites.append(person["site"])
        counted.append(histogram(stored, slope=volume.slope, inter=volume.inter))
        medians.append([weighted_quantile(values, one, [0.5])[0] for one in labels])
    mixtures, maps = mapped(sites, counted)
    return Scans(sites, mixtures, np.array(medians), maps, {})


def world_scans(seed: int) -> Scans:
    """Draw the scans of a world."""
    anatomy = worlds.load_anatomy()
    world = worlds.draw_world(seed, anatomy, worlds.world_grid(anatomy))
    sites = [scan.site for scan in world.scans]
    counted = [histogram(np.rint(scan.values).astype(np.int16)) for scan in world.scans]
    mixtures, maps = mapped(sites, counted)
    medians = np.array([worlds._medians(scan, scan.values) for scan in world.scans])
    names = [scan.name for scan in world.scans]
    truths = {scan.name: worlds._truth(scan) for scan in world.scans}
    truth = {
        label: worlds.recovery_of(dict(zip(names, own, strict=True)), truths).spread
        for label, own in maps.items()
    }
    return Scans(sites, mixtures, medians, maps, truth)


# ── candidates: GM and WM of a density of zero mean and unit standard deviation ───────────────────


def smoothed(mixture: GaussianMixture, sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a density after Gaussian smoothing, and minus its second derivative."""
    variances = mixture.covariances[:, 0, 0] + sd**2
    scores = (X[:, np.newaxis] - mixture.means[:, 0]) / np.sqrt(variances)
    parts = mixture.weights * np.exp(-(scores**2) / 2) / np.sqrt(2 * np.pi * variances)
    return parts.sum(axis=1), (parts * (1 - scores**2) / variances).sum(axis=1)


def two_highest(y: np.ndarray) -> PAIR:
    """Return the places of the two highest maxima of positive values above −.8, in their order."""
    inner = y[1:-1]
    peaks = (inner > y[:-2]) & (inner >= y[2:]) & (inner > 0) & (X[1:-1] > -0.8)
    places = np.flatnonzero(peaks) + 1
    best = np.sort(X[places[np.argsort(-y[places])][:2]])
    return (best[0], best[1]) if best.size == 2 else (np.nan, np.nan)


def mirrored(mixture: GaussianMixture, sd: float) -> PAIR:
    """Return WM by its curvature, and the mode of what WM, mirrored at its peak, leaves."""
    density, curvature = smoothed(mixture, sd)
    _, wm = two_highest(curvature)
    rest = np.maximum(density - np.interp(2 * wm - X, X, density, left=0, right=0), 0)
    return float(X[np.argmax(np.where((wm - 2 < X) & (wm - 0.2 > X), rest, 0))]), wm


def three_means(mixture: GaussianMixture) -> PAIR:
    """Return the medians of the upper two of three classes (three-class Otsu)."""
    below = mixture.cdf(X)
    moment = np.cumsum(X * np.diff(below, prepend=0))
    means = mixture.quantile(np.array([1, 3, 5]) / 6)
    for _ in range(200):
        cuts = (means[1:] + means[:-1]) / 2
        shares = np.concatenate([[0], np.interp(cuts, X, below), [1]])
        moments = np.concatenate([[0], np.interp(cuts, X, moment), moment[-1:]])
        means = np.diff(moments) / np.diff(shares)
    middle = mixture.quantile((shares[1:] + shares[:-1]) / 2)
    return float(middle[1]), float(middle[2])


Classes = tuple[np.ndarray, np.ndarray, np.ndarray]  # means, sds, weights
START = np.array([0.6, 0.35, 0.25]), np.array([0.2, 0.45, 0.35])


def three_gaussians(mixture: GaussianMixture, usual: Classes | None, strength: float) -> Classes:
    """Fit three Gaussians to a density, held to the usual ones by a share of all voxels."""
    shares = mixture.pdf(X) / mixture.pdf(X).sum()
    means, sds, weights = usual or (mixture.quantile(np.array([0.09, 0.42, 0.83])), *START)
    old, width = (means, sds) if usual else (0.0, 0.0)
    for _ in range(150):
        parts = weights / sds * np.exp(-(((X[:, np.newaxis] - means) / sds) ** 2) / 2)
        parts *= (shares / (parts.sum(axis=1) + 1e-300))[:, np.newaxis]
        mass = parts.sum(axis=0)
        means = (X @ parts + strength * old) / (mass + strength)
        squares = (parts * (X[:, np.newaxis] - means) ** 2).sum(axis=0)
        squares += strength * (np.square(width) + (means - old) ** 2)
        sds, weights = np.maximum(np.sqrt(squares / (mass + strength)), 0.08), mass / mass.sum()
    return means, sds, weights


def gaussians(mixtures: list[GaussianMixture], strength: float) -> list[PAIR]:
    """Return GM and WM as two of three Gaussians; the usual ones are medians over scans."""
    found = [three_gaussians(one, None, 0.0) for one in mixtures]
    for _ in range(3 if strength else 0):
        usual = tuple(np.median(part, axis=0) for part in zip(*found, strict=True))
        found = [three_gaussians(one, usual, strength) for one in mixtures]
    return [(means[1], means[2]) for means, _, _ in found]


def each(find: Callable[[GaussianMixture], PAIR]) -> Callable[[list[GaussianMixture]], list[PAIR]]:
    """Return a candidate that looks at one scan at a time."""
    return lambda mixtures: [find(one) for one in mixtures]


CANDIDATES: dict[str, Callable[[list[GaussianMixture]], list[PAIR]]] = {
    "quantiles .4 and .85": each(lambda m: tuple(m.quantile(np.array([0.4, 0.85])))),
    "three classes (Otsu)": each(three_means),
    "highest modes, smoothed by .1 sd": each(lambda m: two_highest(smoothed(m, 0.1)[0])),
    "the same by .2 sd": each(lambda m: two_highest(smoothed(m, 0.2)[0])),
    "largest curvature, by .2 sd": each(lambda m: two_highest(smoothed(m, 0.2)[1])),
    "the same by .3 sd": each(lambda m: two_highest(smoothed(m, 0.3)[1])),
    "WM mirrored, by .3 sd": each(lambda m: mirrored(m, 0.3)),
    "three Gaussians": lambda mixtures: gaussians(mixtures, 0.0),
    "held to the usual ones by .02": lambda mixtures: gaussians(mixtures, 0.02),
    "the same by .1": lambda mixtures: gaussians(mixtures, 0.1),
}


# ── scores ────────────────────────────────────────────────────────────────────────────────────────


def apart(scans: Scans, places: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return how far positions, GM and WM last, lie apart after each method."""
    used = np.flatnonzero(some & np.isfinite(places).all(axis=1))
    if used.size < 3:
        return np.full(len(METHODS), np.nan)
    found = []
    for maps in scans.maps.values():
        after = np.array([maps[k](places[k]) for k in used])
        found.append(after.std(axis=0, ddof=1).mean() / (after[:, -1] - after[:, -2]).mean())
    return np.array(found)


def positions(scans: Scans, candidate: Callable[[list[GaussianMixture]], list[PAIR]]) -> np.ndarray:
    """Return GM and WM of all scans, in their own units."""
    ways = [align(one) for one in scans.mixtures]
    pairs = zip(scans.mixtures, ways, strict=True)
    aligned = [one.transformed(way.matrix, way.offset) for one, way in pairs]
    found = [np.asarray(one, np.float64) for one in candidate(aligned)]
    return np.array(
        [
            np.asarray(way.inverse()(one)) if np.isfinite(one).all() else one
            for way, one in zip(ways, found, strict=True)
        ]
    )


def ranks(one: np.ndarray, other: np.ndarray) -> float:
    """Return Spearman's correlation."""
    return float(spearmanr(one, other).statistic)


def error(scans: Scans, places: np.ndarray, some: np.ndarray) -> float:
    """Return the error of GM and WM within sites, in units of the gap, of z-scored scans."""
    used = np.flatnonzero(some & np.isfinite(places).all(axis=1))
    ways = [align(scans.mixtures[k]) for k in used]
    true = np.array([way(scans.medians[k, 1:]) for way, k in zip(ways, used, strict=True)])
    off = np.array([way(places[k, -2:]) for way, k in zip(ways, used, strict=True)]) - true
    site = np.array(scans.sites)[used]
    for name in {*site}:
        off[site == name] -= off[site == name].mean(axis=0)
    return float(off.std(axis=0).mean() / np.diff(true).mean())


def main() -> None:
    """Run."""
    cohort, count = cohort_scans(Path(sys.argv[1])), int((*sys.argv, "6")[2])
    site = np.array(cohort.sites)
    groups = {"all": site != "", **{name: site == name for name in sorted({*cohort.sites})}}
    known = {"medians of CSF, GM and WM": slice(None), "of GM and WM": slice(1, None)}
    for half, first in (("chosen on", 0), ("reported on", 65)):
        drawn = [world_scans(seed) for seed in range(first, first + 2 * count, 2)]
        some = np.arange(site.size) % 2 == (first > 0)

        def of_worlds(places: Callable[[Scans], np.ndarray]) -> list[np.ndarray]:
            return [apart(one, places(one), np.ones(len(one.sites), bool)) for one in drawn]  # noqa: B023

        labels = {
            group: apart(cohort, cohort.medians[:, 1:], some & own) for group, own in groups.items()
        }
        goals = (
            [np.array([*one.truth.values()]) for one in drawn],
            of_worlds(lambda one: one.medians[:, 1:]),
        )
        print(f"\n{half} {some.sum()} scans and {count} worlds from seed {first}\n")
        print(f"| | {' | '.join(groups)} | error | shown | worlds: truth | labels |")
        print("|---|" + "--:|" * (len(groups) + 4))
        for name in (*known, *CANDIDATES):

            def places(one: Scans, name: str = name) -> np.ndarray:
                if name in known:
                    return one.medians[:, known[name]]
                return positions(one, CANDIDATES[name])

            found, judged = places(cohort), of_worlds(places)
            here = {group: apart(cohort, found, some & own) for group, own in groups.items()}
            shown = dict(zip(METHODS, here["all"], strict=True))
            cells = [f"{ranks(here[group], labels[group]):.2f}" for group in groups]
            cells += [f"{error(cohort, found, some):.3f}"]
            cells += [", ".join(f"{100 * shown[one]:.1f}" for one in SHOWN)]
            for goal in goals:
                one = [ranks(a, b) for a, b in zip(judged, goal, strict=True)]
                cells.append(f"{np.median(one):.2f} ({np.min(one):.2f})")
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
