"""``ndflow doctor``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import Verbosity, VerbosityOptions

__all__ = ["doctor"]


def doctor(
    *,
    scheduler: Annotated[
        str | None, Parameter(metavar="ADDRESS", env_var="DASK_SCHEDULER_ADDRESS")
    ] = None,
    json: bool = False,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Show what is installed and what the machine offers, and test that ndflow works here.

    The self-test takes about two seconds. The output has no names of users, hosts or folders, so it
    can be pasted into a public issue. The exit code is 1 if the self-test fails, a package that
    ndflow needs is missing or too old, or the scheduler does not answer.

    Example: `ndflow doctor`

    Parameters
    ----------
    scheduler
        Also ask a Dask cluster whether it answers and has the same ndflow: the address of its
        scheduler, or its scheduler file. Default: do not ask.
    json
        Print it as JSON, for programs.
    """
    from ndflow.cli.console import print_error, print_text
    from ndflow.diagnosis.display import as_json, as_text
    from ndflow.diagnosis.examination import examine, without_folders

    found = examine(scheduler)
    if not verbosity.quiet:
        print_text(as_json(found) if json else as_text(found))
    for check in found.self_test.checks if verbosity.verbose else ():
        if check.details:
            failed = without_folders(f"{check.name}: {check.found}")
            print_error(failed, without_folders(check.details))
    for problem in found.problems:
        print_error(without_folders(problem))
    return 1 if found.problems else 0
