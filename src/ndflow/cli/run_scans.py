"""A command at work on several scans: what is said on the way, and the exit code at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from ndflow.cli.console import print_error, print_result, print_warning, progress
from ndflow.cli.options import Verbosity
from ndflow.cli.signals import raise_if_signalled
from ndflow.errors import FileError
from ndflow.files.atomic import remove_abandoned
from ndflow.files.stream import open_file
from ndflow.scan.outputs import make_folder, one_each, preview
from ndflow.scan.reading import AUTO
from ndflow.scan.tissue_maps import TissueMaps
from ndflow.study.parallel.tasks import (
    FAILURES,
    Outcome,
    Task,
    check_jobs,
    record_failures,
    run_tasks,
)
from ndflow.study.scan_jobs import Member

__all__ = ["ScanFiles", "command_line", "dry_run_scans", "dry_run_study", "run_scans", "scan_files"]


def command_line() -> list[str]:
    """Return what the user typed, for the record."""
    return ["ndflow", *sys.argv[1:]]


class ScanFiles(NamedTuple):
    """The files of a scan, as typed: what is read, and where the result goes."""

    image: str
    mask: str | None
    exclude: str | None
    maps: TissueMaps | None
    output: Path

    @property
    def inputs(self) -> tuple[Any, ...]:
        """All that is read, for a rehearsal."""
        return (self.image, self.mask, self.exclude, *(self.maps or ()))

    def task(self, **shared: Any) -> Task:
        """Return the work on this scan, with what is the same for all scans."""
        return Task(self.image, {**self._asdict(), **shared})


def scan_files(
    images: Sequence[str],
    outputs: Sequence[Path],
    mask: Sequence[str],
    exclude: Sequence[str],
    maps: Sequence[TissueMaps | None],
) -> list[ScanFiles]:
    """Return the files of each scan; masks and exclusions are given in order, or not at all."""
    masks = one_each(mask, images, "--mask")
    excludes = one_each(exclude, images, "--exclude")
    together = zip(images, masks, excludes, maps, outputs, strict=True)
    return [ScanFiles(*files) for files in together]


def run_scans(
    stage: str,
    function: Callable[..., Any],
    tasks: Sequence[Task],
    *,
    talk: Verbosity,
    jobs: int = 1,
    folder: Path | None = None,
) -> tuple[int, list[Outcome]]:
    """Do some work on each scan; return the exit code, and what became of each.

    Parameters
    ----------
    stage : what is done, for the progress bar and the list of failures.
    function, tasks, jobs : see `run_tasks`; the result of the function may have warnings.
    talk : how much to say.
    folder : where the results go and failures are listed; made if it is not there.
    """
    outcomes: list[Outcome] = []
    said: set[str] = set()
    check_jobs(jobs)
    make_folder(folder)
    if folder is not None:
        remove_abandoned(folder)
    try:
        with closing(run_tasks(function, tasks, jobs=jobs)) as work:
            for outcome in progress(work, len(tasks), stage, hidden=talk.quiet):
                raise_if_signalled()
                outcomes.append(outcome)
                _report(outcome, talk, said)
    except BaseException:
        if folder is not None:
            remove_abandoned(folder)  # of workers that had to stop at once
        raise
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if folder is not None:
        scans = [task.scan for task in tasks]
        try:
            record_failures(folder, {stage: scans}, {stage: failures})
        except FileError as error:
            print_error(str(error))
    if failures and len(tasks) > 1:
        listed = f"; see {folder / FAILURES}" if folder else ""
        print_error(f"{len(failures)} of {len(tasks)} scans failed{listed}")
    code = 0 if not failures else 1 if len(failures) < len(tasks) else 2
    return code, outcomes


def _report(outcome: Outcome, talk: Verbosity, said: set[str]) -> None:
    """Say what is to be said about a scan, but a warning about the target only once."""
    if outcome.failure:
        print_error(outcome.failure.message, outcome.failure.details if talk.verbose else "")
    elif not talk.quiet:
        for warning in getattr(outcome.result, "warnings", ()):
            if warning not in said:
                print_warning(warning)
                said.add(warning)


def dry_run_scans(
    plan: Sequence[tuple[Sequence[str | None], Path]],
    *,
    check: Callable[[Path, Sequence[str]], None],
    talk: Verbosity,
    new_folder: bool = False,
) -> int:
    """Say what would be written from what, and what would stand in the way.

    Parameters
    ----------
    plan : for each result the files it is made from, the scan first, and the file to write.
    check : says why a file may not be written, see `preview`.
    talk : how much to say.
    new_folder : whether the folder of the files would be made.
    """
    shared = {"check": check, "new_folder": new_folder}
    tasks = [
        Task(str(inputs[0]), {"inputs": inputs, "output": output, **shared})
        for inputs, output in plan
    ]
    code, outcomes = run_scans("dry run", preview, tasks, talk=talk)
    for outcome, (_, output) in zip(outcomes, plan, strict=True):
        if not outcome.failure:
            print_result(f"would write {output} from {outcome.scan}")
    return code


def dry_run_study(members: Sequence[Member], *, images: bool = True, maps: bool = False) -> int:
    """Say what a study would write, and which of its files are missing.

    Parameters
    ----------
    members : the scans.
    images : whether images would be written; if not, densities only.
    maps : whether maps of their tissues would be read.
    """
    missing = 0
    for member in members:
        output = member.place.image if images else member.place.model
        try:
            for name in (member.image, member.mask, *((member.maps or ()) if maps else ())):
                if name and name != AUTO:
                    with open_file(name):
                        pass
        except FileError as error:
            print_error(str(FileError(error.path, f"{error.cause} ({member.origin})", error.hint)))
            missing += 1
        else:
            print_result(f"would write {output} from {member.image}")
    return 0 if not missing else 1 if missing < len(members) else 2
