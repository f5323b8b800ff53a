"""``ndflow cohort``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import (
    AveragingOptions,
    BoilerplateOnly,
    DryRun,
    FindLesions,
    FittingOptions,
    Jobs,
    MatchingOptions,
    NoReport,
    ReadingOptions,
    Scheduler,
    StopEarly,
    Title,
    UnmaskedScans,
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
    mask: UnmaskedScans = "none",
    channel: Annotated[str, Parameter(metavar="NAME")] = "intensity",
    reference: Annotated[str | None, Parameter(metavar="R.json")] = None,
    averaging: AveragingOptions = Averaging(),
    matching: MatchingOptions = Matching(),
    find_lesions: FindLesions = False,
    fitting: FittingOptions = Fitting(),
    writing: WritingOptions = Writing(),
    reading: ReadingOptions = Reading(),
    title: Title = None,
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    stop_on_first_failure: StopEarly = False,
    no_report: NoReport = False,
    boilerplate_only: BoilerplateOnly = False,
    dry_run: DryRun = False,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Normalise all scans of a study to a reference, made from them or given.

    OUT will hold the images, intensity maps, models and references, a list of failures, and a
    report, report.html (requires pip install 'ndflow[report]'). Run the same command again to
    resume: only what is missing or out of date is done.

    First correct bias fields and make brain masks; docs/before-you-start.md says what else matters.

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
        Instead of TABLE: all images in this folder and its subfolders, without masks and results
        of ndflow. The site of a scan is the folder that it is in.
    pattern
        With --from-folder: a pattern for the names of the images, such as `*_T1w.nii.gz`. Default:
        all images.
    channel
        The contrast of the images, such as T1w, which the reference and the report name.
    reference
        The reference to match scans to; with --mode site, those of sites (`reference_SITE.json`)
        are looked for beside it. Default: references made from these scans.
    """
    from ndflow.cli.cite import print_boilerplate, write_boilerplate
    from ndflow.cli.endings import conclude
    from ndflow.cli.progress import ProgressDisplay
    from ndflow.cli.report_page import PageOutcome, write_page
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
    if find_lesions:
        matching = replace(matching, lesions="auto")
    study = Study(
        folder,
        named_scans(listed.scans, auto_mask=mask == "auto"),
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
        title=title,
    )
    print_understood(
        study,
        from_folder or table,
        verbosity=verbosity,
        unused=listed.unused,
        skipped=skipped,
        warnings=listed.warnings,
    )
    if boilerplate_only:
        check_cohort(study, force=writing.force)
        return print_boilerplate(study, dry_run=dry_run)
    if dry_run:
        check_cohort(study, force=writing.force)
        return dry_run_study(study, verbosity=verbosity)
    with ProgressDisplay(verbosity) as progress:
        summary = run_cohort(study, progress, command=command_line(), force=writing.force)
        page = PageOutcome(None, "not written (--no-report)" if summary.done else "none")
        if summary.done and not no_report:
            page = write_page(folder, progress, reading.max_bytes)
    if summary.done and write_boilerplate(study):
        page = page._replace(code=1)
    return conclude(summary, study, verbosity, page)
