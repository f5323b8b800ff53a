"""``ndflow report``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import ReadingOptions, SubjectPages, Title, Verbosity, VerbosityOptions
from ndflow.scan.settings import Reading

__all__ = ["report"]


def report(
    out: Annotated[str, Parameter(metavar="OUT")],
    /,
    *,
    title: Title = None,
    sample: Annotated[int, Parameter(metavar="N")] = 20,
    viewer: Annotated[int, Parameter(metavar="N")] = 9,
    subject_pages: SubjectPages = False,
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
    sample
        How many scans to include with their slices, flagged ones first; the slices of the others
        are read from OUT/figures when they are looked at.
    viewer
        How many scans to include as volumes, to be seen in three planes before and after.
    """
    from ndflow.cli.console import print_result
    from ndflow.cli.report_page import progress_of_report
    from ndflow.reporting.build import report as write_report
    from ndflow.study.folder import our_subject_pages
    from ndflow.values import plural

    with progress_of_report(verbosity) as progress:
        path = write_report(
            out,
            title=title,
            sample=sample,
            viewer=viewer,
            subject_pages=subject_pages,
            max_bytes=reading.max_bytes,
            progress=progress,
        )
    if not verbosity.quiet:
        pages = plural(len(our_subject_pages(path.parent)), "page") if subject_pages else ""
        print_result(f"wrote {path}" + (f" and {pages} of subjects" if pages else ""))
    return 0
