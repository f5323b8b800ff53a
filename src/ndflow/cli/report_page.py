"""Write the report of a study, in a process of its own, because figures need much memory.

That process says on its stdout how far it has come, in lines such as ``begin page 68`` and
``step page``, if the environment asks it to (`progress_of_report`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

from ndflow.cli.console import print_error, print_text
from ndflow.cli.options import Verbosity
from ndflow.cli.progress import ProgressDisplay
from ndflow.files.model_files import kind_in
from ndflow.scan.records import StudyRecord
from ndflow.study.channels.joint_plan import JointStudyRecord
from ndflow.study.folder import EVALUATION, PROVENANCE, REPORT, our_subject_pages
from ndflow.study.page_fingerprint import page_is_current, page_options
from ndflow.study.parallel.parent import ending_with_us
from ndflow.study.parallel.tasks import Outcome
from ndflow.study.passes import Progress

__all__ = ["PageOutcome", "page_of_evaluation", "progress_of_report", "write_page"]

_ASKED = "NDFLOW_PROGRESS"  # in the environment of a report that another command writes


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
    folder: Path, progress: ProgressDisplay, max_bytes: int, *, subject_pages: bool = False
) -> PageOutcome:
    """Write the report of a finished study, unless the one that is there shows the same.

    Parameters
    ----------
    folder : of the study.
    progress : shows how far it has come.
    max_bytes : refuse files with more bytes than this when decompressed.
    subject_pages : whether to write a page for each subject too.
    """
    if page_is_current(folder, subject_pages=subject_pages):
        return PageOutcome(folder / REPORT)
    if any(find_spec(package) is None for package in ("jinja2", "matplotlib")):
        return PageOutcome(None, "not written; for one, pip install 'ndflow[report]'")
    # -P: no file in the current folder is imported instead of a module.
    words = [sys.executable, "-P", "-m", "ndflow", "report", str(folder), "--quiet"]
    words += ["--max-bytes", str(max_bytes), *(["--subject-pages"] if subject_pages else [])]
    chosen = page_options(folder)  # of the page that is there
    words += ["--sample", str(chosen.sample), "--viewer", str(chosen.viewer)]
    if chosen.title is not None and not _titled(folder):
        words.append(f"--title={chosen.title}")
    with TemporaryFile() as errors:
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=errors, env=ending_with_us() | {_ASKED: "yes"}
        ) as child:
            try:
                _follow(child.stdout or (), progress)
            except BaseException:
                child.kill()
                raise
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines() or ["unknown error"]
    if not child.returncode:
        return PageOutcome(folder / REPORT, renewed=True)
    cause = said[-1].removeprefix("error: ")
    print_error(f"{folder / REPORT}: could not be written: {cause}")
    return PageOutcome(None, "could not be written", code=1)


def _titled(folder: Path) -> bool:
    """Return whether the record of a study knows its title; that of a preparation never does."""
    kind = kind_in(folder / PROVENANCE)
    if kind == JointStudyRecord.kind:
        return JointStudyRecord.read(folder / PROVENANCE).title is not None
    if kind != StudyRecord.kind:
        return False
    return StudyRecord.read(folder / PROVENANCE).title is not None


def page_of_evaluation(
    runs: Sequence[str], evaluation: Path, progress: ProgressDisplay, max_bytes: int
) -> PageOutcome | None:
    """Write the report of the run that an evaluation lies in; return None if it lies in none.

    The pages of its subjects are written too, if there are any.

    Parameters
    ----------
    runs : the folders of the runs that were compared.
    evaluation : the folder of the evaluation.
    progress, max_bytes : as for `write_page`.
    """
    for run in runs:
        if os.path.realpath(Path(run) / EVALUATION) == os.path.realpath(evaluation):
            of_subjects = bool(our_subject_pages(Path(run)))
            return write_page(Path(run), progress, max_bytes, subject_pages=of_subjects)
    return None


def _follow(told: Iterable[bytes], progress: ProgressDisplay) -> None:
    """Show how far a process says that it has come, until it ends."""
    for line in told:
        match line.decode(errors="replace").split():
            case ["begin", stage, total] if total.isdecimal():
                progress.begin(stage, int(total))
            case ["step", stage]:
                progress.step(stage, Outcome(stage, None, None))


def progress_of_report(verbosity: Verbosity) -> AbstractContextManager[Progress]:
    """Return what follows the progress of a report: a display, or the command that asked for it."""
    if os.environ.pop(_ASKED, ""):
        return nullcontext(_Told())
    # The single step of a command need not be announced where no bar can be shown.
    return ProgressDisplay(verbosity if sys.stderr.isatty() else Verbosity(quiet=True))


class _Told:
    """Tells another process how far this one has come."""

    def begin(self, stage: str, total: int) -> None:
        """Say that a stage begins."""
        print_text(f"begin {stage} {total}\n")

    def step(self, stage: str, _: Outcome) -> None:
        """Say that one more part of it is done."""
        print_text(f"step {stage}\n")
