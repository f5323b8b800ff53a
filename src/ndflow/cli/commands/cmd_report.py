"""``ndflow report``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import ReadingOptions, Verbosity, VerbosityOptions
from ndflow.scan.settings import Reading

__all__ = ["report"]


def report(
    out: Annotated[str, Parameter(metavar="OUT")],
    /,
    *,
    sample: Annotated[int, Parameter(metavar="N")] = 20,
    viewer: Annotated[int, Parameter(metavar="N")] = 9,
    reading: ReadingOptions = Reading(),
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Regenerate the report of a finished study, OUT/report.html.

    `ndflow cohort` and `ndflow bids ... group` write it when they finish. After
    `ndflow evaluate OUT`, it includes the tables of the evaluation. The report is a single file
    that opens without a network connection.

    Example: `ndflow report OUT`

    Parameters
    ----------
    out
        The folder of the study.
    sample
        How many scans to show with figures, flagged ones first; the others are listed in a table.
    viewer
        How many of those to include in the viewer, before and after.
    """
    from ndflow.cli.console import print_result
    from ndflow.reporting.build import report as write_report

    path = write_report(out, sample=sample, viewer=viewer, max_bytes=reading.max_bytes)
    if not verbosity.quiet:
        print_result(f"wrote {path}")
    return 0
