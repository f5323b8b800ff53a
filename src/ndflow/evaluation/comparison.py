"""Finished studies compared: every scan measured under every condition.

The conditions are the unnormalised scans, the same aligned by mean and standard deviation, and the
studies. Each condition is brought to common units by one affine map for all its scans, after which
the mean of their means is 0 and the mean of their standard deviations is 1. So a method gains
nothing by shrinking everything, and studies on different scales can be compared.

What is kept of a scan is small: distributions, quartiles and moments of tissues, the slopes of its
maps, and a lattice of its voxels for the classification of sites. Voxels of its lesion mask are
left out of all of them, under every condition, as they were of its density.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import FileError, InvalidValueError
from ndflow.evaluation import classification
from ndflow.evaluation.classification import FLOORS, Lattice, SiteClassification, known_sites
from ndflow.evaluation.distribution import (
    EmpiricalDistribution,
    average_distribution,
    empirical_distribution,
)
from ndflow.evaluation.statistics import covariate_effect
from ndflow.evaluation.tissues import TISSUE_ROWS, quartiles, weighted_moments
from ndflow.files.stream import DEFAULT_MAX_BYTES
from ndflow.image.mask import BoolArray
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.study import finished
from ndflow.study.finished import FinishedStudy
from ndflow.study.plan import ResultPaths, Study
from ndflow.study.tasks import Failure, Progress, Task, check_jobs
from ndflow.study.visits import later_scans
from ndflow.study.weights import columns_of
from ndflow.subject.voxels import Voxels, probabilities
from ndflow.transport import DETERMINED_RANGE, IntensityMap, align
from ndflow.values import FloatArray

UNNORMALISED, AFFINE = "unnormalised", "affine"

_TAKEN = (UNNORMALISED, AFFINE, *FLOORS)


def shown_name(condition: str) -> str:
    """Return what texts and figures call a condition."""
    return "z-scored" if condition == AFFINE else condition


@dataclass(frozen=True)
class Condition:
    """All scans under one condition, in common units.

    Attributes
    ----------
    name : what tables call it.
    distributions : of each scan.
    tissues : (scans, 3, 5), the three quartiles, the mean and the standard deviation of the tissues
        in the order of `TISSUE_ROWS`; None without tissue probability maps.
    slopes : (scans, n), of the maps, in units of standard deviations; None where there is no map.
    study : what was done; None for unnormalised and for aligned scans.
    units : offset and scale of the common units, in those of the condition's own.
    margins : of each scan, to what its tissues are known by `TargetChoice.intervals`; empty where
        proportions were not estimated.
    shading : (scans,), how far each is from the first scan of the same person, see `_differences`;
        NaN for first ones, and for those on another grid.
    """

    name: str
    distributions: list[EmpiricalDistribution]
    tissues: FloatArray | None
    slopes: FloatArray | None
    study: Study | None
    units: tuple[float, float]
    margins: Sequence[Mapping[str, float]]
    shading: FloatArray

    @property
    def quantiles(self) -> FloatArray:
        """The 199 quantiles of each scan, (scans, 199)."""
        return np.array([scan.quantile(QUANTILE_LEVELS) for scan in self.distributions])


@dataclass(frozen=True)
class Comparison:
    """What was seen of all scans under all conditions.

    Attributes
    ----------
    scans : that were compared.
    runs : the studies that were compared.
    conditions : the first is `UNNORMALISED`, the second `AFFINE`.
    covariates : the columns whose effects are asked for.
    target : the average density of aligned scans, in common units.
    classified : how well sites could be told apart, by the name of the condition, or of one of
        the `FLOORS`.
    notes : what could not be done, and why.
    failures : of scans that were left out, and of conditions that could not be classified.
    """

    scans: list[Subject]
    runs: Sequence[FinishedStudy]
    conditions: list[Condition]
    covariates: Sequence[str]
    target: EmpiricalDistribution
    classified: dict[str, SiteClassification]
    notes: list[str]
    failures: list[Failure]

    @property
    def affine(self) -> Condition:
        """The condition that others are tested against."""
        return self.conditions[1]

    @property
    def sites(self) -> list[str] | None:
        """The site of each scan; None where some are not known, or all are the same."""
        return known_sites(self.scans)


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
    covariates : the columns whose effects are asked for.
    jobs : how many scans at a time.
    max_bytes : the largest file to read.
    """
    check_jobs(jobs)
    shared = shared_scans(runs)
    check_covariates([one.scan for one in shared], covariates)
    notes = []
    if missing := len({name for run in runs for name in run.scans}) - len(shared):
        notes.append(f"scans left out because they are not in all runs: {missing}")
    tasks = [Task(one.scan.name, {"shared": one}) for one in shared]
    measure = partial(_measure_scan, max_bytes=max_bytes)
    seen, failures = classification.run_followed(measure, tasks, "read", progress, jobs)
    notes += [one.message for one in failures]
    shared = [one for one in shared if one.scan.name in seen]
    if len(shared) < 2:
        raise InvalidValueError(f"fewer than two scans could be read; {failures[0].message}")
    scans = [one.scan for one in shared]
    conditions = _conditions(runs, [seen[scan.name] for scan in scans])
    if conditions[0].tissues is None:
        notes.append(
            "no tissue statistics: not all scans have tissue probability maps of WM, GM and CSF"
        )
    subjects = [scan.person for scan in scans if scan.person is not None]
    if len(set(subjects)) == len(subjects):
        notes.append("no reliability of repeated scans: no subject has two scans")
    # Maps of several channels are not made again for each fold.
    together = [run.study for run in runs if len(run.record.channels) > 1]
    own = {one.name: one.study for one in conditions}
    joint = [name for name, study in own.items() if study in together]
    notes += [f"no classification of sites for {name}: its channels are joint" for name in joint]
    classified, unclassified, more = classification.recognise_sites(
        scans,
        [seen[scan.name].lattice for scan in scans],
        runs,
        {name: study for name, study in own.items() if name not in joint},
        progress,
        seed=seed,
        permutations=permutations,
        trees=trees,
        jobs=jobs,
    )
    target = average_distribution(conditions[1].distributions)
    notes, failures = notes + more, failures + unclassified
    return Comparison(scans, runs, conditions, covariates, target, classified, notes, failures)


