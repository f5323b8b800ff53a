"""``ndflow report``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import ReadingOptions, Verbosity, VerbosityOptions
from ndflow.settings import Reading

__all__ = ["report"]


def report(
    out: Annotated[str, Parameter(metavar="OUT")],
    /,
    *,
    sample: Annotated[int, Parameter(metavar="N")] = 20,
    viewer: Annotated[int, Parameter(metavar="N")] = 9,
    reading: ReadingOptions = Reading(),
    talk: VerbosityOptions = Verbosity(),
) -> int:
    """Write the page of a finished study again: OUT/report.html.

    `ndflow cohort` and `ndflow bids ... group` write it too. After `ndflow evaluate OUT` it shows
    the tables of the evaluation as well. The page is one file, which opens without a network.

    Example: `ndflow report OUT`

    Parameters
    ----------
    out
        The folder of the study.
    sample
        How many scans are shown with pictures, flagged ones first; the others are rows of a table.
    viewer
        How many of them can be seen before and after in the viewer.
    """
    from ndflow.cli.console import print_result
    from ndflow.report.build import write_report

    path = write_report(out, sample=sample, viewer=viewer, max_bytes=reading.max_bytes)
    if not talk.quiet:
        print_result(f"wrote {path}")
    return 0
