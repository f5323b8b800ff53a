"""``ndflow report``."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import ReadingOptions, Verbosity, VerbosityOptions
from ndflow.scan.settings import Reading

__all__ = ["report"]


def report(
    out: Annotated[str, Parameter(metavar="OUT")],
    /,
    *,
    title: Annotated[str | None, Parameter(metavar="TEXT")] = None,
    sample: Annotated[int, Parameter(metavar="N")] = 20,
    viewer: Annotated[int, Parameter(metavar="N")] = 9,
    force: bool = False,
    reading: ReadingOptions = Reading(),
    verbosity: VerbosityOptions = Verbosity(),
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
    from ndflow.cli.console import print_result
    from ndflow.cli.progress import ProgressDisplay
    from ndflow.reporting.build import report as write_report

    # The single step of a command need not be announced where no bar can be shown.
    with ProgressDisplay(verbosity if sys.stderr.isatty() else Verbosity(quiet=True)) as progress:
        path = write_report(
            out,
            title=title,
            sample=sample,
            viewer=viewer,
            max_bytes=reading.max_bytes,
            force=force,
            progress=progress,
        )
    if not verbosity.quiet:
        print_result(f"wrote {path}")
    return 0
