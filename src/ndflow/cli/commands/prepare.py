"""``ndflow prepare``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import (
    DryRun,
    Jobs,
    NoReport,
    PreparingOptions,
    ReadingOptions,
    Scheduler,
    Verbosity,
    VerbosityOptions,
)
from ndflow.subject.settings import Preparing, Reading


def prepare(
    sources: Annotated[tuple[str, ...], Parameter(metavar="TABLE OUT|IMAGE...")],
    /,
    *,
    output: Annotated[str | None, Parameter(name=("--output", "-o"), metavar="OUT")] = None,
    from_folder: Annotated[str | None, Parameter(metavar="DIR")] = None,
    pattern: Annotated[str | None, Parameter(metavar="PATTERN")] = None,
    channel: Annotated[str | None, Parameter(metavar="NAME")] = None,
    preparing: PreparingOptions = Preparing(),
    force: bool = False,
    reading: ReadingOptions = Reading(),
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    no_report: NoReport = False,
    dry_run: DryRun = False,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Prepare raw scans for a study: brain masks, bias fields and tissue maps.

    For each scan, the brain is found (deepbet), the bias field removed (N4), and a template brain
    deformed to the scan (ANTs) to find CSF, GM and WM. Results have the names of a BIDS
    derivative; OUT/study.tsv lists them for `ndflow cohort`, and OUT/report.html shows them. Run
    the same command again to resume: only what is missing or out of date is done.

    Requires pip install 'ndflow[prepare]'; docs/guides/preparation.md says more.

    Example: `ndflow prepare raw.tsv OUT --jobs 4`, then `ndflow cohort OUT/study.tsv OUT2`

    Parameters
    ----------
    sources
        TABLE OUT: a TSV or CSV with one row per scan and a column `image`; optionally `subject`,
        `site`, `mask`, `lesion` (voxels that bias field, registration and tissues do not see),
        `csf`, `gm`, `wm` and covariates; and the folder for the results. Or the scans themselves,
        with -o OUT.
    output
        The folder for the results, where scans are given instead of a table. Default: the second
        argument.
    from_folder
        Instead of TABLE: all images in this folder and its subfolders, without masks and results
        of ndflow. The site of a scan is the folder that it is in.
    pattern
        With --from-folder: a pattern for the names of the images, such as `*_T1w.nii.gz`. Default:
        all images.
    channel
        The contrast of the images, such as T1w; scans of another contrast need masks. Default:
        what the name of each file ends with, if it is known, or else T1w.
    force
        Use a folder that holds something else, or prepared scans that are not listed now. Never
        replaces a file that ndflow did not write, or one that was changed by hand since: delete
        such a file to have it made again.
    """
    from ndflow.cli.endings import conclude_preparation
    from ndflow.cli.listed_scans import listed_images, listed_scans, print_understood
    from ndflow.cli.report_page import PageOutcome, write_page
    from ndflow.cli.run import ProgressDisplay, command_line, print_rehearsed
    from ndflow.errors import InvalidValueError
    from ndflow.study.plan import Preparation
    from ndflow.study.prepare_run import check_preparation, run_preparation
    from ndflow.study.prepared_study import scans_to_prepare
    from ndflow.study.rehearsal import rehearse_preparation
    from ndflow.study.table import is_image, named_scans

    if output is not None and from_folder is None and pattern is None:
        listed = listed_images(sources, output)
    elif output is None and not is_image(sources[0]):
        listed = listed_scans(sources, from_folder=from_folder, pattern=pattern)
    else:
        raise InvalidValueError("give TABLE OUT, IMAGE... -o OUT, or --from-folder DIR OUT")
    plan = Preparation(
        listed.out,
        scans_to_prepare(named_scans(listed.scans.scans), listed.root, channel),
        preparing,
        reading,
        channel,
        force,
        jobs,
        scheduler,
        source=listed.root,
        table=listed.table,
    )
    print_understood(
        plan,
        listed.source,
        verbosity=verbosity,
        unused=listed.scans.unused,
        skipped=listed.skipped,
        warnings=listed.scans.warnings,
    )
    if dry_run:
        check_preparation(plan)
        return print_rehearsed(rehearse_preparation(plan), verbosity)
    with ProgressDisplay(verbosity) as progress:
        summary = run_preparation(plan, progress, command=command_line())
        page = PageOutcome(None, "not written (--no-report)" if summary.done else "none")
        if summary.done and not no_report:
            page = write_page(plan.folder, progress, reading.max_bytes, force=force)
    return conclude_preparation(summary, plan, verbosity, page)
