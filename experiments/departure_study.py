"""The figures of docs/concepts/departures.md: what the paper's choices and ours do on real scans.

    python experiments/departure_study.py COHORT

COHORT is a BIDS folder of brains with masks, whose participants.tsv has the site. Scans of each
site are matched to scans of every other site, four pairs for each two sites:

- *evidence*: how many components a fit finds, by how many voxels a scan is taken to be worth, if
  each of its voxels were there often enough (two million, say, of a scan at 1 mm);
- *match*: how far the result is from its target (W1), and the largest factor by which a component
  has become wider, for gradient steps as in the paper, and for a minimum with and without the
  regulariser;
- *flow*: the error of 100 Runge-Kutta steps along either path, against the exact map;
- *table*: the error of 200 equally spaced points, joined by straight lines or by cubics.

All distances are in standard deviations of the target. No image is written.
"""

import csv
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import nibabel as nib
import numpy as np

import ndflow
from ndflow import GaussianMixture
from ndflow.transport import QuantileMap, match, tabulate
from ndflow.transport.divergence import Energy, divergence
from ndflow.transport.normalising_map import flow_map

LEVELS = (np.arange(199) + 0.5) / 199
ENDS = (0.0005, 0.9995)
EVIDENCE = (1e3, 1e4, 1e5, 1e6, 1e7)
PAIRS = 4
STEPS = 200  # of gradient descent

Pair = tuple[ndflow.GaussianMixture, ndflow.GaussianMixture]


def read_histograms(cohort: Path) -> dict[str, list[ndflow.Histogram]]:
    """Count the voxels of all scans, by site."""
    sites: dict[str, list[ndflow.Histogram]] = {}
    with (cohort / "participants.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            name = row["participant_id"]
            stem = cohort / name / "anat" / name
            files = (f"{stem}_T1w.nii.gz", f"{stem}_desc-brain_mask.nii.gz")
            image, mask = (np.asarray(nib.load(path).dataobj) for path in files)
            sites.setdefault(row["site"], []).append(ndflow.histogram(image, mask))
    return sites


def evidence(histograms: list[ndflow.Histogram]) -> None:
    many = [
        ndflow.Histogram(one.values, one.counts * 1000, one.widths, one.origin)
        for one in histograms
    ]
    for count in EVIDENCE:
        found = [ndflow.fit(one, effective_count=count).mixture.components for one in many]
        median, least, most = np.median(found), min(found), max(found)
        print(f"worth {count:g} voxels: {median:g} components ({least} to {most})")


def standardised(histogram: ndflow.Histogram) -> ndflow.GaussianMixture:
    """Fit a density, and give it mean 0 and standard deviation 1."""
    mixture = ndflow.fit(histogram).mixture
    affine = ndflow.transport.align(mixture)
    return mixture.transformed(affine.matrix, affine.offset)


def read_pairs(sites: dict[str, list[ndflow.Histogram]]) -> list[Pair]:
    """Return aligned pairs of densities of different sites."""
    return [
        (standardised(sites[one][i]), standardised(sites[two][i]))
        for one, two in permutations(sorted(sites), 2)
        for i in range(PAIRS)
    ]


def descended(source: GaussianMixture, target: GaussianMixture) -> GaussianMixture:
    """Match by plain gradient descent, as in the paper; a step that would go up is halved."""
    here, rate, energy = source, 1.0, Energy(target, "l2")
    for _ in range(STEPS):
        value, by_mean, by_variance = energy(here.weights, here.means, here.covariances)
        by_precision = -here.covariances * by_variance * here.covariances
        while rate > 1e-12:
            means, precisions = here.means - rate * by_mean, here.precisions - rate * by_precision
            if precisions.min() > 0:
                there = GaussianMixture(source.weights, means, precisions)
                if divergence(there, target) <= value:
                    here = there
                    break
            rate /= 2
    return here


def matches(pairs: list[Pair]) -> None:
    ways: dict[str, Callable[[Pair], GaussianMixture]] = {
        "L2, 200 gradient steps, no regulariser": lambda pair: descended(*pair),
        "L2, minimised, no regulariser": lambda pair: match(*pair, regularisation=0.0).matched,
        "L2, minimised, gamma .001": lambda pair: match(*pair).matched,
        "Cramer, minimised, gamma .001": lambda pair: match(*pair, objective="cramer").matched,
    }
    aligned = [np.abs(q.quantile(LEVELS) - p.quantile(LEVELS)).mean() for q, p in pairs]
    print(f"{len(pairs)} pairs, aligned: W1 {np.mean(aligned):.3f}")
    for name, way in ways.items():
        left, wider, moved = [], [], []
        for q, p in pairs:
            end = way((q, p))
            x = q.quantile(LEVELS)
            imap = QuantileMap(q, end)
            left.append(np.abs(imap(x) - p.quantile(LEVELS)).mean())
            far = q.quantile(ENDS)
            moved.append(np.abs(imap(far) - far).max())
            wider.append(np.sqrt(q.precisions / end.precisions).max())
        print(
            f"{name}: W1 {np.mean(left):.3f}, wider by up to {np.median(wider):.1f} "
            f"(median of pairs), {max(wider):.1f} (worst), "
            f"more than 10 in {np.sum(np.array(wider) > 10)}; moves up to {max(moved):.1f} sd"
        )


def flows(pairs: list[Pair]) -> None:
    errors, straight, cubic = [], [], []
    for q, p in pairs:
        found = match(q, p)
        identity = ndflow.Affine(1.0, 0.0)
        low, high = q.quantile(ENDS).tolist()
        x = np.linspace(low, high, 5001)
        exact = flow_map(identity, found)(x)
        errors.append(np.abs(flow_map(identity, found, solver="rk4")(x) - exact).max())
        imap = flow_map(identity, found)
        knots = np.linspace(low, high, 200)
        straight.append(np.abs(np.interp(x, knots, imap(knots)) - exact).max())
        cubic.append(np.abs(tabulate(imap, low, high, tolerance=1.0)(x) - exact).max())
    for name, values in (
        ("flow", errors),
        ("table, straight", straight),
        ("table, cubic", cubic),
    ):
        print(f"{name}: error {np.median(values):.1e} (median), {max(values):.1e} (worst)")


def main(cohort: Path) -> None:
    sites = read_histograms(cohort)
    evidence([one for histograms in sites.values() for one in histograms[:PAIRS]])
    pairs = read_pairs(sites)
    matches(pairs)
    flows(pairs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
