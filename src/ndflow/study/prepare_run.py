"""Raw scans, prepared one by one, into a folder that is ready for a study.

A scan that fails is left out and reported, and the others go on. What is there already, with the
fingerprint it should have, is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple
from warnings import warn

from ndflow._version import __version__, versions
from ndflow.doubt import Doubt
from ndflow.files.atomic import AnyPath, folder_lock
from ndflow.files.stream import sha256_of
from ndflow.options import NoMask, Options, Preparing, Space, TissueSource
from ndflow.study import bids_derivative
from ndflow.study.folder import PROVENANCE, refuse_inputs_inside, remove_leftovers
from ndflow.study.plan import Preparation, Study
from ndflow.study.prepare_copies import remove_other_copies
from ndflow.study.prepare_folder import (
    ALIGNED,
    STUDY,
    check_place,
    record_in,
    records_of,
    remove_failed_scans,
    write_tables,
)
from ndflow.study.prepare_job import PACKAGES, prepare_job, prepared_before, with_site
from ndflow.study.prepare_records import PreparationRecord, PreparedRecord
from ndflow.study.prepared_study import scans_to_prepare
from ndflow.study.raw_scan import check_requirements, choices_for
from ndflow.study.scan_pass import ScanTasks, Work, outcomes_of
from ndflow.study.table import named_scans, read_table, refuse_almost_equal_sites, refuse_repeats
from ndflow.study.tasks import Failure, Progress, Silent, check_jobs, read_failures, record_failures
from ndflow.subject.outputs import check_folder, make_folder
from ndflow.values import path_like

STAGE = "prepare"

_TABLES_LOCK = ".ndflow-tables-lock"


class PreparationSummary(NamedTuple):
    """How a preparation ended.

    Attributes
    ----------
    done, kept : scans that are prepared, and those of them that had been before.
    failures : of the others.
    doubts_of : what to check by eye, by the name of the scan.
    table : the table of the prepared scans, for `ndflow.cohort`; None if all failed.
    seconds : how long a scan took, the median of those prepared now; None if none was.
    aligned : the table of copies in a common space; None if there are none.
    """

    done: int
    kept: int
    failures: list[Failure]
    doubts_of: Mapping[str, tuple[Doubt, ...]] = MappingProxyType({})
    table: Path | None = None
    seconds: float | None = None
    aligned: Path | None = None


@dataclass
class _Pass:
    """What the pass over the scans gave."""

    done: set[str] = field(default_factory=set)
    kept: int = 0
    failures: list[Failure] = field(default_factory=list)
    doubts: dict[str, tuple[Doubt, ...]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


def prepare(
    table: AnyPath,
    out: AnyPath,
    *,
    channel: str | None = None,
    mask: NoMask = Preparing.mask,
    tissues: TissueSource = Preparing.tissues,
    no_bias_field: bool = Preparing.no_bias_field,
    space: Space = Preparing.space,
    resolution: float | None = Preparing.resolution,
    max_bytes: int = Options.max_bytes,
    force: bool = False,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> PreparationSummary:
    """Prepare raw scans for a study, as ``ndflow prepare`` does.

    Parameters
    ----------
    table : TSV or CSV with one row per scan, see ``ndflow prepare --help``.
    out : the folder for the results.
    channel : what the images show. Default: the end of each file name, if that is known, or T1w.
    mask, tissues, no_bias_field, space, resolution : how, see `ndflow.options.Preparing`.
    max_bytes : refuse files with more bytes than this when decompressed.
    force : whether the folder may hold something else, or prepared scans that are not listed now.
        Results that somebody has changed, for example a mask, are never replaced.
    jobs : how many scans at a time, each in a process of its own; -1 for one per core.
    scheduler : instead, the address of a Dask scheduler, or its file.
    progress : follows how far the run has come.

    Returns
    -------
    PreparationSummary
        How many scans were prepared, which failed, which to check by eye, and the table for
        `ndflow.cohort`.

    Raises
    ------
    FileError, InvalidValueError
        Where the scans as a whole cannot be prepared. Single scans that fail are reported.

    Examples
    --------
    >>> import ndflow
    >>> summary = ndflow.prepare("raw.tsv", "prepared")  # doctest: +SKIP
    >>> ndflow.cohort(summary.table, "out", proportions="tissue")  # doctest: +SKIP
    """
    path_like(table, "table")
    path_like(out, "out")
    listed = read_table(table)
    for text in listed.warnings:
        warn(text, stacklevel=2)
    source = Path(table).absolute().parent
    plan = Preparation(
        Path(out).absolute(),
        scans_to_prepare(named_scans(listed.scans), source, channel),
        Preparing(mask, tissues, no_bias_field, space, resolution),
        Options(max_bytes=max_bytes),
        channel,
        force,
        jobs,
        scheduler,
        source=source,
        table=str(table),
    )
    return run_preparation(plan, progress or Silent())


def check_preparation(plan: Preparation) -> None:
    """Raise an error, before any work, if the scans cannot be prepared."""
    check_jobs(plan.jobs)
    refuse_repeats(plan.scans)
    refuse_almost_equal_sites(plan.scans)
    check_requirements(plan)
    if not plan.within:
        check_folder(plan.folder)
    refuse_inputs_inside(plan)
    bids_derivative.check_dataset(plan.folder, **_source(plan))
    check_place(plan)


def run_preparation(
    plan: Preparation, progress: Progress, *, command: Sequence[str] = ()
) -> PreparationSummary:
    """Prepare scans.

    Parameters
    ----------
    plan : what to do.
    progress : follows how far the run has come.
    command : what the user typed, for the record.
    """
    check_preparation(plan)
    folder = plan.folder
    make_folder(folder)
    with folder_lock(folder, shared=plan.partial):
        remove_leftovers(plan)
        with folder_lock(folder, name=_TABLES_LOCK, wait=True):
            bids_derivative.write_dataset_files(
                folder, version=__version__, texts=bids_derivative.PREPARED, **_source(plan)
            )
            _record(plan, command)
        try:
            found = _over(plan, progress)
        except BaseException:
            remove_leftovers(plan)  # of workers that had to stop at once
            raise
        remove_failed_scans(plan, found.failures)
        remove_other_copies(plan)
        with folder_lock(folder, name=_TABLES_LOCK, wait=True):
            _finish(plan, command, found)
    return PreparationSummary(
        len(found.done),
        found.kept,
        found.failures,
        found.doubts,
        folder / STUDY if found.done else None,
        median(found.seconds) if found.seconds else None,
        folder / ALIGNED if found.done and plan.preparing.resolution is not None else None,
    )


def prepare_first(
    study: Study, progress: Progress, command: Sequence[str] = ()
) -> tuple[Study, PreparationSummary | None]:
    """Prepare the scans of a study, if that is part of it.

    Parameters
    ----------
    study : the study.
    progress : follows how far the run has come.
    command : what the user typed, for the record.

    Returns
    -------
    study : without the scans that failed.
    prepared : how the preparation ended; None if there was none.
    """
    if study.preparation is None:
        return study, None
    prepared = run_preparation(study.preparation, progress, command=command)
    failed = {failure.scan for failure in prepared.failures}
    ready = [scan for scan in study.scans if scan.name not in failed]
    return replace(study, scans=ready), prepared


def _source(plan: Preparation) -> dict[str, Any]:
    return {"source_root": plan.source, "any_source": plan.any_source, "force": plan.force}


def _over(plan: Preparation, progress: Progress) -> _Pass:
    result = _Pass()
    chosen: dict[str, Any] = {"settings": plan.own_settings, "max_bytes": plan.options.max_bytes}
    job = partial(prepare_job, **chosen)
    work = Work(STAGE, job, prepared_before, apart=True)  # ANTs computes without a pause
    tasks = ScanTasks(plan, plan.scans, lambda scan: {"choices": choices_for(plan, scan)})
    progress.begin(STAGE, len(tasks))
    with closing(outcomes_of(plan, work, tasks)) as outcomes:
        for scan, outcome in outcomes:
            progress.step(STAGE, outcome)
            if outcome.failure is not None:
                result.failures.append(outcome.failure)
                continue
            done = outcome.result
            result.done.add(scan.name)
            result.kept += done.kept
            if done.doubts:
                result.doubts[scan.name] = done.doubts
            if not done.kept:
                result.seconds.append(done.seconds)
    return result


def _finish(plan: Preparation, command: Sequence[str], found: _Pass) -> None:
    """Write the tables, the list of failures and the record."""
    records: dict[str, PreparationRecord] = {}
    for scan in plan.scans:
        if scan.name in found.done:
            paths = plan.paths(scan)
            records[scan.output] = with_site(scan, paths, choices_for(plan, scan))
            paths.unfinished.unlink(missing_ok=True)  # of a run that was killed just before its end
    written = write_tables(plan, records)
    stages = {STAGE: sorted(scan.name for scan in plan.scans)} if plan.partial else None
    record_failures(plan.folder, stages, {STAGE: found.failures})
    known = records_of(plan, written.measured, records)
    _record(
        plan,
        command,
        files={name: sha256_of(plan.folder / name) for name in written.names},
        finished=True,
        sites=dict(sorted(Counter(one.site for one in known.values() if one.site).items())),
        prepared=len(known),
        failed=len(read_failures(plan.folder)),
        doubts={name: one.doubts for name, one in known.items() if one.doubts},
    )


def _record(plan: Preparation, command: Sequence[str], **outcome: Any) -> None:
    """Write what is run; at the end, with what came of it."""
    outputs = [scan.output for scan in plan.scans]
    before = record_in(plan.folder)
    if before is not None and (plan.partial or plan.force):
        outputs = [*before.outputs, *outputs]
    PreparedRecord(
        settings=plan.settings,
        command=tuple(command),
        versions=versions(*PACKAGES),
        channel=plan.channel,
        outputs=tuple(dict.fromkeys(outputs)),
        **outcome,
    ).write(plan.folder / PROVENANCE, force=True)
