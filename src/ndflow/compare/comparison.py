"""Finished studies compared: every scan measured under every condition.

The conditions are the unnormalised scans, the same aligned by mean and standard deviation, and the
studies. Each condition is brought to common units by one affine map for all its scans, after which
the mean of their means is 0 and the mean of their standard deviations is 1. So a method gains
nothing by shrinking everything, and methods with units of their own can be compared with others.
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
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import InvalidValueError
from ndflow.files.stream import DEFAULT_MAX_BYTES
from ndflow.image.scans import Scan
from ndflow.metrics.classification import folds
from ndflow.metrics.distribution import EmpiricalDistribution, average_distribution
from ndflow.study.finished import FinishedStudy, SharedScan, check_covariate, shared_scans
from ndflow.study.parallel.tasks import Failure, Task, check_jobs, run_tasks
from ndflow.study.passes import Progress
from ndflow.study.plan import Study
from ndflow.study.references import read_reference
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
    quartiles : (scans, 3, 3), of the tissues; None without tissue probability maps.
    slopes : (scans, n), of the maps, in units of standard deviations; None where there is no map.
    study : what was done; None for unnormalised and for aligned scans.
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
    shared : the scans, with their results in each study.
    runs : the studies that were compared.
    conditions : the first is `UNNORMALISED`; `AFFINE` is among them.
    target : the average density of aligned scans, in common units.
    classified : how well sites could be told apart, by the name of the condition.
    notes : what could not be done, and why.
    failures : of scans that were left out, and of conditions that could not be classified.
    max_bytes : the largest file to read.
    """

    shared: list[SharedScan]
    runs: list[FinishedStudy]
    conditions: list[Condition]
    target: EmpiricalDistribution
    classified: dict[str, SiteClassification]
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
        return _sites(self.scans)

    @property
    def scans(self) -> list[Scan]:
        """The scans that were compared."""
        return [one.scan for one in self.shared]