def _conditions(runs: Sequence[FinishedStudy], scans: Sequence[_ScanMeasures]) -> list[Condition]:
    raw, affine, *own = zip(*(scan.conditions for scan in scans), strict=True)
    aligned = _condition(AFFINE, affine)
    others = []
    for run, measures in zip(runs, own, strict=True):
        plain = run.study.method.only_aligns and not run.study.mode.by_site
        if plain and aligned.study is None:
            aligned = _condition(AFFINE, measures, run.study)  # the same, as the run has written it
        else:
            # A folder may be called like one of our own conditions.
            name = f"{run.name} (run)" if run.name in _TAKEN else run.name
            others.append(_condition(name, measures, run.study))
    return [_condition(UNNORMALISED, raw), aligned, *others]


def _condition(
    name: str, scans: Sequence[_ConditionMeasures], study: Study | None = None
) -> Condition:
    mean = float(np.mean([scan.distribution.mean() for scan in scans]))
    sd = float(np.mean([scan.distribution.sd() for scan in scans]))
    tissues = [scan.tissues for scan in scans if scan.tissues is not None]
    slopes = [scan.slopes for scan in scans if scan.slopes is not None]
    return Condition(
        name,
        [scan.distribution.transformed(1 / sd, -mean / sd) for scan in scans],
        (np.array(tissues) - [*[mean] * 4, 0]) / sd if len(tissues) == len(scans) else None,
        np.array(slopes) / sd if slopes else None,
        study,
        (mean, sd),
        [scan.margins for scan in scans],
        np.array([scan.shading for scan in scans]) / sd,
    )


# ── one scan ──────────────────────────────────────────────────────────────────────────────────────

_CORNERS = 2001  # of a distribution
_SLOPES = 1001  # of a map
_BLOCK = 12.0  # mm: larger than most that changes between visits, smaller than shading


class _ConditionMeasures(NamedTuple):
    """A scan under one condition, see `Condition`.

    Attributes
    ----------
    distribution : of the intensities inside the mask, without lesions.
    tissues : (3, 5), quartiles and moments; None without tissue probability maps.
    slopes : of the map that made it, evenly spaced over the range where it is determined, in units
        of the scan's own standard deviation; None where there is no map.
    margins, shading : see `Condition`.
    """

    distribution: EmpiricalDistribution
    tissues: FloatArray | None
    slopes: FloatArray | None = None
    margins: Mapping[str, float] = MappingProxyType({})
    shading: float = math.nan


