"""Finished runs compared: every scan looked at under every condition, and what follows from it.

The conditions are the scans as they came, the same aligned by mean and spread, and the runs. Each
condition is brought to common units by one straight line for all its scans: their mean has the
mean 0, and their spread the mean 1. So a method gains nothing by shrinking everything, and those
with units of their own can be compared with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ndflow.compare.measure import ConditionMeasures, ScanMeasures, measure_scan
from ndflow.compare.site_classifier import SiteClassification, classify_sites, common_voxels
from ndflow.errors import InvalidValueError
from ndflow.files.stream import DEFAULT_MAX_BYTES
from ndflow.metrics.classification import folds
from ndflow.metrics.distribution import EmpiricalDistribution, average_distribution
from ndflow.metrics.histogram_fit import QUANTILE_LEVELS
from ndflow.study.finished import FinishedStudy, Subject, check_covariate, shared_scans
from ndflow.study.parallel.tasks import Failure, Task, check_jobs, run_tasks
from ndflow.study.passes import Progress
from ndflow.study.plan import Study
from ndflow.study.references import given_reference
from ndflow.values import FloatArray, whole

__all__ = ["AFFINE", "UNNORMALISED", "Comparison", "Condition", "compare"]

UNNORMALISED, AFFINE = "unnormalised", "affine"

_FEWEST_VOXELS = 100


@dataclass(frozen=True)
class Condition:
    """All scans under one condition, in common units.

    Attributes
    ----------
    name : what tables call it.
    distributions : of each scan.
    quartiles : (scans, 3, 3), of the tissues; None where there are no maps of them.
    slopes : (scans, n), of the maps, in units of standard deviations; None where there is none.
    study : of a run; None for scans as they came, or aligned.
    units : offset and scale of the common units, in those of the condition's own.
    """

    name: str
    distributions: list[EmpiricalDistribution]
    quartiles: FloatArray | None
    slopes: FloatArray | None
    study: Study | None
    units: tuple[float, float]

    @property
    def quantiles(self) -> FloatArray:
        """The 199 quantiles of each scan, (scans, 199)."""
        return np.array([scan.quantile(QUANTILE_LEVELS) for scan in self.distributions])


@dataclass(frozen=True)
class Comparison:
    """What was seen of all scans under all conditions.

    Attributes
    ----------
    subjects : the scans.
    runs : that were compared.
    conditions : the first is `UNNORMALISED`; `AFFINE` is among them.
    target : the average density of aligned scans, in common units.
    told : how well sites were told apart, by the name of the condition.
    notes : what could not be done, and why.
    failures : of scans that were left out, and of conditions that could not be classified.
    max_bytes : the largest file to read.
    """

    subjects: list[Subject]
    runs: list[FinishedStudy]
    conditions: list[Condition]
    target: EmpiricalDistribution
    told: dict[str, SiteClassification]
    notes: list[str]
    failures: list[Failure]
    max_bytes: int

    @property
    def affine(self) -> Condition:
        """The condition that others are tested against."""
        return next(one for one in self.conditions if one.name == AFFINE)

    @property
    def sites(self) -> list[str] | None:
        """The site of each scan; None where some are not known, or all are the same."""
        return _sites(self.subjects)


def compare(
    runs: Sequence[FinishedStudy],
    watch: Progress,
    *,
    seed: int = 0,
    permutations: int = 50,
    trees: int = 200,
    covariate: str | None = None,
    jobs: int = 1,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Comparison:
    """Look at the scans that all runs have, under every condition.

    Parameters
    ----------
    runs : finished, see `read_finished`.
    watch : who looks on.
    seed, permutations, trees : of the classification of sites; no permutations, no chance level.
    covariate : the column whose effect will be asked for.
    jobs : how many scans at a time.
    max_bytes : the largest file to read.
    """
    check_jobs(jobs)
    whole(seed, "seed", 0, (1 << 32) - 1)
    whole(permutations, "permutations", 0, 1 << 20)
    whole(trees, "trees", 1, 1 << 20)
    subjects = shared_scans(runs)
    if covariate is not None:
        check_covariate(subjects, covariate)
    notes = _left_out(runs, subjects)
    tasks = [Task(subject.name, {"subject": subject}) for subject in subjects]
    seen, failures = _each(partial(measure_scan, max_bytes=max_bytes), tasks, "read", watch, jobs)
    subjects = [subject for subject in subjects if subject.name in seen]
    if len(subjects) < 2:
        raise InvalidValueError("fewer than two scans could be read; there is nothing to compare")
    scans: list[ScanMeasures] = [seen[subject.name] for subject in subjects]
    conditions = _conditions(runs, scans)
    if conditions[0].quartiles is None:
        notes.append("no tissue statistics: not all scans have maps of WM, GM and CSF")
    affine = next(one for one in conditions if one.name == AFFINE)
    told: dict[str, SiteClassification] = {}
    reason = _cannot_tell(subjects, scans, seed)
    if reason:
        distances = "" if _sites(subjects) else "no distances between sites, and "
        notes.append(f"{distances}no classification of sites: {reason}")
    else:
        notes += _not_nested(runs)
        tasks = _tellings(subjects, scans, runs, conditions)
        tell = partial(classify_sites, seed=seed, permutations=permutations, trees=trees)
        told, lost = _each(tell, tasks, "classify", watch, jobs)
        notes += [f"no classification of sites for {one.scan}: {one.message}" for one in lost]
        failures += lost
    target = average_distribution(affine.distributions)
    return Comparison(subjects, list(runs), conditions, target, told, notes, failures, max_bytes)


def _each(
    function: Callable[..., Any], tasks: Sequence[Task], stage: str, watch: Progress, jobs: int
) -> tuple[dict[str, Any], list[Failure]]:
    """Return the results by the names of their tasks, and what failed."""
    done: dict[str, Any] = {}
    failures: list[Failure] = []
    watch.begin(stage, len(tasks))
    with closing(run_tasks(function, tasks, jobs=jobs)) as outcomes:
        for task, outcome in zip(tasks, outcomes, strict=True):
            watch.step(stage, outcome)
            if outcome.failure is None:
                done[task.scan] = outcome.result
            else:
                failures.append(outcome.failure)
    return done, failures


def _left_out(runs: Sequence[FinishedStudy], subjects: Sequence[Subject]) -> list[str]:
    known = {name for run in runs for name in run.rows}
    missing = len(known) - len(subjects)
    return [f"scans left out because they are not in all runs: {missing}"] if missing else []


def _not_nested(runs: Sequence[FinishedStudy]) -> list[str]:
    """Say which runs were given a reference that the scans themselves had gone into."""
    notes = []
    for run in runs:
        if run.study.given is not None:
            names = given_reference(run.study.given).reference.provenance.get("names") or ()
            if not run.rows.keys().isdisjoint(names):
                notes.append(
                    f"{run.name} was given a reference that some of these scans went into: its "
                    f"sites are told apart with that, not with one made without them"
                )
    return notes


def _conditions(runs: Sequence[FinishedStudy], scans: Sequence[ScanMeasures]) -> list[Condition]:
    raw = _condition(UNNORMALISED, [scan.raw for scan in scans])
    affine = _condition(AFFINE, [scan.affine for scan in scans])
    others = []
    for place, run in enumerate(runs):
        own = [scan.runs[place] for scan in scans]
        if run.is_affine and affine.study is None:
            affine = _condition(AFFINE, own, run.study)  # the same, as the run has written it
        else:
            # A folder may be called like one of our own conditions.
            name = f"{run.name} (run)" if run.name in (UNNORMALISED, AFFINE) else run.name
            others.append(_condition(name, own, run.study))
    return [raw, affine, *others]


def _condition(
    name: str, scans: Sequence[ConditionMeasures], study: Study | None = None
) -> Condition:
    middle = float(np.mean([scan.distribution.mean() for scan in scans]))
    spread = float(np.mean([scan.distribution.sd() for scan in scans]))
    tissues = [scan.quartiles for scan in scans if scan.quartiles is not None]
    slopes = [scan.slopes for scan in scans if scan.slopes is not None]
    return Condition(
        name,
        [scan.distribution.transformed(1 / spread, -middle / spread) for scan in scans],
        (np.array(tissues) - middle) / spread if len(tissues) == len(scans) else None,
        np.array(slopes) / spread if slopes else None,
        study,
        (middle, spread),
    )


def _sites(subjects: Sequence[Subject]) -> list[str] | None:
    sites = [subject.row.site for subject in subjects]
    known = [site for site in sites if site is not None]
    return known if len(known) == len(sites) and len(set(known)) > 1 else None


def _cannot_tell(subjects: Sequence[Subject], scans: Sequence[ScanMeasures], seed: int) -> str:
    """Return why sites cannot be told apart by voxels, if so."""
    sites = _sites(subjects)
    if sites is None:
        return "the scans are not of two sites or more that are known"
    if min(sites.count(site) for site in set(sites)) < 2:
        return "a site has one scan only"
    if len({scan.grid for scan in scans}) > 1:
        return "the scans are not in a common space"
    if common_voxels([scan.lattice for scan in scans]).shape[1] < _FEWEST_VOXELS:
        return "the masks of the scans have too few voxels in common"
    try:
        folds(sites, seed, groups=_people(subjects))
    except InvalidValueError as error:
        return str(error)
    return ""


def _people(subjects: Sequence[Subject]) -> list[str]:
    """Return who was scanned; a scan of which that is not known is of somebody else."""
    return [subject.row.subject or f"scan {subject.name}" for subject in subjects]


def _tellings(
    subjects: Sequence[Subject],
    scans: Sequence[ScanMeasures],
    runs: Sequence[FinishedStudy],
    conditions: Sequence[Condition],
) -> list[Task]:
    voxels = common_voxels([scan.lattice for scan in scans])
    places = {id(run.study): place for place, run in enumerate(runs)}
    tasks = []
    for condition in conditions:
        place = 0 if condition.study is None else places[id(condition.study)]
        arguments = {
            "voxels": voxels,
            "members": [subject.members[place] for subject in subjects],
            "study": condition.study,
            "aligned": condition.name == AFFINE,
            "people": _people(subjects),
        }
        tasks.append(Task(condition.name, arguments))
    return tasks
