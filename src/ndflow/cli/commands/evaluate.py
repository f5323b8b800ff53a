"""``ndflow evaluate``, ``ndflow report`` and ``ndflow verify``, of finished studies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli import options as shared
from ndflow.cli.console import ProgressDisplay, Verbosity, command_line, print_error, print_result
from ndflow.cli.options import OUTPUT
from ndflow.options import Options, expert_options


def evaluate(
    runs: Annotated[tuple[str, ...], Parameter(metavar="RUN...")],
    /,
    *,
    output: Annotated[str | None, Parameter(name=("--output", "-o"), metavar="DIR")] = None,
    covariate: Annotated[tuple[str, ...], Parameter(metavar="COLUMN...", consume_multiple=1)] = (),
    permutations: Annotated[int, Parameter(metavar="N")] = 50,
    trees: Annotated[int, Parameter(metavar="N")] = 200,
    seed: Annotated[int, Parameter(metavar="N")] = 0,
    force: Annotated[bool, Parameter(group=OUTPUT)] = False,
    expert: shared.ReadSetting = (),
    jobs: shared.Jobs = 1,
    no_report: shared.NoReport = False,
    verbosity: shared.VerbosityOptions = Verbosity(),
) -> int:
    """Compare finished runs: how similar scans and sites have become, and at what cost.

    Each run is compared with the same scans z-scored, and further runs with the first: how much
    the intensities of tissues vary, how far apart the sites are, how well random forests recognise
    them, and how reliable repeated scans of the same subject are, with 95 % intervals. The first
    comparison and the most important numbers are printed; all of them, tables and figures are
    written to DIR. An evaluation inside a run is shown in its report, which is written again.

    Example: `ndflow evaluate OUT OUT_NYUL -o comparison --covariate age sex`

    Parameters
    ----------
    runs
        Folders made by `ndflow cohort` or `ndflow bids ... group` from the same scans.
    output
        The folder for tables and figures. Default: `evaluation` inside the run, if there is only
        one.
    covariate
        Columns of the table whose effects on the tissues, each given the others, to compare: with
        numbers, such as `age`, or with two values, such as `sex`. Default: none.
    permutations
        How many times to shuffle the sites, to find the accuracy expected by chance; 0 to skip
        this.
    trees
        How many trees each random forest has.
    seed
        The random seed of folds, forests and permutations.
    force
        Replace results of ndflow that exist already, never other files.
    """
    from ndflow.cli.endings import print_evaluation, write_page
    from ndflow.evaluation.save import evaluate as run_evaluation
    from ndflow.study.plan import EVALUATION

    max_bytes = Options(**expert_options(expert, "read")).max_bytes
    with ProgressDisplay(verbosity) as progress:
        evaluation = run_evaluation(
            runs,
            output=output,
            covariate=covariate,
            permutations=permutations,
            trees=trees,
            seed=seed,
            force=force,
            jobs=jobs,
            max_bytes=max_bytes,
            progress=progress,
            command=command_line(),
        )
        place, page = None if output is None else os.path.realpath(output), None
        for run in () if no_report else runs:
            if place in (None, os.path.realpath(Path(run) / EVALUATION)):
                page = write_page(Path(run), progress, max_bytes, force=force)
    failed = False
    for channel, one in evaluation.items() if isinstance(evaluation, dict) else [("", evaluation)]:
        if channel:
            verbosity.say(f"{channel}:")
        print_evaluation(one, verbosity, page)
        failed |= bool(one.comparison.failures)
    return 1 if failed or (page and page.code) else 0


# ── report ────────────────────────────────────────────────────────────────────────────────────────


def report(
    out: Annotated[str, Parameter(metavar="OUT")],
    /,
    *,
    title: Annotated[str | None, Parameter(metavar="TEXT")] = None,
    sample: Annotated[int, Parameter(metavar="N")] = 20,
    viewer: Annotated[int, Parameter(metavar="N")] = 9,
    force: bool = False,
    expert: shared.ReadSetting = (),
    verbosity: shared.VerbosityOptions = Verbosity(),
) -> int:
    """Regenerate the report of a finished study or preparation, OUT/report.html.

    `ndflow cohort`, `ndflow prepare` and `ndflow bids ... group` write it when they finish, and
    `ndflow evaluate OUT` adds its tables. The report opens without a network connection.

    Example: `ndflow report OUT`

    Parameters
    ----------
    out
        The folder of the study, or of the preparation.
    title
        The title of the report. Default: the name of the folder.
    sample
        How many scans to include with their slices, flagged ones first; the slices of the others
        are read from OUT/figures when they are looked at.
    viewer
        How many scans to include as volumes, to be seen in three planes before and after.
    force
        Replace a report that was edited since ndflow wrote it; never one that ndflow did not write.
    """
    from ndflow.reporting.build import report as write_report

    with ProgressDisplay(verbosity, lines=False) as progress:
        path = write_report(
            out,
            title=title,
            sample=sample,
            viewer=viewer,
            max_bytes=Options(**expert_options(expert, "read")).max_bytes,
            force=force,
            progress=progress,
        )
    verbosity.say(f"wrote {path}")
    return 0


# ── verify ────────────────────────────────────────────────────────────────────────────────────────


def verify(
    out: Annotated[str, Parameter(metavar="OUT")],
    /,
    *,
    jobs: shared.Jobs = 1,
    verbosity: shared.VerbosityOptions = Verbosity(),
) -> int:
    """Check that all files that a study read and wrote are still as they were.

    Every file is hashed again and compared with the records of the study. Files that are missing,
    changed or foreign (not of this study) are listed, one per line, and the exit code is 1. The
    report is not checked: `ndflow report OUT` makes it again.

    Example: `ndflow verify OUT`

    Parameters
    ----------
    out
        The folder of the study, or of `ndflow prepare`.
    """
    from ndflow.study.manifest import verify as verify_study
    from ndflow.values import plural

    with ProgressDisplay(verbosity) as progress:
        found = verify_study(out, jobs=jobs, progress=progress)
    for finding in found.findings:
        print_result(f"{finding.problem}: {finding.path}: {finding.cause}")
    checked = f"{plural(found.files, 'file')} of {plural(found.scans, 'scan')}"
    if found.findings:
        count = plural(len(found.findings), "file")
        print_error(f"{out}: {count} missing, changed or foreign; {checked} checked")
        return 1
    verbosity.say(f"{out}: {checked}, all as they were")
    return 0
