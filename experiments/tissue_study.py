"""Tissues in the results of docs/study.md, with references from all scans or from other scans.

An increasing map takes quantiles to quantiles, so no image has to be read again: the quantiles of a
brain, and the quartiles of its tissues, go through the maps of a run. For *references of other
scans* they go through maps to references of four fifths of the scans of each site, and each fifth
is left out in turn: no scan goes into what it is matched to. The division is random, and repeated.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import ndflow
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.evaluation.distribution import empirical_distribution
from ndflow.evaluation.tissues import quartiles
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.population import TISSUES
from ndflow.study.finished import FinishedStudy, read_finished
from ndflow.study.references import make_references
from ndflow.subject.records import ScanModel
from ndflow.subject.voxels import probabilities, read_voxels
from ndflow.transport import IntensityMap

FOLDS, REPEATS = 5, 5
MAX_BYTES = Options().max_bytes
ORDER = [TISSUES.index(tissue) for tissue in ("WM", "GM", "CSF")]

Floats = NDArray[np.float64]


class Seen(NamedTuple):
    """The scans as they are.

    Attributes
    ----------
    scans : the scans.
    cells : quartiles of WM, GM and CSF, (scans, 9).
    quantiles : of brains, (scans, 199).
    voxels : the intensities of each brain, and how often each occurs.
    """

    scans: Sequence[Subject]
    cells: Floats
    quantiles: Floats
    voxels: list[tuple[Floats, Floats]]

    @property
    def sites(self) -> list[str]:
        return [scan.site or "" for scan in self.scans]


class Moved(NamedTuple):
    """The same after normalisation; brains have mean 0 and standard deviation 1 on average."""

    cells: Floats
    quantiles: Floats


def seen(folder: Path) -> Seen:
    """Look at the images of a run whose table has tissue maps."""
    (run,) = read_finished([folder])
    scans = sorted(run.study.scans, key=lambda scan: scan.name)
    cells, brains, voxels = [], [], []
    for scan in scans:
        masked = read_voxels(scan, max_bytes=MAX_BYTES)
        volume, inside = masked.volume, masked.inside[:]
        values = np.asarray(volume.values(volume.flat[inside]), np.float64)
        maps = [probabilities(file, volume, inside, MAX_BYTES)[0] for file in scan.tissues]
        cells.append([quartiles(values, maps[tissue]) for tissue in ORDER])
        levels, counts = np.unique(values, return_counts=True)
        brains.append(empirical_distribution(levels, counts).quantile(QUANTILE_LEVELS))
        voxels.append((levels, counts / counts.sum()))
    return Seen(scans, np.array(cells).reshape(len(scans), 9), np.array(brains), voxels)


def moved(known: Seen, folder: Path) -> Moved:
    """Return what a run makes of the scans."""
    (run,) = read_finished([folder])
    paths = (run.study.paths(run.scans[scan.name]) for scan in known.scans)
    return _through(known, [ndflow.load(one.sidecar) for one in paths])


def moved_otherwise(known: Seen, folder: Path, kept: Path) -> Floats:
    """Return the quartiles of tissues with references of other scans, (scans, repeats, 9).

    They take long, so they are kept in a folder, under the name of the run and its fingerprint.
    """
    (run,) = read_finished([folder])
    file = kept / f"{run.name}-{run.results[:16]}-{REPEATS}.npy"
    if not file.exists():
        repeats = (np.random.default_rng(seed) for seed in range(REPEATS))
        cells = [_through(known, _crossed(run, known, one)).cells for one in repeats]
        kept.mkdir(exist_ok=True)
        np.save(file, np.stack(cells, axis=1))
    return np.asarray(np.load(file), np.float64)


def _through(known: Seen, maps: Sequence[IntensityMap]) -> Moved:
    brains = np.array([f(q) for f, q in zip(maps, known.quantiles, strict=True)])
    cells = np.array([f(q) for f, q in zip(maps, known.cells, strict=True)])
    means, sds = [], []
    for imap, (levels, shares) in zip(maps, known.voxels, strict=True):
        after = imap(levels)
        means.append(shares @ after)
        sds.append(np.sqrt(shares @ (after - means[-1]) ** 2))
    middle, unit = np.mean(means), np.mean(sds)
    return Moved((cells - middle) / unit, (brains - middle) / unit)


def _crossed(run: FinishedStudy, known: Seen, generator: np.random.Generator) -> list[IntensityMap]:
    """Return the map of each scan to references of scans of other folds."""
    own = [run.scans[scan.name] for scan in known.scans]
    models = {scan.name: ScanModel.read(run.study.model(scan)).model for scan in own}
    fold = np.empty(len(own), dtype=int)
    for site in sorted(set(known.sites)):
        of_site = np.flatnonzero(np.array(known.sites) == site)
        fold[generator.permutation(of_site)] = np.arange(of_site.size) % FOLDS
    maps: dict[int, IntensityMap] = {}
    for k in range(FOLDS):
        train = [scan for scan, part in zip(own, fold, strict=True) if part != k]
        goals = make_references(run.study, train, models, nested=True).goals
        for place in np.flatnonzero(fold == k):
            goal = run.study.mode.goal_of(goals, own[place].site)
            maps[int(place)] = goal.solve(models[own[place].name]).imap
    return [maps[place] for place in range(len(own))]
