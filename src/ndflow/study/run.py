"""A study from the first scan to the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ndflow._version import versions
from ndflow.errors import FileError
from ndflow.files.atomic import folder_lock
from ndflow.files.stream import sha256_of
from ndflow.study.folder import (
    PROVENANCE,
    SCANS,
    refuse_foreign,
    refuse_inputs_inside,
    refuse_other_scans,
    refuse_replacing,
    remove_failed,
    remove_leftovers,
    remove_page,
    remove_unused_masks,
)
from ndflow.study.passes import (
    Pass,
    Passes,
    ReferencePass,
    Summary,
    build_references,
    check_study,
    fit_scans,
    normalise_scans,
)
from ndflow.study.plan import Study
from ndflow.study.prepare_run import STAGE, check_preparation, prepare_first
from ndflow.study.prepared_images import found_with, keeps_mask
from ndflow.study.table import (
    refuse_almost_equal_sites,
    refuse_repeats,
    write_study_scans,
)
from ndflow.study.tasks import Progress, read_failures, record_failures
from ndflow.subject.outputs import check_folder, make_folder
from ndflow.subject.records import StudyRecord


def run_cohort(
    study: Study,
    progress: Progress,
    *,
    command: Sequence[str] = (),
    force: bool,
    ours: bool = False,
) -> Summary:
    """Run a study.

    Parameters
    ----------
    study : what to do.
    progress : follows how far the run has come.
    command : what the user typed, for the record.
    force : whether the folder may hold something else, or a study of other scans.
    ours : whether the caller has checked what else the folder holds.
    """
    folder = study.folder
    check_cohort(study, force=force, ours=ours)
    make_folder(folder)
    with folder_lock(folder):
        failed = _failed_before(folder)
        remove_leftovers(study)
        remove_unused_masks(study)
        _record(study, command)
        write_study_scans(folder / SCANS, study.scans)
        try:
            ready, prepared = prepare_first(study, progress, command)
            fitted = fit_scans(ready, progress)
            normalised, references = Pass(), ReferencePass(study, {}, {}, (), ())
            if fitted.done:
                references = build_references(study, fitted.done, progress)
                normalised = normalise_scans(fitted.done, references, progress)
        except BaseException:
            remove_leftovers(study)  # of workers that had to stop at once
            remove_unused_masks(study)
            raise
        unprepared = [] if prepared is None else prepared.failures
        failures = [*unprepared, *fitted.failures, *normalised.failures]
        remove_failed(study, [*unprepared, *fitted.failures], normalised.failures)
        if normalised.kept < len(normalised.done) or failed != {one.scan for one in failures}:
            remove_page(folder)
        passes = Passes(prepared, fitted, references, normalised)
        _record(references.study, command, passes)
        stages = {STAGE: unprepared, "fit": fitted.failures, "normalise": normalised.failures}
        record_failures(folder, None, stages)
    return Summary(
        len(normalised.done),
        normalised.kept,
        failures,
        normalised.all_doubts(),
        normalised.distances(),
        prepared,
        references.of_study,
        references.study.preset,
        references.balance,
    )


def _failed_before(folder: Path) -> set[str]:
    """Return the scans that failed in an earlier run."""
    try:
        return {scan for scan, *_ in read_failures(folder)}
    except FileError:
        return set()


def check_cohort(study: Study, *, force: bool, ours: bool = False) -> None:
    """Raise an error, before any work, if the study cannot be run; see `run_cohort`."""
    check_study(study)
    raw = study.preparation
    refuse_repeats(study.scans)
    refuse_almost_equal_sites(study.scans)
    check_folder(study.within or study.folder)
    if not (ours or force):
        refuse_foreign(study.folder, study.channel)
    if not force:
        refuse_other_scans(study)
    refuse_inputs_inside(study if raw is None else replace(study, scans=raw.scans))
    refuse_replacing(study)
    if raw is not None:
        check_preparation(raw)


def _written(study: Study, passes: Passes) -> dict[str, str]:
    """Return the hashes of all that a study wrote except images, whose sidecars hold theirs."""
    names = [SCANS, *passes.references.written]
    for scan in study.scans:
        if scan.name in passes.fitted.done:
            paths = study.paths(scan)
            written = [paths.model, *([paths.mask] if keeps_mask(scan) else [])]
            if scan.name in passes.normalised.done:
                written += [paths.sidecar, paths.preview]
            names += [path.relative_to(study.folder).as_posix() for path in written]
    return {name: sha256_of(study.folder / name) for name in names}


def _record(study: Study, command: Sequence[str], passes: Passes | None = None) -> None:
    """Write what is run; at the end, with what came of it."""
    outcome: dict[str, Any] = {}
    if passes is not None:
        prepared, fitted, references, normalised = passes
        unprepared = 0 if prepared is None else len(prepared.failures)
        outcome = {
            "inputs": tuple(references.read),
            "files": _written(study, passes),
            "finished": True,
            "fitted": len(fitted.done),
            "normalised": len(normalised.done),
            "failed": unprepared + len(fitted.failures) + len(normalised.failures),
            "prepared": None if prepared is None else prepared.done,
            "doubts": normalised.all_doubts(),
            "of_study": references.of_study,
            "balance": dict(references.balance),
        }
    StudyRecord(
        settings=study.settings,
        command=tuple(command),
        versions=versions() | found_with(study.scans),
        reference=study.given,
        channel=study.channel,
        scans=len(study.scans),
        sites=study.site_counts,
        preset=study.preset,
        **outcome,
    ).write(study.folder / PROVENANCE, force=True)