class _ScanMeasures(NamedTuple):
    """A scan under all conditions.

    Attributes
    ----------
    conditions : unnormalised, aligned, and in each of the studies.
    lattice : some of its voxels.
    warnings : for the user.
    """

    conditions: list[_ConditionMeasures]
    lattice: Lattice
    warnings: list[str]


def _measure_scan(shared: SharedScan, *, max_bytes: int) -> _ScanMeasures:
    """Measure a scan under every condition."""
    scan, seen = shared.scan, _read_scan(shared, max_bytes)
    read, counts, voxels, results = seen
    volume, warnings = read.volume, [*read.warnings]
    tissues: list[FloatArray] = []
    for name in TISSUE_ROWS if scan.tissues.complete else ():
        source = getattr(scan.tissues, name.lower())
        share, found, _ = probabilities(source, volume, counts, max_bytes)
        tissues.append(share)
        warnings += found
    mixture = results[0].mixture
    alignment = align(mixture)
    low, high = mixture.quantile(DETERMINED_RANGE).tolist()
    grid = np.linspace(low, high, _SLOPES)
    own_sd = 1 / float(alignment.matrix[0, 0])

    def slopes(imap: IntensityMap) -> FloatArray | None:
        if imap.channels > 1:  # it has no slope of its own in one of them
            return None
        return own_sd * np.exp(imap.log_det_jacobian(grid))

    apart = [math.nan] * len(voxels)
    if shared.first is not None:
        with suppress(FileError):  # that scan is a failure of its own
            apart = _differences(_read_scan(shared.first, max_bytes), seen)
    pairs = zip(voxels, apart, strict=True)
    conditions = [_measured(own, tissues)._replace(shading=rms) for own, rms in pairs]
    conditions[1] = conditions[1]._replace(slopes=slopes(alignment))
    for place, (_, record, _) in enumerate(results, 2):
        choice = record.match.target if record.match else None
        margins = (choice.intervals if choice else None) or {}
        conditions[place] = conditions[place]._replace(slopes=slopes(record.map), margins=margins)
    lattice = classification.lattice_of(volume, counts, voxels[0], tissues, alignment)
    return _ScanMeasures(conditions, lattice, warnings)


# A scan, which of its voxels count, these under every condition, and what is known of the results.
_Seen = tuple[Voxels, BoolArray, list[FloatArray], list[finished.Results]]


def _read_scan(shared: SharedScan, max_bytes: int) -> _Seen:
    """Read a scan under every condition."""
    results = [finished.read_results(paths) for paths in shared.paths]
    read = finished.read_raw_voxels(shared.scan, results[0].record, max_bytes=max_bytes)
    values = read.volume.values(read.volume.flat)
    counts = read.inside[:] & np.isfinite(values)
    if read.lesion is not None:
        counts &= ~read.lesion
    voxels = [values[counts], align(results[0].mixture)(values[counts])]
    for paths, (_, record, _) in zip(shared.paths, results, strict=True):
        finished.refuse_other_inputs(paths, record, read.files)
        result = read_volume(paths.image, max_bytes=max_bytes)
        finished.refuse_other_image(record, result)
        voxels.append(result.values(result.flat)[counts])
    return read, counts, voxels, results


