"""A whole study in three passes.

1. Every scan → its density, in a file of its own; nothing else comes back from the workers.
2. Densities → the common reference, and one for each site.
3. Every scan → its map → its normalised image.

A scan that fails is left out and reported, and the others go on. What is there already, with the
fingerprint it should have, is kept (`ndflow.files.fingerprints`). Results are the same for any
number of workers: densities are averaged in an order that does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from ndflow.doubt import Doubt
from ndflow.errors import FileError
from ndflow.files.fingerprints import FileHash
from ndflow.image.scans import Scan
from ndflow.methods.matching import Matching
from ndflow.methods.modes import Goal
from ndflow.study.listing.repeats import without_repeats
from ndflow.study.odd_scans import Doubts, odd_scans
from ndflow.study.parallel.tasks import Failure, Outcome, Task, check_jobs, run_tasks
from ndflow.study.plan import Study
from ndflow.study.references import (
    check_references,
    make_references,
    read_fits,
    write_references,
)
from ndflow.study.scan_jobs import ScanDone, fit_job, lacks_tissue_maps, normalise_job
from ndflow.study.study_doubts import Compared, compared_doubts

__all__ = [
    "Pass",
    "Progress",
    "ReferencePass",
    "Silent",
    "build_references",
    "check_study",
    "fit_matching",
    "fit_scans",
    "normalise_scans",
]

Arguments = dict[str, Any]


class Progress(Protocol):
    """Follows how far a run has come."""

    def begin(self, stage: str, total: int) -> None:
        """Note that a pass over `total` scans begins."""

    def step(self, stage: str, outcome: Outcome) -> None:
        """Note what became of a scan."""


class Silent:
    """Shows nothing."""

    def begin(self, stage: str, total: int) -> None:
        """Do nothing."""

    def step(self, stage: str, outcome: Outcome) -> None:
        """Do nothing."""


@dataclass
class Pass:
    """What a pass over the scans gave.

    Attributes
    ----------
    done : the names of the scans that did not fail.
    kept : how many of them had been done before.
    failures : of the others that were tried.
    doubts : about scans that did not fail, by their names.
    compared : what is compared between scans, by their names.
    """

    done: set[str] = field(default_factory=set)
    kept: int = 0
    failures: list[Failure] = field(default_factory=list)
    doubts: dict[str, tuple[Doubt, ...]] = field(default_factory=dict)
    compared: dict[str, Compared] = field(default_factory=dict)

    @property
    def tried(self) -> list[str]:
        """The names of all scans that were tried."""
        return [*self.done, *(failure.scan for failure in self.failures)]

    def all_doubts(self) -> dict[str, tuple[Doubt, ...]]:
        """Return the doubts about scans, with those that only show in comparison with others."""
        more = compared_doubts(self.compared)
        return {
            name: (*self.doubts.get(name, ()), *more.get(name, ()))
            for name in self.compared
            if name in self.doubts or name in more
        }


class ReferencePass(NamedTuple):
    """What the second pass gave.

    Attributes
    ----------
    goals : what scans are brought to, see `References`.
    doubts : about scans that are unlike the others, or unlike the reference.
    read, written : the files of references that were given, and the names of those made.
    """

    goals: dict[str | None, Goal]
    doubts: Doubts
    read: Sequence[FileHash]
    written: Sequence[str]


class _Tasks(Sequence[Task]):
    """Tasks that are made when they are handed out, because there may be many."""

    def __init__(
        self, study: Study, scans: Sequence[Scan], more: Callable[[Scan], Arguments]
    ) -> None:
        self.scans, self._study, self._more = scans, study, more

    def __len__(self) -> int:
        return len(self.scans)

    def __getitem__(self, place: Any) -> Any:
        scan = self.scans[place]
        arguments = {"scan": scan, "paths": self._study.paths(scan), **self._more(scan)}
        return Task(scan.name, arguments, scan.origin)


def check_study(study: Study) -> None:
    """Raise an error, before any work, for wrong options or scans that lack what these need."""
    check_jobs(study.jobs)
    check_references(study)
    for scan in study.scans:
        if study.target_rule.needs_tissue_maps and not scan.tissues.complete:
            raise lacks_tissue_maps(scan)
        if study.mode.by_site and scan.site is None:
            hint = "name it in the table or in participants.tsv, or use --mode individual"
            raise FileError(scan.path, f"its site is not known ({scan.origin})", hint)


def fit_scans(study: Study, progress: Progress) -> Pass:
    """Do the first pass."""
    job = partial(
        fit_job, reading=study.reading, fitting=study.fitting, matching=fit_matching(study)
    )
    return _over(study, "fit", job, _Tasks(study, study.scans, lambda _: {}), progress)


def fit_matching(study: Study) -> Matching:
    """Return the settings of the match as far as they concern the densities."""
    if study.given is not None and not study.target_rule.needs_tissue_maps:
        return replace(study.matching, target="average")  # tissue maps of these scans are not used
    return study.matching


def normalise_scans(
    study: Study,
    done: Container[str],
    references: ReferencePass,
    progress: Progress,
) -> Pass:
    """Do the third pass, over the scans of the first that did not fail."""
    job = partial(
        normalise_job, reading=study.reading, writing=study.writing, settings=study.settings
    )
    tasks = _Tasks(
        study,
        _done(study, done),
        lambda scan: {
            "goal": study.mode.goal_of(references.goals, scan.site),
            "doubts": references.doubts.get(scan.name, ()),
        },
    )
    return _over(study, "normalise", job, tasks, progress)


def build_references(study: Study, done: Container[str]) -> ReferencePass:
    """Do the second pass: make and write references, and compare the scans with each other."""
    scans = _done(study, done)
    fits = read_fits(study, scans)
    made = make_references(study, scans, {name: fit.model for name, fit in fits.items()})
    odd = odd_scans(scans, fits, made.common.mixture)
    return ReferencePass(made.goals, odd, made.read, write_references(study.folder, made))


def _done(study: Study, done: Container[str]) -> list[Scan]:
    return [scan for scan in study.scans if scan.name in done]


def _over(
    study: Study,
    stage: str,
    job: Callable[..., ScanDone],
    tasks: _Tasks,
    progress: Progress,
) -> Pass:
    result = Pass()
    progress.begin(stage, len(tasks))
    with closing(run_tasks(job, tasks, jobs=study.jobs, scheduler=study.scheduler)) as outcomes:
        for scan, outcome in without_repeats(tasks.scans, outcomes):
            progress.step(stage, outcome)
            if outcome.failure is None:
                result.done.add(scan.name)
                result.kept += outcome.result.kept
                result.compared[scan.name] = outcome.result.compared
                if outcome.result.doubts:
                    result.doubts[scan.name] = outcome.result.doubts
                continue
            result.failures.append(outcome.failure)
            if study.stop_early:
                break
    return result
