"""``ndflow evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import Force, Jobs, ReadingOptions, Verbosity, VerbosityOptions
from ndflow.settings import Reading

__all__ = ["evaluate"]


def evaluate(
    runs: Annotated[tuple[str, ...], Parameter(metavar="RUN...")],
    /,
    *,
    output: Annotated[str | None, Parameter(name=("--output", "-o"), metavar="DIR")] = None,
    covariate: Annotated[str | None, Parameter(metavar="COLUMN")] = None,
    permutations: Annotated[int, Parameter(metavar="N")] = 50,
    trees: Annotated[int, Parameter(metavar="N")] = 200,
    seed: Annotated[int, Parameter(metavar="N")] = 0,
    force: Force = False,
    reading: ReadingOptions = Reading(),
    jobs: Jobs = 1,
    talk: VerbosityOptions = Verbosity(),
) -> int:
    """Compare finished runs: how alike scans and sites have become, and at what price.

    Each RUN is set beside the scans as they came and the same aligned by mean and spread:
    histograms, tissues, sites told apart by random forests, scans of the same subject. Tables
    go to stdout, and to DIR with the figures and all numbers.

    Example: `ndflow evaluate OUT OUT_NYUL -o comparison --covariate age`

    Parameters
    ----------
    runs
        Folders that `ndflow cohort` or `ndflow bids ... group` has made, of the same scans.
    output
        The folder for tables and figures. Default: `evaluation` in the RUN, if there is one only.
    covariate
        A column of numbers of the table, such as `age`: is its effect on tissues still there?
    permutations
        How often sites are shuffled, to know what accuracy chance gives; 0: not at all.
    trees
        In a random forest.
    seed
        Of folds, forests and permutations.
    """
    import sys

    from ndflow.cli.progress import ProgressDisplay
    from ndflow.cli.run_scans import command_line
    from ndflow.compare.comparison import compare
    from ndflow.compare.save import check_evaluation, write_evaluation
    from ndflow.errors import InvalidValueError
    from ndflow.study.finished import read_finished

    if output is None and len(runs) != 1:
        raise InvalidValueError("say with --output DIR where a comparison of several runs goes")
    folder = Path(output) if output is not None else Path(runs[0]) / "evaluation"
    chosen = {"covariate": covariate, "permutations": permutations, "trees": trees, "seed": seed}
    finished = read_finished(runs)
    check_evaluation(folder, force=force)
    with ProgressDisplay(talk) as watch:
        comparison = compare(
            finished,
            watch,
            seed=seed,
            permutations=permutations,
            trees=trees,
            covariate=covariate,
            jobs=jobs,
            max_bytes=reading.max_bytes,
        )
    text = write_evaluation(
        comparison, folder, covariate=covariate, settings=chosen, command=command_line()
    )
    sys.stdout.write(text)
    return 1 if comparison.failures else 0
