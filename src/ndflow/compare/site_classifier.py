"""Whether sites can be told apart by the voxels of their scans, under one condition.

The references of a study are made again from the training scans of each fold alone, with the
settings of the study, and the voxels go through the maps to these: nothing of a test scan has gone
into what it is brought to. Where a study was given a reference, that one is used. (With one map per
site, the site of a test scan chooses its map, as it does in practice.)

Part of what distinguishes sites is not intensity, and no intensity map can remove it: whom they
scanned, how heads were masked and tissues labelled, noise and resolution. Two floors show how much:

- *ranks*: the ranks of the voxels within each scan. All scans have the same histogram, but what is
  where in the brain, noise included, is as it was: it is where methods end up that match histograms
  without mercy.
- *anatomy*: the scan that its tissue maps alone would give, with the same intensity for each tissue
  in all scans. There is neither contrast nor noise; what is left is anatomy as the maps show it,
  including how they were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.image.scans import Scan
from ndflow.methods.model import DensityModel
from ndflow.metrics.classification import classify
from ndflow.metrics.predictions import Chance, Predictions
from ndflow.study.plan import Study
from ndflow.study.references import make_references, read_models
from ndflow.transport import align
from ndflow.values import FloatArray

__all__ = [
    "ANATOMY",
    "FLOORS",
    "RANKS",
    "SiteClassification",
    "SitePredictions",
    "classify_sites",
    "in_all_masks",
    "ranks_of",
]

ANATOMY, RANKS = "anatomy", "ranks"
FLOORS = (RANKS, ANATOMY)

Voxels = NDArray[np.float32]
Models = dict[str, DensityModel]


class SitePredictions(NamedTuple):
    """What forests predict, and from what.

    Attributes
    ----------
    predictions : for every scan, by a forest that was not trained on it.
    features : of the training and of the test scans of each fold.
    """

    predictions: Predictions
    features: list[tuple[Voxels, Voxels]]


class SiteClassification(NamedTuple):
    """How well sites could be told apart.

    Attributes
    ----------
    predictions : for every scan, by a forest that was not trained on it.
    chance : what shuffled sites give; None where that was not asked for.
    """

    predictions: Predictions
    chance: Chance | None


def in_all_masks(lattices: Sequence[Voxels]) -> NDArray[np.bool_]:
    """Return which voxels of a lattice lie inside the masks of all scans."""
    inside = np.ones(lattices[0].shape, bool)
    for lattice in lattices:
        inside &= np.isfinite(lattice)
    return inside


def ranks_of(voxels: Voxels) -> Voxels:
    """Return the ranks of the voxels within each scan, from 0 to 1; the mean where some are equal.

    Examples
    --------
    >>> ranks_of(np.array([[5.0, 1.0, 1.0], [2.0, 3.0, 9.0]], np.float32)).tolist()
    [[1.0, 0.25, 0.25], [0.0, 0.5, 1.0]]
    """
    from scipy.stats import rankdata  # which takes half a second to import

    ranks = rankdata(voxels, axis=1) - 1
    shares: Voxels = (ranks / max(voxels.shape[1] - 1, 1)).astype(np.float32)
    return shares


def classify_sites(
    voxels: Voxels,
    scans: Sequence[Scan],
    study: Study,
    *,
    normalised: bool,
    aligned: bool,
    subjects: Sequence[str],
    seed: int,
    trees: int,
) -> SitePredictions:
    """Predict the site of each scan from its voxels.

    Parameters
    ----------
    voxels : (scans, voxels), unnormalised.
    scans : the scans.
    study : where their models are.
    normalised : whether the voxels are normalised as in the study; if not,
    aligned : whether they are aligned by mean and standard deviation.
    subjects : who was scanned; scans of one subject are never split between training and test.
    seed, trees : of the classification.
    """
    sites = [str(scan.site) for scan in scans]
    models = read_models(study, scans) if normalised or aligned else {}
    used: list[tuple[Voxels, Voxels]] = []

    def features(train: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[Voxels, Voxels]:
        if normalised:
            ready = _normalised(voxels, scans, models, study, train)
        else:
            ready = _aligned(voxels, scans, models) if aligned else voxels.astype(np.float64)
        used.append((ready[train].astype(np.float32), ready[test].astype(np.float32)))
        return used[-1]

    predictions = classify(features, sites, seed=seed, trees=trees, groups=subjects)
    return SitePredictions(predictions, used)


def _aligned(voxels: Voxels, scans: Sequence[Scan], models: Models) -> FloatArray:
    return np.array(
        [align(models[scan.name].mixture)(own) for own, scan in zip(voxels, scans, strict=True)]
    )


def _normalised(
    voxels: Voxels,
    scans: Sequence[Scan],
    models: Models,
    study: Study,
    train: NDArray[np.intp],
) -> FloatArray:
    trained = [scans[place] for place in train]
    goals = make_references(study, trained, models, nested=True).goals
    ready = np.empty(voxels.shape)
    for place, scan in enumerate(scans):
        goal = study.mode.goal_of(goals, scan.site)
        ready[place] = goal.solve(models[scan.name]).imap(voxels[place])
    return ready
