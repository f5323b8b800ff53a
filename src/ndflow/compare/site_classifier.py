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

from ndflow.image.subject import Scan
from ndflow.metrics.folds import Fold, Indices
from ndflow.metrics.predictions import Chance, Predictions
from ndflow.metrics.random_forest import forest_probabilities
from ndflow.study.plan import Study
from ndflow.study.references import make_references, read_models
from ndflow.values import FloatArray

__all__ = [
    "ANATOMY",
    "FLOORS",
    "RANKS",
    "FoldPredictions",
    "SiteClassification",
    "Voxels",
    "classify_fold",
    "in_all_masks",
    "ranks_of",
]

ANATOMY, RANKS = "anatomy", "ranks"
FLOORS = (RANKS, ANATOMY)

Voxels = NDArray[np.float32]


class FoldPredictions(NamedTuple):
    """What a forest predicts, and from what.

    Attributes
    ----------
    probabilities : (test scans, sites), with sites in alphabetical order.
    features : of the training and of the test scans.
    """

    probabilities: FloatArray
    features: tuple[Voxels, Voxels]


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


def classify_fold(
    voxels: Voxels,
    scans: Sequence[Scan],
    study: Study | None,
    fold: Fold,
    *,
    seed: int,
    trees: int,
) -> FoldPredictions:
    """Predict the sites of test scans from their voxels.

    Parameters
    ----------
    voxels : (scans, voxels), unnormalised, or as they are to be classified.
    scans : the scans.
    study : where their models are; None to leave the voxels as they are.
    fold : which of them are for training, with every site among them, and which for testing.
    seed, trees : of the forest.
    """
    train, test = fold
    ready = voxels if study is None else _normalised(voxels, scans, study, train)
    features = ready[train].astype(np.float32), ready[test].astype(np.float32)
    sites = np.array([str(scan.site) for scan in scans])
    return FoldPredictions(forest_probabilities(features, sites[train], seed, trees), features)


def _normalised(
    voxels: Voxels,
    scans: Sequence[Scan],
    study: Study,
    train: Indices,
) -> FloatArray:
    """Return the voxels through maps to references that were made from the training scans."""
    models = read_models(study, scans)
    trained = [scans[place] for place in train]
    goals = make_references(study, trained, models, nested=True).goals
    ready = np.empty(voxels.shape)
    for place, scan in enumerate(scans):
        goal = study.mode.goal_of(goals, scan.site)
        ready[place] = goal.solve(models[scan.name]).imap(voxels[place])
    return ready
