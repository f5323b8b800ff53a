"""``ndflow prepare``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import (
    INPUT,
    OUTPUT,
    CopySpace,
    DryRun,
    Expert,
    FindTissues,
    Jobs,
    NoBiasField,
    NoReport,
    Pattern,
    PreparedMask,
    Resolution,
    Scheduler,
    Verbosity,
    VerbosityOptions,
    chosen,
)


def prepare(
    sources: Annotated[tuple[str, ...], Parameter(metavar="TABLE OUT|IMAGE...")],
    /,
    *,
    pattern: Pattern = None,
    channel: Annotated[str | None, Parameter(metavar="NAME", group=INPUT)] = None,
    mask: PreparedMask = "brain",
    tissues: FindTissues = "given",
    no_bias_field: NoBiasField = False,
    space: CopySpace = "own",
    resolution: Resolution = None,
    output: Annotated[
        str | None, Parameter(name=("--output", "-o"), metavar="OUT", group=OUTPUT)
    ] = None,
    force: Annotated[bool, Parameter(group=OUTPUT)] = False,
    no_report: NoReport = False,
    expert: Expert = (),
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
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
        `csf`, `gm`, `wm` and covariates; or a folder of images; and the folder for the results.
        Or the scans themselves, with -o OUT.
    output
        The folder for the results, where scans are given instead of a table. Default: the second
        argument.
    channel
        The contrast of the images, such as T1w; scans of another contrast need masks. Default:
        what the name of each file ends with, if it is known, or else T1w.
    force
        Use a folder that holds something else, or prepared scans that are not listed now. Never
        replaces a file that ndflow did not write, or one that was changed by hand since: delete
        such a file to have it made again.
    """
    from pathlib import Path

    from ndflow.cli.endings import conclude_preparation
    from ndflow.cli.listed_scans import listed_images, listed_scans, print_understood
    from ndflow.cli.report_page import PageOutcome, write_page
    from ndflow.cli.run import ProgressDisplay, command_line, print_rehearsed
    from ndflow.errors import InvalidValueError
    from ndflow.options import Options, Preparing
    from ndflow.study.plan import Preparation
    from ndflow.study.prepare_run import check_preparation, run_preparation
    from ndflow.study.prepared_study import scans_to_prepare
    from ndflow.study.rehearsal import rehearse_preparation
    from ndflow.study.table import is_image, named_scans

    if output is not None and pattern is None:
        listed = listed_images(sources, output)
    elif output is None and len(sources) == 2 and not is_image(sources[0]):
        listed = listed_scans(sources[0], Path(sources[1]).absolute(), pattern)
    else:
        raise InvalidValueError("give TABLE OUT, FOLDER OUT, or IMAGE... -o OUT")
    options = Options(**chosen(None, expert, "read"), force=force)
    plan = Preparation(
        listed.out,
        scans_to_prepare(named_scans(listed.scans.scans), listed.root, channel),
        Preparing(mask, tissues, no_bias_field, space, resolution),
        options,
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
            page = write_page(plan.folder, progress, options.max_bytes, force=force)
    return conclude_preparation(summary, plan, verbosity, page)
