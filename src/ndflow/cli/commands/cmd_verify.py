"""``ndflow verify``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import Jobs, Verbosity, VerbosityOptions

__all__ = ["verify"]


def verify(
    out: Annotated[str, Parameter(metavar="OUT")],
    /,
    *,
    jobs: Jobs = 1,
    verbosity: VerbosityOptions = Verbosity(),
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
    from ndflow.cli.console import print_error, print_result
    from ndflow.cli.progress import ProgressDisplay
    from ndflow.study.verify import verify as verify_study
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
    if not verbosity.quiet:
        print_result(f"{out}: {checked}, all as they were")
    return 0
