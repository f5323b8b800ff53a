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
from ndflow.scan.settings import Averaging, Fitting, Matching, Reading, Writing

__all__ = ["cohort"]


def cohort(
    table: Annotated[str, Parameter(metavar="TABLE")],
    out: Annotated[str | None, Parameter(metavar="OUT")] = None,
    /,
    *,
    from_folder: Annotated[str | None, Parameter(metavar="DIR")] = None,
    pattern: Annotated[str | None, Parameter(metavar="PATTERN")] = None,
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
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Normalise all scans of a study to a reference, made from them or given.

    OUT will hold the images, intensity maps, models and references, a list of failures, and a
    report, report.html (requires pip install 'ndflow[report]'). A run that was stopped resumes
    where it left off. If the table has grown or the settings have changed, only what is missing or
    out of date is done again.

    Example: `ndflow cohort study.tsv OUT --jobs 4`

    Parameters
    ----------
    table
        TSV or CSV with one row per scan and a column `image`; optionally `subject`, `site` (or
        `centre`), `mask`, `lesion` (voxels to leave out of the estimate), `csf`, `gm`, `wm` and
        covariates. Paths are relative to the table. What was understood is printed first.
    out
        The folder for the results.
    from_folder
        Instead of a table: all images in this folder and its subfolders, but for results of ndflow
        and for masks (`*_mask`, `*_probseg`, `*_dseg`, `*_lesion`). The site of a scan is the
        folder that it is in.
    pattern
        With --from-folder: a pattern for the names of the images, such as `*_T1w.nii.gz`.
    reference
        Use this reference instead of making one. With --mode site or two-level, the reference of a
        site is read from `reference_SITE.json` next to it, or made from the scans of the site.
    channel
        The contrast of the images, such as T1w.
    """
    from ndflow.cli.progress import ProgressDisplay, conclude, write_page
    from ndflow.cli.run_scans import command_line, dry_run_study
    from ndflow.cli.understood import print_understood
    from ndflow.errors import InvalidValueError
    from ndflow.study.listing.image_folder import scans_in_folder
    from ndflow.study.listing.scan_table import ScanTable, named_scans, read_table
    from ndflow.study.plan import Study
    from ndflow.study.run import check_cohort, run_cohort

    if from_folder is not None and out is None:
        folder = Path(table).absolute()
        found, skipped = scans_in_folder(Path(from_folder), folder, pattern)
        listed = ScanTable(found)
    elif from_folder is None and out is not None and pattern is None:
        folder, listed, skipped = Path(out).absolute(), read_table(table), {}
    else:
        raise InvalidValueError(
            "give either TABLE OUT, or --from-folder DIR OUT, optionally with --pattern"
        )
    study = Study(
        folder,
        named_scans(listed.scans, auto_mask=auto_mask),
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
        table=None if from_folder is not None else table,
    )
    print_understood(
        study,
        from_folder or table,
        verbosity=verbosity,
        unused=listed.unused,
        skipped=skipped,
        warnings=listed.warnings,
    )
    if dry_run:
        check_cohort(study, force=writing.force)
        return dry_run_study(study, verbosity=verbosity)
    with ProgressDisplay(verbosity) as progress:
        summary = run_cohort(study, progress, command=command_line(), force=writing.force)
    page = 0
    if not no_report and summary.done:
        page = write_page(folder, verbosity, reading.max_bytes)
    return conclude(summary, study, verbosity, page=page)
