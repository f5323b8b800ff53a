"""A whole study in three passes.

1. Every scan → its density, in a file of its own; nothing else comes back from the workers.
2. Densities → the reference of all, and one of each site.
3. Every scan → its map → its normalised image.

A scan that fails is left out and reported, and the others go on. What is there already, with the
stamp it should have, is kept (`ndflow.files.fingerprints`). Results are the same for any number of
workers: the densities are averaged in an order that does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from ndflow.errors import FileError
from ndflow.methods.modes import Goal
from ndflow.study.parallel.tasks import Failure, Outcome, Task, check_jobs, run_tasks
from ndflow.study.plan import Study
from ndflow.study.references import check_references, make_references, write_references
from ndflow.study.scan_jobs import Member, ScanDone, fit_member, no_maps, normalise_member

__all__ = [
    "Pass",
    "Progress",
    "Study",
    "build_references",
    "check_study",
    "fit_scans",
    "normalise_scans",
]


Arguments = dict[str, Any]


class Progress(Protocol):
    """Somebody who looks on."""

    def begin(self, stage: str, total: int) -> None:
        """Hear that a pass over so many scans begins."""

    def step(self, stage: str, outcome: Outcome) -> None:
        """Hear what became of a scan."""


@dataclass
class Pass:
    """What a pass over the scans gave.

    Attributes
    ----------
    made : the names of the scans that did not fail.
    kept : how many of them had been made before.
    failures : of the others that were tried.
    """

    made: set[str] = field(default_factory=set)
    kept: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def tried(self) -> list[str]:
        """The names of all scans that were tried."""
        return [*self.made, *(failure.scan for failure in self.failures)]


class _Tasks(Sequence[Task]):
    """Tasks that are made when they are handed out, because there may be many."""

    def __init__(self, members: Sequence[Member], arguments: Callable[[Member], Arguments]) -> None:
        self.members, self._arguments = members, arguments

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, place: Any) -> Any:
        member = self.members[place]
        return Task(member.name, self._arguments(member), member.origin)


def check_study(study: Study) -> None:
    """Say before any work what would stand in its way: a wrong option, a scan without a site."""
    check_jobs(study.jobs)
    check_references(study)
    if study.matching.target == "tissue":
        for member in study.members:
            if member.maps is None:
                raise no_maps(member)
    if study.averaging.mode != "individual":
        for member in study.members:
            if member.site is None:
                hint = "name it in the table or in participants.tsv, or use --mode individual"
                raise FileError(member.image, f"no site is known of it ({member.origin})", hint)


def fit_scans(study: Study, watch: Progress) -> Pass:
    """Do the first pass."""
    matching = study.matching
    if study.given is not None and matching.target == "adaptive":
        matching = replace(matching, target="average")  # the maps of these scans tell nothing then
    work = partial(fit_member, reading=study.reading, fitting=study.fitting, matching=matching)
    tasks = _Tasks(study.members, lambda member: {"member": member})
    return _over(study, "fit", work, tasks, watch)


def normalise_scans(
    study: Study, made: Container[str], goals: Mapping[str | None, Goal], watch: Progress
) -> Pass:
    """Do the third pass, over the scans of the first that did not fail."""
    work = partial(
        normalise_member, reading=study.reading, writing=study.writing, settings=study.settings
    )
    by_site = study.averaging.mode != "individual"
    present = [member for member in study.members if member.name in made]

    def arguments(member: Member) -> Arguments:
        return {"member": member, "goal": goals[member.site if by_site else None]}

    return _over(study, "normalise", work, _Tasks(present, arguments), watch)


def _over(
    study: Study, stage: str, work: Callable[..., ScanDone], tasks: _Tasks, watch: Progress
) -> Pass:
    result = Pass()
    watch.begin(stage, len(tasks))
    with closing(run_tasks(work, tasks, jobs=study.jobs, scheduler=study.scheduler)) as outcomes:
        for member, outcome in zip(tasks.members, outcomes, strict=True):
            watch.step(stage, outcome)
            if outcome.failure is None:
                result.made.add(member.name)
                result.kept += outcome.result.kept
                continue
            result.failures.append(outcome.failure)
            if study.stop_early:
                break
    return result


def build_references(study: Study, made: Container[str]) -> dict[str | None, Goal]:
    """Do the second pass: make and write references; return what scans are brought to.

    That is one goal for each site where the study goes by sites, and one for all under None.
    """
    present = [member for member in study.members if member.name in made]
    references = make_references(study, present)
    write_references(study.folder, references)
    return references.goals
