"""Whole studies and preparations from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from warnings import warn

from ndflow._version import not_installed
from ndflow.errors import InvalidValueError, NdflowError
from ndflow.files.atomic import AnyPath
from ndflow.image.mask import Unmasked
from ndflow.options import NoMask, Options, Preparing, PresetName, Space, TissueSource, documented
from ndflow.reporting.build import report as write_report
from ndflow.study import run
from ndflow.study.finished import page_is_current
from ndflow.study.table import read_table
from ndflow.study.tasks import Progress, Silent
from ndflow.subject.presets import Choices


@documented()
def cohort(
    table: AnyPath,
    out: AnyPath,
    *,
    reference: AnyPath | None = None,
    channels: str | Sequence[str] = (),
    joint: bool = False,
    mask: Unmasked | None = None,
    prepare: bool = False,
    preset: PresetName = "auto",
    jobs: int = 1,
    scheduler: str | None = None,
    report: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> run.Summary:
    """Normalise all scans of a study, and write the report, as ``ndflow cohort`` does.

    Parameters
    ----------
    table : TSV or CSV with one row per scan, see ``ndflow cohort --help``.
    out : the folder for the results.
    reference : a reference instead of one made from these scans: its path, or ``"builtin:T1w"``.
    channels : what the images show, for example ``"T1w"``; or the columns of several channels.
    joint : whether several channels are normalised together.
    mask : of scans without one: ``"brain"``, to be found in T1w images (OUT/masks); ``"auto"``, the
        foreground; or ``"nonzero"``, all non-zero voxels. By default ``"nonzero"``, or ``"brain"``
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
    >>> ndflow.cohort("study.tsv", "out", channels="T1w")  # doctest: +SKIP
    """
    names = (channels,) if isinstance(channels, str) else tuple(channels)
    if joint != (len(names) > 1):
        words = "joint=True is for several channels, such as ['T1w', 'FLAIR']"
        raise InvalidValueError(f"{words}; run one at a time for each by itself")
    listing = read_table(table, names)
    for text in listing.warnings:
        warn(text, stacklevel=2)
    preparing, unmasked = run.preparing_for(prepare, mask)
    given = None if reference is None else str(reference)
    asked = run.Asked(Choices(preset, options), given, preparing, unmasked, jobs, scheduler)
    study, following = run.assemble(listing, Path(out).absolute(), asked), progress or Silent()
    summary = run.run_study(study, following)
    able = report and summary.done and not not_installed("jinja2", "matplotlib")
    if able and not page_is_current(study.folder):
        limit, force = study.options.max_bytes, study.options.force
        try:
            write_report(study.folder, max_bytes=limit, force=force, progress=following)
        except NdflowError as error:  # the study itself is done
            warn(f"the report was not written: {error}", stacklevel=2)
    return summary


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
) -> run.Summary:
    """Prepare raw scans for a study, as ``ndflow prepare`` does.

    Parameters
    ----------
    table : TSV or CSV with one row per scan, see ``ndflow prepare --help``.
    out : the folder for the results.
    channel : what the images show. Default: the end of each file name, if that is known, or T1w.
    mask, tissues, no_bias_field, space, resolution : how, see `ndflow.options.Preparing`.
    max_bytes : refuse files with more bytes than this when decompressed.
    force : whether the folder may hold something else, and results may be replaced that somebody
        has changed, for example a mask.
    jobs : how many scans at a time, each in a process of its own; -1 for one per core.
    scheduler : instead, the address of a Dask scheduler, or its file.
    progress : follows how far the run has come.

    Returns
    -------
    Summary
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
    listing = read_table(table, (channel,) if channel else ())
    for text in listing.warnings:
        warn(text, stacklevel=2)
    study = run.assemble_preparation(
        listing,
        Path(out).absolute(),
        Preparing(mask, tissues, no_bias_field, space, resolution),
        Options(max_bytes=max_bytes, force=force),
        jobs=jobs,
        scheduler=scheduler,
    )
    return run.run_study(study, progress or Silent())
