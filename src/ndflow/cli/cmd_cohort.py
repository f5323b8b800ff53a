"""``ndflow cohort``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import (
    METHOD,
    AutoMask,
    AveragingOptions,
    DryRun,
    FittingOptions,
    Jobs,
    MatchingOptions,
    NoReport,
    ReadingOptions,
    Scheduler,
    StopEarly,
    Verbosity,
    VerbosityOptions,
    WritingOptions,
)
from ndflow.settings import Averaging, Fitting, Matching, Reading, Writing

__all__ = ["cohort"]


def cohort(
    table: Annotated[str, Parameter(metavar="TABLE")],
    out: Annotated[str | None, Parameter(metavar="OUT")] = None,
    /,
    *,
    from_folder: Annotated[str | None, Parameter(metavar="DIR")] = None,
    pattern: Annotated[str | None, Parameter(metavar="NAME")] = None,
    averaging: AveragingOptions = Averaging(),
    reference: Annotated[str | None, Parameter(metavar="R.json", group=METHOD)] = None,
    channel: Annotated[str, Parameter(metavar="NAME")] = "intensity",
    auto_mask: AutoMask = False,
    matching: MatchingOptions = Matching(),
    fitting: FittingOptions = Fitting(),
    writing: WritingOptions = Writing(),
    reading: ReadingOptions = Reading(),
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    stop_on_first_failure: StopEarly = False,
    no_report: NoReport = False,
    dry_run: DryRun = False,
    talk: VerbosityOptions = Verbosity(),
) -> int:
    """Bring all scans of a study to a reference, made from them or given.

    OUT gets the images, the maps, the models, the references, a list of what failed, and a page
    that shows what happened, report.html (with pip install 'ndflow[report]'). A run
    that was stopped goes on where it was; so does one whose table has grown or whose settings have
    changed: only what is missing, or would not be the same, is done again.

    Example: `ndflow cohort study.tsv OUT --jobs 4`

    Parameters
    ----------
    table
        TSV or CSV, a scan a row, with a column `image`; and, if there are any, `subject`, `site`
        (or `centre`), `mask`, `gm`, `wm`, `csf`. Paths are relative to the table.
    out
        The folder for the results.
    from_folder
        Instead of a table: all images in this folder and below. The folder of an image is its
        site.
    pattern
        With --from-folder: what the images are called, such as `*_T1w.nii.gz`.
    reference
        Use this reference instead of making one. With --mode site or two-level, a site whose
        `reference_SITE.json` lies beside it is known; that of any other is made from its scans.
    channel
        What the images show, for example T1w.
    """
    from ndflow.cli.progress import ProgressDisplay, conclude, write_page
    from ndflow.cli.run_scans import command_line, dry_run_study
    from ndflow.errors import InvalidValueError
    from ndflow.files.scan_table import read_table
    from ndflow.scan.tissue_maps import needs_tissues
    from ndflow.study.passes import Study
    from ndflow.study.run import check_cohort, members_of, rows_of_folder, run_cohort

    if from_folder is not None and out is None:
        folder, origin = Path(table).absolute(), "image"
        rows = rows_of_folder(Path(from_folder), folder, pattern)
    elif from_folder is None and out is not None and pattern is None:
        folder, rows, origin = Path(out).absolute(), read_table(table), "row"
    else:
        raise InvalidValueError(
            "give either TABLE OUT, or --from-folder DIR OUT (and then perhaps --pattern)"
        )
    members = members_of(rows, folder, origin, auto_mask=auto_mask)
    study = Study(
        folder,
        members,
        averaging,
        fitting,
        matching,
        reading,
        writing,
        given=reference,
        channel=channel,
        jobs=jobs,
        scheduler=scheduler,
        stop_early=stop_on_first_failure,
    )
    if dry_run:
        check_cohort(study, force=writing.force)
        return dry_run_study(members, maps=needs_tissues(matching))
    with ProgressDisplay(talk) as watch:
        summary = run_cohort(study, rows, watch, command=command_line(), force=writing.force)
    if not no_report and summary.done:
        write_page(folder, talk, reading.max_bytes)
    return conclude(summary, study, talk)
