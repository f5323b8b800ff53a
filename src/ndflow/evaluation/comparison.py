"""Finished studies compared: every scan measured under every condition.

The conditions are the unnormalised scans, the same aligned by mean and standard deviation, and the
studies. Each condition is brought to common units by one affine map for all its scans, after which
the mean of their means is 0 and the mean of their standard deviations is 1. So a method gains
nothing by shrinking everything, and studies on different scales can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import InvalidValueError
from ndflow.evaluation.classification import (
    FLOORS,
    SiteClassification,
    known_sites,
    reason_of,
    recognise_sites,
    run_followed,
)
from ndflow.evaluation.distribution import EmpiricalDistribution, average_distribution
from ndflow.evaluation.measure import ConditionMeasures, ScanMeasures, measure_scan
from ndflow.files.stream import DEFAULT_MAX_BYTES
from ndflow.image.subject import Subject
from ndflow.study.finished import FinishedStudy, SharedScan, check_covariates, shared_scans
from ndflow.study.plan import Study
from ndflow.study.tasks import Failure, Progress, Task, check_jobs
from ndflow.values import FloatArray

UNNORMALISED, AFFINE = "unnormalised", "affine"

_TAKEN = (UNNORMALISED, AFFINE, *FLOORS)


@dataclass(frozen=True)
class Condition:
    """All scans under one condition, in common units.

    Attributes
    ----------
    name : what tables call it.
    distributions : of each scan.
    quartiles : (scans, 3, 3), of the tissues; None without tissue probability maps.
    moments : (scans, 3, 2), mean and standard deviation of the tissues; None without these.
    slopes : (scans, n), of the maps, in units of standard deviations; None where there is no map.
    study : what was done; None for unnormalised and for aligned scans.
    units : offset and scale of the common units, in those of the condition's own.
    """

    name: str
    distributions: list[EmpiricalDistribution]
    quartiles: FloatArray | None
    moments: FloatArray | None
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
    classified : how well sites could be told apart, by the name of the condition, or of one of
        the `FLOORS`.
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
        return known_sites(self.scans)

    @property
    def scans(self) -> list[Subject]:
        """The scans that were compared."""
        return [one.scan for one in self.shared]


def compare(
    runs: Sequence[FinishedStudy],
    progress: Progress,
    *,
    seed: int = 0,
    permutations: int = 50,
    trees: int = 200,
    covariates: Sequence[str] = (),
    jobs: int = 1,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Comparison:
    """Look at the scans that all runs have, under every condition.

    Parameters
    ----------
    runs : finished, see `read_finished`.
    progress : follows how far the work has come.
    seed, permutations, trees : of the classification of sites; no permutations, no chance level.
    covariates : the columns whose effects will be asked for.
    jobs : how many scans at a time.
    max_bytes : the largest file to read.
    """
    check_jobs(jobs)
    shared = shared_scans(runs)
    check_covariates([one.scan for one in shared], covariates)
    notes = _left_out(runs, shared)
    tasks = [Task(one.scan.name, {"shared": one}) for one in shared]
    measure = partial(measure_scan, max_bytes=max_bytes)
    seen, failures = run_followed(measure, tasks, "read", progress, jobs)
    notes += [f"{one.scan}: {reason_of(one)}" for one in failures]
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
    subjects = [scan.person for scan in scans if scan.person is not None]
    if len(set(subjects)) == len(subjects):
        notes.append("no reliability of repeated scans: no subject has two scans")
    found = recognise_sites(
        scans,
        measures,
        runs,
        [(one.name, one.study) for one in conditions],
        progress,
        seed=seed,
        permutations=permutations,
        trees=trees,
        jobs=jobs,
    )
    notes += found.notes
    failures += found.failures
    target = average_distribution(affine.distributions)
    return Comparison(
        shared,
        list(runs),
        conditions,
        target,
        found.classified,
        notes,
        failures,
        max_bytes,
    )


def _left_out(runs: Sequence[FinishedStudy], shared: Sequence[SharedScan]) -> list[str]:
    known = {name for run in runs for name in run.scans}
    missing = len(known) - len(shared)
    return [f"scans left out because they are not in all runs: {missing}"] if missing else []


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
            name = f"{run.name} (run)" if run.name in _TAKEN else run.name
            others.append(_condition(name, own, run.study))
    return [raw, affine, *others]


def _condition(
    name: str, scans: Sequence[ConditionMeasures], study: Study | None = None
) -> Condition:
    mean = float(np.mean([scan.distribution.mean() for scan in scans]))
    sd = float(np.mean([scan.distribution.sd() for scan in scans]))
    tissues = [scan.quartiles for scan in scans if scan.quartiles is not None]
    moments = [scan.moments for scan in scans if scan.moments is not None]
    slopes = [scan.slopes for scan in scans if scan.slopes is not None]
    return Condition(
        name,
        [scan.distribution.transformed(1 / sd, -mean / sd) for scan in scans],
        (np.array(tissues) - mean) / sd if len(tissues) == len(scans) else None,
        (np.array(moments) - [mean, 0]) / sd if len(moments) == len(scans) else None,
        np.array(slopes) / sd if slopes else None,
        study,
        (mean, sd),
    )