def _differences(first: _Seen, later: _Seen) -> list[float]:
    """Return how far two scans are apart under each condition; NaN if they are on two grids.

    That is the root mean square difference of means over blocks of 12 mm, of voxels that count in
    both: noise and small changes hardly show, shading does. Half of a block, or more, must count.
    """
    one, other, both = first[0].volume, later[0].volume, np.zeros(1, bool)
    if one.spatial_shape == other.spatial_shape and np.allclose(one.affine, other.affine):
        both = first[1] & later[1]
    at = np.array(np.unravel_index(np.flatnonzero(both), one.spatial_shape, order="F"))
    size = np.maximum(np.rint(_BLOCK / np.linalg.norm(one.affine[:3, :3], axis=0)), 1).astype(int)
    block = np.ravel_multi_index(tuple(at // size[:, np.newaxis]), one.spatial_shape)
    counts = np.bincount(block)
    whole = counts >= 0.5 * size.prod()
    found = []
    for before, after in zip(first[2], later[2], strict=True) if whole.any() else ():
        change = np.subtract(after[both[later[1]]], before[both[first[1]]], dtype=np.float64)
        means = np.bincount(block, change)[whole] / counts[whole]
        found.append(float(np.sqrt(np.mean(means**2))))
    return found or [math.nan] * len(first[2])


def _measured(voxels: FloatArray, tissues: Sequence[FloatArray]) -> _ConditionMeasures:
    """Measure intensities, with the probabilities of the tissues there."""
    values, level, counts = np.unique(voxels, return_inverse=True, return_counts=True)
    distribution = empirical_distribution(values, counts)
    if distribution.edges.size > _CORNERS:
        distribution = average_distribution([distribution], points=_CORNERS)
    weights = [np.bincount(level, share) for share in tissues]
    found = [[*quartiles(values, own), *weighted_moments(values, own)] for own in weights]
    return _ConditionMeasures(distribution, np.array(found) if found else None)


# ── the scans that are compared, and their covariates ─────────────────────────────────────────────


@dataclass(frozen=True)
class SharedScan:
    """A scan that several studies have.

    Attributes
    ----------
    scan : in the first of them; with its lesion mask, if any of them has one.
    paths : of its results in each of them.
    first : the first scan of the same person, if this is a later one.
    """

    scan: Subject
    paths: Sequence[ResultPaths]
    first: SharedScan | None = None


def shared_scans(runs: Sequence[FinishedStudy]) -> list[SharedScan]:
    """Return the scans that all studies have, in the order of the first.

    Whether their images and masks are the same is seen when they are read.
    """
    shared = []
    by_name = [run.scans for run in runs]
    for name, scan in by_name[0].items():
        if all(name in scans for scans in by_name):
            same = [scans[name] for scans in by_name]
            if len({one.site for one in same}) > 1:
                words = f"the site of {name} is not the same in all runs"
                raise InvalidValueError(f"{words}; compare runs of the same table")
            paths = [run.study.paths(one) for run, one in zip(runs, same, strict=True)]
            # It may be missing in some of them: what it does may be the very question.
            lesion = next((one.lesion for one in same if one.lesion is not None), None)
            shared.append(SharedScan(replace(scan, lesion=lesion), paths))
    if len(shared) < 2:
        raise InvalidValueError("the runs share fewer than two scans; compare runs of one table")
    known = {one.scan.name: one for one in shared}
    pairs = later_scans(one.scan for one in shared)
    first = {later.name: known[one.name] for one, later in pairs}
    return [replace(one, first=first.get(name)) for name, one in known.items()]


def check_covariates(scans: Sequence[Subject], names: Sequence[str]) -> None:
    """Refuse covariates that no scan has, that are no numbers, or that cannot be tested."""
    values = [covariate_values(scans, name)[1] for name in names]
    if len({*names}) < len(names):
        raise InvalidValueError(f"covariate: {' '.join(names)}: the same twice; leave one out")
    if names and not all(scan.tissues.complete for scan in scans):
        words = "its effect is on tissues, but not all scans have tissue probability maps"
        raise InvalidValueError(f"covariate: {words} of WM, GM and CSF")
    sites = [scan.site or "" for scan in scans]
    for place, own in enumerate(values):
        # Refuses one that is the same for all scans of a site, or known of too few, or varies
        # with the others only.
        for others in ([], values[:place] + values[place + 1 :]):
            covariate_effect(range(len(scans)), own, sites, others)


def covariate_values(scans: Sequence[Subject], name: str) -> tuple[str, list[float]]:
    """Return what a covariate is called, and the number of each scan; NaN where it is not known.

    Of two words, the second is 1, and part of the name.
    """
    column = columns_of(scans, [name])[name]
    if column.dtype.kind != "U":
        return name, column.tolist()
    levels = sorted({*column.tolist()} - {""})
    if len(levels) != 2:
        words = f"covariate: {name} has values that are no numbers, such as {levels[0]!r}"
        raise InvalidValueError(f"{words}; choose a covariate with numbers, or with two values")
    numbers = {"": math.nan, levels[0]: 0.0, levels[1]: 1.0}
    return f"{name} ({levels[1]})", [numbers[text] for text in column.tolist()]
