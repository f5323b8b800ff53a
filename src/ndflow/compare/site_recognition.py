"""Which conditions let a forest recognise sites, and how well chance would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ndflow.compare.followed_tasks import reason_of, run_followed
from ndflow.compare.measure import ScanMeasures
from ndflow.compare.site_classifier import (
    ANATOMY,
    RANKS,
    FoldPredictions,
    SiteClassification,
    Voxels,
    classify_fold,
    in_all_masks,
    ranks_of,
)
from ndflow.errors import InvalidValueError
from ndflow.image.subject import Scan
from ndflow.metrics.chance_level import SHUFFLED_TREES, chance_level, shuffle_accuracy
from ndflow.metrics.folds import Fold, folds
from ndflow.metrics.predictions import Chance, Predictions
from ndflow.study.finished import FinishedStudy
from ndflow.study.parallel.followed import Progress
from ndflow.study.parallel.tasks import Failure, Task, run_tasks
from ndflow.study.plan import Study
from ndflow.study.references import read_reference

__all__ = ["SiteRecognition", "known_sites", "recognise_sites", "subjects_of"]

_FEWEST_VOXELS = 100


class SiteRecognition(NamedTuple):
    """How well sites were recognised.

    Attributes
    ----------
    classified : by the name of the condition.
    notes : what could not be done, and why.
    failures : of conditions that could not be classified.
    """

    classified: dict[str, SiteClassification]
    notes: list[str]
    failures: list[Failure]


def known_sites(scans: Sequence[Scan]) -> list[str] | None:
    """Return the site of each scan; None where some are not known, or all are the same."""
    sites = [scan.site for scan in scans]
    known = [site for site in sites if site is not None]
    return known if len(known) == len(sites) and len(set(known)) > 1 else None


def recognise_sites(
    scans: Sequence[Scan],
    measures: Sequence[ScanMeasures],
    runs: Sequence[FinishedStudy],
    conditions: Sequence[tuple[str, Study | None]],
    progress: Progress,
    *,
    seed: int,
    permutations: int,
    trees: int,
    jobs: int,
) -> SiteRecognition:
    """Predict the site of each scan under each condition, and measure what chance would give.

    Parameters
    ----------
    scans : the scans.
    measures : what was seen of each.
    runs : the studies that are compared.
    conditions : the name and the study of each condition, see `Condition`; the first is
        unnormalised, and those without a study that follow are aligned.
    progress : follows how far the work has come.
    seed, permutations, trees : of the classification; no permutations, no chance level.
    jobs : how many processes.
    """
    reason = _cannot_classify(scans, measures, seed)
    if reason:
        distances = "" if known_sites(scans) else "no distances between sites, and "
        return SiteRecognition({}, [f"{distances}no classification of sites: {reason}"], [])
    labels, subjects = _labels(scans), subjects_of(scans)
    parts = folds(labels, seed, groups=subjects)
    common = in_all_masks([one.lattice for one in measures])
    voxels = np.array([one.lattice[common] for one in measures])
    aligned = [one.alignment(own) for one, own in zip(measures, voxels, strict=True)]
    straight = np.array(aligned, np.float32)
    ways = {name: (voxels, study) for name, study in conditions}
    ways |= {name: (straight, None) for name, study in conditions[1:] if study is None}
    floors = {RANKS: ranks_of(voxels)}
    painted = [one.painted[common] for one in measures if one.painted is not None]
    if len(painted) == len(scans):
        floors[ANATOMY] = np.array(painted)
    ways |= {name: (floor, None) for name, floor in floors.items()}
    options: dict[str, Any] = {"scans": scans, "seed": seed, "trees": trees}
    found, failures = _in_folds(ways, parts, options, progress, jobs)
    notes = [f"no classification of sites for {one.scan}: {reason_of(one)}" for one in failures]
    chances: dict[str, Chance] = {}
    if permutations and found:
        options = {"seed": seed, "trees": min(trees, SHUFFLED_TREES), "groups": subjects}
        real = {name: one for name, one in found.items() if name not in floors}
        chances, lost = _by_chance(real, labels, parts, options, permutations, progress, jobs)
        notes += [f"no accuracy by chance: {one.scan}: {reason_of(one)}" for one in lost]
        failures += lost
    classified = {
        name: SiteClassification(_joined(own, parts, labels), chances.get(name))
        for name, own in found.items()
    }
    return SiteRecognition(classified, [*_not_nested(runs), *notes], failures)


def _in_folds(
    ways: Mapping[str, tuple[Voxels, Study | None]],
    parts: Sequence[Fold],
    options: Mapping[str, Any],
    progress: Progress,
    jobs: int,
) -> tuple[dict[str, list[FoldPredictions]], list[Failure]]:
    """Predict sites in each fold, under each condition; one that fails in several fails once.

    Of each condition, the voxels are given, and the study that normalises them, if any.
    """
    tasks = [
        Task(name, {"voxels": voxels, "study": study, "fold": part})
        for name, (voxels, study) in ways.items()
        for part in parts
    ]
    found: dict[str, list[FoldPredictions]] = {name: [] for name in ways}
    failures: dict[str, Failure] = {}
    progress.begin("classify", len(tasks))
    with closing(run_tasks(partial(classify_fold, **options), tasks, jobs=jobs)) as outcomes:
        for task, outcome in zip(tasks, outcomes, strict=True):
            known = task.scan in failures
            progress.step("classify", outcome._replace(failure=None) if known else outcome)
            if outcome.failure is None:
                found[task.scan].append(outcome.result)
            elif not known:
                failures[task.scan] = outcome.failure
    done = {name: own for name, own in found.items() if name not in failures}
    return done, [*failures.values()]


def _joined(
    own: Sequence[FoldPredictions], parts: Sequence[Fold], labels: Sequence[str]
) -> Predictions:
    """Return the predictions of all scans."""
    classes = tuple(sorted(set(labels)))
    probabilities = np.zeros((len(labels), len(classes)))
    for one, (_, test) in zip(own, parts, strict=True):
        probabilities[test] = one.probabilities
    return Predictions(probabilities, classes)


def _by_chance(
    found: Mapping[str, Sequence[FoldPredictions]],
    labels: Sequence[str],
    parts: Sequence[Fold],
    options: Mapping[str, Any],
    permutations: int,
    progress: Progress,
    jobs: int,
) -> tuple[dict[str, Chance], list[Failure]]:
    """Shuffle the sites many times; the first time, they stay as they are."""
    numbers = range(permutations + 1)
    features = {name: [one.features for one in own] for name, own in found.items()}
    tasks = [
        Task(
            f"{name}, shuffle {number}",
            {"features": features[name], "parts": parts, "labels": labels, "number": number},
        )
        for name in found
        for number in numbers
    ]
    shuffle = partial(shuffle_accuracy, **options)
    reached, lost = run_followed(shuffle, tasks, "shuffle sites", progress, jobs)
    chances = {}
    for name in found:
        own = [reached.get(f"{name}, shuffle {number}") for number in numbers]
        known = [one for one in own if one is not None]
        if len(known) == len(own):
            chances[name] = chance_level(known[0], known[1:])
    return chances, lost


def _not_nested(runs: Sequence[FinishedStudy]) -> list[str]:
    """Say which studies were given a reference that the scans themselves had gone into."""
    notes = []
    for run in runs:
        if run.study.given is not None:
            names = read_reference(run.study.given).provenance.get("names") or ()
            if not run.scans.keys().isdisjoint(names):
                notes.append(
                    f"{run.name} was given a reference that some of these scans went into: its "
                    f"sites are classified with that, not with one made without them"
                )
    return notes


def _cannot_classify(scans: Sequence[Scan], measures: Sequence[ScanMeasures], seed: int) -> str:
    """Return why sites cannot be told apart by voxels, if so."""
    sites = known_sites(scans)
    if sites is None:
        return "the scans are not from two or more known sites"
    if min(sites.count(site) for site in set(sites)) < 2:
        return "a site has one scan only"
    if len({one.grid for one in measures}) > 1:
        return "the scans are not in a common space"
    if in_all_masks([one.lattice for one in measures]).sum() < _FEWEST_VOXELS:
        return "the masks of the scans have too few voxels in common"
    try:
        folds(sites, seed, groups=subjects_of(scans))
    except InvalidValueError as error:
        return str(error)
    return ""


def _labels(scans: Sequence[Scan]) -> list[str]:
    return [str(scan.site) for scan in scans]


def subjects_of(scans: Sequence[Scan]) -> list[str]:
    """Return who was scanned; a scan whose subject is not known counts as another subject."""
    return [scan.subject or f"scan {scan.name}" for scan in scans]
