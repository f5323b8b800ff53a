"""A whole study in three passes.

1. Every scan → its density, in a file of its own; nothing else comes back from the workers.
2. Densities → the reference of all, and one of each centre.
3. Every scan → its map → its normalised image.

A scan that fails is left out and reported, and the others go on. What is there already, with the
stamp it should have, is kept (`ndflow.workflow.stamps`). Results are the same for any number of
workers: the densities are averaged in an order that does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import FileError
from ndflow.io import model_bytes, new_file
from ndflow.population import Reference, reference
from ndflow.workflow.goal import Goal, centre_goal
from ndflow.workflow.member import Made, Member, density_of_member, fit_member, normalise_member
from ndflow.workflow.models import load_density
from ndflow.workflow.results import safe_name
from ndflow.workflow.settings import Averaging, Fitting, Matching, Reading, Writing, flat
from ndflow.workflow.several import Failure, Outcome, Task, check_jobs, each
from ndflow.workflow.target import in_units, read_target, refuse_coarse

__all__ = [
    "Pass",
    "Study",
    "Watch",
    "build_references",
    "check_study",
    "fit_scans",
    "normalise_scans",
    "reference_name",
]


Arguments = dict[str, Any]

_ANY = "intensity"  # a channel of which nobody said what it shows

# What any reference is like, in mean and spread.
_STANDARD = GaussianMixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))


class Watch(Protocol):
    """Somebody who looks on."""

    def begin(self, stage: str, total: int) -> None:
        """Hear that a pass over so many scans begins."""

    def step(self, stage: str, outcome: Outcome) -> None:
        """Hear what became of a scan."""


@dataclass(frozen=True)
class Study:
    """What is to be done, and how.

    Attributes
    ----------
    folder : where the references go.
    members : the scans.
    averaging, fitting, matching, reading, writing : what the user chose.
    given : the path of a reference to use, instead of one made from these scans.
    channel : what the images show.
    jobs, scheduler : how many workers, or where they are; see `each`.
    stop_early : whether the first failure ends the run.
    """

    folder: Path
    members: Sequence[Member]
    averaging: Averaging = field(default_factory=Averaging)
    fitting: Fitting = field(default_factory=Fitting)
    matching: Matching = field(default_factory=Matching)
    reading: Reading = field(default_factory=Reading)
    writing: Writing = field(default_factory=Writing)
    given: str | None = None
    channel: str = _ANY
    jobs: int = 1
    scheduler: str | None = None
    stop_early: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """All that was chosen and may change a result."""
        return flat(self.averaging, self.fitting, self.matching, self.writing)


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
    """Say before any work what would stand in its way: a wrong option, a scan without a centre."""
    check_jobs(study.jobs)
    if study.given is not None:
        given = _given(study.given)
        _goal_density(study, given)
        if _ANY not in (study.channel, *given.channels) and given.channels != (study.channel,):
            cause = f"a reference of {given.channels[0]}, but the images show {study.channel}"
            raise FileError(study.given, cause, "use a reference of such images")
    elif study.matching.range is None:
        _goal_density(study, Reference(_STANDARD, (study.channel,), 1))
    if study.averaging.mode == "centre":
        for member in study.members:
            if member.centre is None:
                hint = "name it in the table or in participants.tsv, or use --mode individual"
                raise FileError(member.image, f"no centre is known of it ({member.origin})", hint)


def _goal_density(study: Study, whole: Reference) -> GaussianMixture:
    """Return the reference of all in the units of the result."""
    density = in_units(read_target(whole), study.matching.scale, study.matching.range)
    refuse_coarse(density, study.writing)
    return density


def fit_scans(study: Study, watch: Watch) -> Pass:
    """Do the first pass."""
    work = partial(fit_member, reading=study.reading, fitting=study.fitting)
    tasks = _Tasks(study.members, lambda member: {"member": member})
    return _over(study, "fit", work, tasks, watch)


def normalise_scans(
    study: Study, made: Container[str], goals: Mapping[str | None, Goal], watch: Watch
) -> Pass:
    """Do the third pass, over the scans of the first that did not fail."""
    work = partial(
        normalise_member, reading=study.reading, writing=study.writing, settings=study.settings
    )
    by_centre = study.averaging.mode == "centre"
    present = [member for member in study.members if member.name in made]

    def arguments(member: Member) -> Arguments:
        return {"member": member, "goal": goals[member.centre if by_centre else None]}

    return _over(study, "normalise", work, _Tasks(present, arguments), watch)


def _over(study: Study, stage: str, work: Callable[..., Made], tasks: _Tasks, watch: Watch) -> Pass:
    result = Pass()
    watch.begin(stage, len(tasks))
    with closing(each(work, tasks, jobs=study.jobs, scheduler=study.scheduler)) as outcomes:
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

    That is one goal for each centre where the study goes by centres, and one for all under None.
    """
    present = [member for member in study.members if member.name in made]
    average = partial(_average, study)
    whole = average(present) if study.given is None else _given(study.given)
    target = _goal_density(study, whole)
    _write(study.folder / reference_name(None), "reference", whole)
    goals: dict[str | None, Goal] = {None: Goal(target, study.matching)}
    for centre in sorted({member.centre for member in present if member.centre is not None}):
        own = _known(study.given, centre)
        if own is None:
            own = average([member for member in present if member.centre == centre])
        _write(study.folder / reference_name(centre), "reference", own)
        if study.averaging.mode == "centre":
            goals[centre] = centre_goal(target, own.mixture, study.matching)
            way = goals[centre].centre
            if way is not None:
                _write(study.folder / reference_name(centre, "map"), "map", way[1].imap)
    return goals


class _Densities(Sequence[GaussianMixture]):
    """The densities of some scans, read one after the other when they are looked at."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, place: Any) -> Any:
        return density_of_member(self._members[place])


def _average(study: Study, members: Sequence[Member]) -> Reference:
    names = [member.name for member in members]
    return reference(
        _Densities(members), average=study.averaging.average, names=names, channels=study.channel
    )


def reference_name(centre: str | None, kind: str = "reference") -> str:
    """Return what the reference of a centre is called, or that of all."""
    if centre is None:
        return f"{kind}.json"
    return f"{kind}_{safe_name(centre)}.json"


def _given(path: str) -> Reference:
    model = load_density(path)
    if not isinstance(model, Reference):
        raise FileError(path, "a mixture, not a reference", "make one with 'ndflow reference'")
    return model


def _known(given: str | None, centre: str) -> Reference | None:
    """Return the reference of a centre that was made together with the one given."""
    beside = None if given is None else Path(given).with_name(reference_name(centre))
    return _given(str(beside)) if beside is not None and beside.exists() else None


def _write(path: Path, kind: str, model: Any) -> None:
    """Write a model, unless it stands there already."""
    content = model_bytes(kind, {kind: model.to_dict()})
    if path.exists() and path.read_bytes() == content:
        return
    with new_file(path, force=True) as file:
        file.write(content)
