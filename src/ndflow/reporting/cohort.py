"""A whole study from Python: run it, and write its report."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Unpack
from warnings import warn

from ndflow.errors import NdflowError
from ndflow.files.atomic import AnyPath
from ndflow.image.mask import Unmasked, found_for
from ndflow.options import Keywords, Options, PresetName, documented
from ndflow.reporting.build import report as write_report
from ndflow.study.page_fingerprint import page_is_current
from ndflow.study.passes import Summary
from ndflow.study.plan import ANY_CHANNEL, Study
from ndflow.study.prepared_study import preparing_for, with_preparation
from ndflow.study.references import with_choices
from ndflow.study.run import run_cohort
from ndflow.study.table import named_scans, read_table
from ndflow.study.tasks import Progress, Silent
from ndflow.subject.presets import Choices
from ndflow.values import path_like


@documented()
def cohort(
    table: AnyPath,
    out: AnyPath,
    *,
    reference: AnyPath | None = None,
    channel: str = ANY_CHANNEL,
    mask: Unmasked | None = None,
    prepare: bool = False,
    preset: PresetName = "auto",
    jobs: int = 1,
    scheduler: str | None = None,
    report: bool = True,
    progress: Progress | None = None,
    **options: Unpack[Keywords],
) -> Summary:
    """Normalise all scans of a study, and write the report, as ``ndflow cohort`` does.

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
    preset : what decides the options below that are None: ``"auto"``, by what the study has; or
        ``"paper"``, as in the paper. `Summary.preset` says what it decided, and why.
    jobs : how many scans at a time, each in a process of its own; -1 for one per core.
    scheduler : instead, the address of a Dask scheduler, or its file.
    report : whether to write the report, where the packages that it needs are installed.
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
    choices = Choices(preset, options)
    chosen = Options(**choices.options)
    listed = read_table(table)
    for text in listed.warnings:
        warn(text, stacklevel=2)
    preparing = preparing_for(prepare, mask)
    study = Study(
        Path(out).absolute(),
        named_scans(listed.scans, unmasked=None if prepare else found_for(mask)),
        options=chosen,
        given=None if reference is None else str(reference),
        channel=channel,
        jobs=jobs,
        scheduler=scheduler,
        table=str(table),
    )
    if preparing is not None:
        study = with_preparation(study, Path(table).absolute().parent, preparing)
    study, following = with_choices(study, choices), progress or Silent()
    summary = run_cohort(study, following, force=chosen.force)
    able = all(find_spec(package) is not None for package in ("jinja2", "matplotlib"))
    if report and able and summary.done and not page_is_current(study.folder):
        try:
            write_report(
                study.folder, max_bytes=chosen.max_bytes, force=chosen.force, progress=following
            )
        except NdflowError as error:  # the study itself is done
            warn(f"the report was not written: {error}", stacklevel=2)
    return summary
