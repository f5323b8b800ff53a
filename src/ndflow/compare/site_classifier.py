"""Whether sites can be told apart by the voxels of their scans, under one condition.

The references of a study are made again from the training scans of each fold alone, with the
settings of the study, and the voxels go through the maps to these: nothing of a test scan has gone
into what it is brought to. Where a study was given a reference, that one is used. (With one map per
site, the site of a test scan chooses its map, as it does in practice.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.image.scans import Scan
from ndflow.methods.model import DensityModel
from ndflow.metrics.classification import chance, classify, folds
from ndflow.metrics.predictions import Chance, Predictions
from ndflow.study.plan import Study
from ndflow.study.references import make_references, read_models
from ndflow.transport import align
from ndflow.values import FloatArray

__all__ = ["SiteClassification", "classify_sites", "common_voxels"]

Voxels = NDArray[np.float32]
Models = dict[str, DensityModel]


class SiteClassification(NamedTuple):
    """How well sites could be told apart.

    Attributes
    ----------
    predictions : for every scan, by a forest that was not trained on it.
    chance : what shuffled sites give; None where that was not asked for.
    warnings : for the user.
    """

    predictions: Predictions
    chance: Chance | None
    warnings: tuple[str, ...] = ()


def common_voxels(lattices: Sequence[Voxels]) -> Voxels:
    """Return the voxels that lie inside the mask of every scan, (scans, voxels)."""
    together = np.array(lattices)
    common: Voxels = together[:, np.isfinite(together).all(axis=0)]
    return common


def classify_sites(
    voxels: Voxels,
    scans: Sequence[Scan],
    study: Study,
    *,
    normalised: bool,
    aligned: bool,
    subjects: Sequence[str],
    seed: int,
    permutations: int,
    trees: int,
) -> SiteClassification:
    """Predict the site of each scan from its voxels.

    Parameters
    ----------
    voxels : (scans, voxels), unnormalised.
    scans : the scans.
    study : where their models are.
    normalised : whether the voxels are normalised as in the study; if not,
    aligned : whether they are aligned by mean and standard deviation.
    subjects : who was scanned; scans of one subject are never split between training and test.
    seed, permutations, trees : of the classification.
    """
    sites = [str(scan.site) for scan in scans]
    models = read_models(study, scans)
    kept: dict[bytes, tuple[Any, Any]] = {}  # for chance, which goes over the same folds again

    def features(train: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[Any, Any]:
        key = train.tobytes()
        if key not in kept:
            if normalised:
                ready = _normalised(voxels, scans, models, study, train)
            else:
                ready = _aligned(voxels, scans, models) if aligned else voxels.astype(np.float64)
            kept[key] = ready[train], ready[test]
        return kept[key]

    predictions = classify(features, sites, seed=seed, trees=trees, groups=subjects)
    if not permutations:
        return SiteClassification(predictions, None)
    parts = [features(*part) for part in folds(sites, seed, groups=subjects)]
    level = chance(parts, sites, seed=seed, permutations=permutations, trees=trees, groups=subjects)
    return SiteClassification(predictions, level)


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
