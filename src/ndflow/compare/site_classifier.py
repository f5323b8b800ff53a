"""Whether sites can be told apart by the voxels of their scans, under one condition.

The references of a run are made again from the training scans of each fold alone, by the settings
of the run, and the voxels go through the maps to these: nothing of a test scan has gone into what
it is brought to. Where a run was given a reference, that one is used. (With one map a site, the
site of a test scan chooses its map, as it does in practice.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.metrics.classification import chance, classify, folds
from ndflow.metrics.predictions import Chance, Predictions
from ndflow.study.plan import Study
from ndflow.study.references import make_references
from ndflow.study.scan_jobs import Member, portrait_of_member
from ndflow.transport import align
from ndflow.values import FloatArray

__all__ = ["SiteClassification", "classify_sites", "common_voxels"]

Voxels = NDArray[np.float32]


class SiteClassification(NamedTuple):
    """How well sites were told apart.

    Attributes
    ----------
    predictions : for every scan, by a forest that has not seen it.
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
    members: Sequence[Member],
    study: Study | None,
    *,
    aligned: bool,
    people: Sequence[str],
    seed: int,
    permutations: int,
    trees: int,
) -> SiteClassification:
    """Predict the site of each scan from its voxels.

    Parameters
    ----------
    voxels : (scans, voxels), as the scans came.
    members : the scans, in a run.
    study : of the run; None for the voxels as they came or aligned.
    aligned : whether they are aligned, without a run.
    people : who was scanned; scans of the same person are not both trained and tested on.
    seed, permutations, trees : of the classification.
    """
    sites = [str(member.site) for member in members]

    def features(train: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[Any, Any]:
        if study is None:
            ready = _aligned(voxels, members) if aligned else voxels.astype(np.float64)
        else:
            ready = _normalised(voxels, members, study, train)
        return ready[train], ready[test]

    kept: dict[bytes, tuple[Any, Any]] = {}  # for chance, which goes over the same folds again

    def remembered(train: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[Any, Any]:
        key = train.tobytes()
        if key not in kept:
            kept[key] = features(train, test)
        return kept[key]

    predictions = classify(remembered, sites, seed=seed, trees=trees, groups=people)
    if not permutations:
        return SiteClassification(predictions, None)
    parts = [remembered(*part) for part in folds(sites, seed, groups=people)]
    level = chance(parts, sites, seed=seed, permutations=permutations, trees=trees, groups=people)
    return SiteClassification(predictions, level)


def _aligned(voxels: Voxels, members: Sequence[Member]) -> FloatArray:
    return np.array(
        [
            align(portrait_of_member(member).mixture)(own)
            for own, member in zip(voxels, members, strict=True)
        ]
    )


def _normalised(
    voxels: Voxels, members: Sequence[Member], study: Study, train: NDArray[np.intp]
) -> FloatArray:
    goals = make_references(study, [members[place] for place in train], nested=True).goals
    by_site = study.averaging.mode != "individual"
    ready = np.empty(voxels.shape)
    for place, member in enumerate(members):
        goal = goals[member.site if by_site else None]
        ready[place] = goal.solve(portrait_of_member(member)).imap(voxels[place])
    return ready
