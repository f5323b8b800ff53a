"""The boilerplate of a study: at the end of a run, or instead of one."""

from __future__ import annotations

from ndflow.cli.console import print_error, print_text
from ndflow.errors import FileError
from ndflow.reporting.citation import citation, finished_citation, write_citation
from ndflow.study.finished import refuse_other_study
from ndflow.study.folder import PROVENANCE
from ndflow.study.plan import Study

__all__ = ["print_boilerplate", "write_boilerplate"]


def write_boilerplate(study: Study) -> int:
    """Write the boilerplate of a study that was run.

    Returns
    -------
    int
        The exit code: 1 if it could not be written.
    """
    try:
        write_citation(study, finished_citation(study))
    except FileError as error:
        print_error(str(error))
        return 1
    return 0


def print_boilerplate(study: Study, *, dry_run: bool) -> int:
    """Print the boilerplate of a study that need not have been run, and write it.

    Where the study has been run, it is that of the finished study; it must be the same study.

    Parameters
    ----------
    study : the study.
    dry_run : whether to print it only.

    Returns
    -------
    int
        The exit code.
    """
    if (study.folder / PROVENANCE).exists():
        refuse_other_study(study, "--boilerplate-only")
        text = finished_citation(study)
    else:
        text = citation(study)
    if not dry_run:
        write_citation(study, text)
    print_text(text.partition("\n")[2])
    return 0
