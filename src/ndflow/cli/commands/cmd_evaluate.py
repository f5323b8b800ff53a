"""``ndflow evaluate``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import (
    Force,
    Jobs,
    NoReport,
    ReadingOptions,
    Verbosity,
    VerbosityOptions,
)
from ndflow.scan.settings import Reading

__all__ = ["evaluate"]


def evaluate(
    runs: Annotated[tuple[str, ...], Parameter(metavar="RUN...")],
    /,
    *,
    output: Annotated[str | None, Parameter(name=("--output", "-o"), metavar="DIR")] = None,
    covariate: Annotated[tuple[str, ...], Parameter(metavar="COLUMN...", consume_multiple=1)] = (),
    permutations: Annotated[int, Parameter(metavar="N")] = 50,
    trees: Annotated[int, Parameter(metavar="N")] = 200,
    seed: Annotated[int, Parameter(metavar="N")] = 0,
    force: Force = False,
    reading: ReadingOptions = Reading(),
    jobs: Jobs = 1,
    no_report: NoReport = False,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Compare finished runs: how similar scans and sites have become, and at what cost.

    Each run is compared with the unnormalised scans, and with the same scans aligned in mean and
    standard deviation: their histograms, the intensities of tissues, how well random forests tell
    the sites apart, and how reliable repeated scans of the same subject are. A verdict and the most
    important numbers are printed; all tables and figures are written to DIR. An evaluation inside a
    run is shown in its report, which is written again.

    Example: `ndflow evaluate OUT OUT_NYUL -o comparison --covariate age sex`

    Parameters
    ----------
    runs
        Folders made by `ndflow cohort` or `ndflow bids ... group` from the same scans.
    output
        The folder for tables and figures. Default: `evaluation` inside the run, if there is only
        one.
    covariate
        Columns of the table whose effects on the tissues, each given the others, should be
        preserved: with numbers, such as `age`, or with two values, such as `sex`. Default: none.
    permutations
        How many times to shuffle the sites, to find the accuracy expected by chance; 0 to skip
        this.
    trees
        How many trees each random forest has.
    seed
        The random seed of folds, forests and permutations.
    """
    from ndflow.cli.endings import print_evaluation
    from ndflow.cli.progress import ProgressDisplay
    from ndflow.cli.report_page import page_of_evaluation
    from ndflow.cli.run_scans import command_line
    from ndflow.evaluation.save import evaluate as run_evaluation

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
            max_bytes=reading.max_bytes,
            progress=progress,
            command=command_line(),
        )
        page = None
        if not no_report:
            page = page_of_evaluation(
                runs, evaluation.folder, progress, reading.max_bytes, force=force
            )
    print_evaluation(evaluation, verbosity, page)
    return 1 if evaluation.comparison.failures or (page and page.code) else 0