def compare(
    runs: Sequence[FinishedStudy],
    progress: Progress,
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
    progress : follows how far the work has come.
    seed, permutations, trees : of the classification of sites; no permutations, no chance level.
    covariate : the column whose effect will be asked for.
    jobs : how many scans at a time.
    max_bytes : the largest file to read.
    """
    check_jobs(jobs)
    whole(seed, "seed", 0, (1 << 32) - 1)
    whole(permutations, "permutations", 0, 1 << 20)
    whole(trees, "trees", 1, 1 << 20)
    shared = shared_scans(runs)
    if covariate is not None:
        check_covariate([one.scan for one in shared], covariate)
    notes = _left_out(runs, shared)
    tasks = [Task(one.scan.name, {"shared": one}) for one in shared]
    seen, failures = _each(
        partial(measure_scan, max_bytes=max_bytes), tasks, "read", progress, jobs
    )
    notes += [f"{one.scan}: {_reason(one)}" for one in failures]
    shared = [one for one in shared if one.scan.name in seen]
    if len(shared) < 2:
        raise InvalidValueError("fewer than two scans could be read; there is nothing to compare")
    scans = [one.scan for one in shared]
    measures: list[ScanMeasures] = [seen[scan.name] for scan in scans]
    conditions = _conditions(runs, measures)
    if conditions[0].quartiles is None:
        notes.append(
            "no tissue statistics: not all scans have tissue probability maps of WM, GM and CSF"
        )
    affine = next(one for one in conditions if one.name == AFFINE)
    classified: dict[str, SiteClassification] = {}
    reason = _cannot_classify(scans, measures, seed)
    if reason:
        distances = "" if _sites(scans) else "no distances between sites, and "
        notes.append(f"{distances}no classification of sites: {reason}")
    else:
        notes += _not_nested(runs)
        tasks = _classification_tasks(shared, measures, runs, conditions)
        classify = partial(classify_sites, seed=seed, permutations=permutations, trees=trees)
        classified, lost = _each(classify, tasks, "classify", progress, jobs)
        notes += [f"no classification of sites for {one.scan}: {_reason(one)}" for one in lost]
        failures += lost
    target = average_distribution(affine.distributions)
    return Comparison(
        shared, list(runs), conditions, target, classified, notes, failures, max_bytes
    )


def _each(
    function: Callable[..., Any], tasks: Sequence[Task], stage: str, progress: Progress, jobs: int
) -> tuple[dict[str, Any], list[Failure]]:
    """Return the results by the names of their tasks, and what failed."""
    done: dict[str, Any] = {}
    failures: list[Failure] = []
    progress.begin(stage, len(tasks))
    with closing(run_tasks(function, tasks, jobs=jobs)) as outcomes:
        for task, outcome in zip(tasks, outcomes, strict=True):
            progress.step(stage, outcome)
            if outcome.failure is None:
                done[task.scan] = outcome.result
            else:
                failures.append(outcome.failure)
    return done, failures


def _reason(failure: Failure) -> str:
    return f"{failure.cause}; {failure.hint}" if failure.hint else failure.cause


def _left_out(runs: Sequence[FinishedStudy], shared: Sequence[SharedScan]) -> list[str]:
    known = {name for run in runs for name in run.scans}
    missing = len(known) - len(shared)
    return [f"scans left out because they are not in all runs: {missing}"] if missing else []


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


def _conditions(runs: Sequence[FinishedStudy], scans: Sequence[ScanMeasures]) -> list[Condition]:
    raw = _condition(UNNORMALISED, [scan.raw for scan in scans])
    affine = _condition(AFFINE, [scan.affine for scan in scans])
    others = []
    for place, run in enumerate(runs):
        own = [scan.runs[place] for scan in scans]
        if run.only_aligns and affine.study is None:
            affine = _condition(AFFINE, own, run.study)  # the same, as the run has written it
        else:
            # A folder may be called like one of our own conditions.
            name = f"{run.name} (run)" if run.name in (UNNORMALISED, AFFINE) else run.name
            others.append(_condition(name, own, run.study))
    return [raw, affine, *others]


def _condition(
    name: str, scans: Sequence[ConditionMeasures], study: Study | None = None
) -> Condition:
    mean = float(np.mean([scan.distribution.mean() for scan in scans]))
    sd = float(np.mean([scan.distribution.sd() for scan in scans]))
    tissues = [scan.quartiles for scan in scans if scan.quartiles is not None]
    slopes = [scan.slopes for scan in scans if scan.slopes is not None]
    return Condition(
        name,
        [scan.distribution.transformed(1 / sd, -mean / sd) for scan in scans],
        (np.array(tissues) - mean) / sd if len(tissues) == len(scans) else None,
        np.array(slopes) / sd if slopes else None,
        study,
        (mean, sd),
    )


def _sites(scans: Sequence[Scan]) -> list[str] | None:
    sites = [scan.site for scan in scans]
    known = [site for site in sites if site is not None]
    return known if len(known) == len(sites) and len(set(known)) > 1 else None


def _cannot_classify(scans: Sequence[Scan], measures: Sequence[ScanMeasures], seed: int) -> str:
    """Return why sites cannot be told apart by voxels, if so."""
    sites = _sites(scans)
    if sites is None:
        return "the scans are not from two or more known sites"
    if min(sites.count(site) for site in set(sites)) < 2:
        return "a site has one scan only"
    if len({one.grid for one in measures}) > 1:
        return "the scans are not in a common space"
    if common_voxels([one.lattice for one in measures]).shape[1] < _FEWEST_VOXELS:
        return "the masks of the scans have too few voxels in common"
    try:
        folds(sites, seed, groups=_subjects(scans))
    except InvalidValueError as error:
        return str(error)
    return ""


def _subjects(scans: Sequence[Scan]) -> list[str]:
    """Return who was scanned; a scan whose subject is not known counts as another subject."""
    return [scan.subject or f"scan {scan.name}" for scan in scans]


def _classification_tasks(
    shared: Sequence[SharedScan],
    measures: Sequence[ScanMeasures],
    runs: Sequence[FinishedStudy],
    conditions: Sequence[Condition],
) -> list[Task]:
    voxels = common_voxels([one.lattice for one in measures])
    scans = [one.scan for one in shared]
    tasks = []
    for condition in conditions:
        arguments = {
            "voxels": voxels,
            "scans": scans,
            "study": condition.study or runs[0].study,
            "normalised": condition.study is not None,
            "aligned": condition.name == AFFINE,
            "subjects": _subjects(scans),
        }
        tasks.append(Task(condition.name, arguments))
    return tasks
