"""A study from the first scan to the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from warnings import warn

from ndflow._version import versions
from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath, folder_lock
from ndflow.files.stream import sha256_of
from ndflow.image.mask import Unmasked, found_for
from ndflow.methods.matching import (
    Matching,
    MatchingChoices,
    MethodName,
    Objective,
    Scale,
    Solver,
    TargetKind,
)
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
from ndflow.study.plan import ANY_CHANNEL, Study
from ndflow.study.prepare_run import STAGE, check_preparation, prepare_first
from ndflow.study.prepared_images import found_with, keeps_mask
from ndflow.study.prepared_study import preparing_for, with_preparation
from ndflow.study.references import with_choices
from ndflow.study.table import (
    named_scans,
    read_table,
    refuse_almost_equal_sites,
    refuse_repeats,
    write_study_scans,
)
from ndflow.study.tasks import Progress, Silent, read_failures, record_failures
from ndflow.subject.outputs import check_folder, make_folder
from ndflow.subject.parameters import documented
from ndflow.subject.presets import Choices
from ndflow.subject.records import StudyRecord
from ndflow.subject.settings import (
    Average,
    AveragingChoices,
    DType,
    Fitting,
    ModeName,
    Outside,
    PresetName,
    Reading,
    Writing,
)
from ndflow.values import path_like


@documented(AveragingChoices, MatchingChoices, Fitting, Writing, Reading)
def cohort(
    table: AnyPath,
    out: AnyPath,
    *,
    reference: AnyPath | None = None,
    channel: str = ANY_CHANNEL,
    mask: Unmasked | None = None,
    prepare: bool = False,
    preset: PresetName = "auto",
    mode: ModeName | None = None,
    average: Average | None = None,
    balance: tuple[str, ...] = (),
    method: MethodName = Matching.method,
    target: TargetKind | None = None,
    freeze: tuple[str, ...] = Matching.freeze,
    objective: Objective | None = None,
    regularisation: float | None = None,
    solver: Solver = Matching.solver,
    landmarks: int = Matching.landmarks,
    scale: Scale | None = Matching.scale,
    range: tuple[float, float] | None = Matching.range,
    effective_count: float = Fitting.effective_count,
    outside: Outside | None = Writing.outside,
    dtype: DType = Writing.dtype,
    force: bool = Writing.force,
    max_bytes: int = Reading.max_bytes,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Normalise all scans of a study, as ``ndflow cohort`` does, but without the report.

    Parameters
    ----------
    table : TSV or CSV with one row per scan, see ``ndflow cohort --help``.
    out : the folder for the results.
    reference : a reference instead of one made from these scans: its path, or ``"builtin:T1w"``.
    channel : what the images show, for example ``"T1w"``.
    mask : of scans without one: ``"brain"``, to be found in T1w images (OUT/masks); ``"auto"``, the
        foreground; or ``"nonzero"``, all voxels but 0. By default ``"nonzero"``, or ``"brain"``
        with `prepare`.
    prepare : whether the scans are raw, and first prepared to OUT/prepared, with all steps; to
        leave some out, call `ndflow.prepare` before.
    preset : what decides the settings below that are None: ``"auto"``, by what the study has; or
        ``"paper"``, as in the paper. `Summary.preset` says what it decided, and why.
    jobs : how many scans at a time, each in a process of its own; -1 for one per core.
    scheduler : instead, the address of a Dask scheduler, or its file.
    progress : follows how far the run has come.

    Returns
    -------
    Summary
        How many scans were normalised, how many of those were up to date already, which failed, and
        which to check by eye.

    Raises
    ------
    FileError, InvalidValueError
        Where the study as a whole cannot be run. Single scans that fail are reported.

    Examples
    --------
    >>> import ndflow
    >>> ndflow.cohort("study.tsv", "out", channel="T1w")  # doctest: +SKIP
    """
    path_like(table, "table")
    path_like(out, "out")
    listed = read_table(table)
    for text in listed.warnings:
        warn(text, stacklevel=2)
    preparing = preparing_for(prepare, mask)
    study = Study(
        Path(out).absolute(),
        named_scans(listed.scans, unmasked=None if prepare else found_for(mask)),
        fitting=Fitting(effective_count),
        reading=Reading(max_bytes),
        writing=Writing(outside, dtype, force),
        given=None if reference is None else str(reference),
        channel=channel,
        jobs=jobs,
        scheduler=scheduler,
        table=str(table),
    )
    if preparing is not None:
        study = with_preparation(study, Path(table).absolute().parent, preparing)
    matching = MatchingChoices(
        method, target, freeze, objective, regularisation, solver, landmarks, scale, range
    )
    study = with_choices(study, Choices(preset, AveragingChoices(mode, average, balance), matching))
    return run_cohort(study, progress or Silent(), force=force)


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
