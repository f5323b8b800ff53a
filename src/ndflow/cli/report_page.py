"""Write the report of a study when a command has finished."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ndflow.cli.console import print_error
from ndflow.cli.run import ProgressDisplay
from ndflow.cli.signals import raise_if_signalled
from ndflow.study.finished import page_is_current
from ndflow.study.plan import EVALUATION, REPORT


class PageOutcome(NamedTuple):
    """What became of a page.

    Attributes
    ----------
    path : the page; None if there is none.
    why : if there is none, why.
    code : the exit code: 1 if it could not be written, but 0 where the packages that it needs are
        not installed.
    renewed : whether it was written now.
    """

    path: Path | None
    why: str = ""
    code: int = 0
    renewed: bool = False


def write_page(
    folder: Path, progress: ProgressDisplay, max_bytes: int, *, force: bool = False
) -> PageOutcome:
    """Write the report of a finished study, unless the one that is there shows the same.

    Parameters
    ----------
    folder : of the study.
    progress : shows how far it has come.
    max_bytes : refuse files with more bytes than this when decompressed.
    force : whether to replace a report that somebody has edited.
    """
    if page_is_current(folder):
        return PageOutcome(folder / REPORT)
    if any(find_spec(package) is None for package in ("jinja2", "matplotlib")):
        return PageOutcome(None, "not written; for one, pip install 'ndflow[report]'")
    from ndflow.reporting.build import report

    try:
        report(folder, max_bytes=max_bytes, force=force, progress=progress)
    except Exception as error:  # of any kind: the study itself is done
        raise_if_signalled()
        cause = str(error).removeprefix(f"{folder / REPORT}: ")
        print_error(f"{folder / REPORT}: could not be written: {cause}")
        return PageOutcome(None, "could not be written", code=1)
    return PageOutcome(folder / REPORT, renewed=True)


def page_of_evaluation(
    runs: Sequence[str],
    output: str | None,
    progress: ProgressDisplay,
    max_bytes: int,
    *,
    force: bool = False,
) -> PageOutcome | None:
    """Write the report of the run that an evaluation lies in; return None if it lies in none.

    Parameters
    ----------
    runs : the folders of the studies that were compared.
    output : that of the evaluation, if the user says.
    progress, max_bytes, force : as for `write_page`.
    """
    for run in runs:
        if output is None or os.path.realpath(Path(run) / EVALUATION) == os.path.realpath(output):
            return write_page(Path(run), progress, max_bytes, force=force)
    return None
