"""A whole study in three passes.

1. Every scan → its density; only that comes back from the workers, some hundred bytes.
2. Densities → the reference of all, and one of each centre.
3. Every scan → its map → its normalised image.

A scan that fails is left out and reported, and the others go on. What is there already, with the
stamp it should have, is kept (`ndflow.workflow.stamps`). Results are the same for any number of
workers: what they return is used in the order of the scans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from ndflow.density import GaussianMixture
from ndflow.errors import FileError
from ndflow.io import model_bytes, new_file
from ndflow.population import Reference, reference
from ndflow.workflow.goal import Goal, centre_goal
from ndflow.workflow.member import Made, Member, fit_member, normalise_member
from ndflow.workflow.models import load_density
from ndflow.workflow.settings import Averaging, Fitting, Matching, Reading, Writing, flat
from ndflow.workflow.several import Failure, Outcome, Task, each
from ndflow.workflow.target import in_units, read_target

__all__ = [
    "Pass",
    "Study",
    "Watch",
    "build_references",
    "fit_scans",
    "normalise_scans",
    "reference_name",
]


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
    channel: str = "intensity"
    jobs: int = 1
    scheduler: str | None = None
    stop_early: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """All that was chosen and may change a result."""
        return flat(self.averaging, self.fitting, self.matching, self.writing)


class Pass(NamedTuple):
    """What a pass over the scans gave.

    Attributes
    ----------
    made : what was made of each scan that did not fail.
    failures : of the others.
    """

    made: dict[str, Made]
    failures: list[Failure]


def fit_scans(study: Study, watch: Watch) -> Pass:
    """Do the first pass."""
    work = partial(fit_member, reading=study.reading, fitting=study.fitting)
    tasks = [Task(member.name, {"member": member}) for member in study.members]
    return _over(study, "fit", work, tasks, watch)


def normalise_scans(
    study: Study, made: Mapping[str, Made], goals: Mapping[str | None, Goal], watch: Watch
) -> Pass:
    """Do the third pass, over the scans of the first that did not fail."""
    work = partial(
        normalise_member, reading=study.reading, writing=study.writing, settings=study.settings
    )
    by_centre = study.averaging.mode == "centre"
    tasks = [
        Task(
            member.name,
            {
                "member": member,
                "mixture": made[member.name].mixture,
                "goal": goals[member.centre if by_centre else None],
            },
        )
        for member in study.members
        if member.name in made
    ]
    return _over(study, "normalise", work, tasks, watch)


def _over(
    study: Study, stage: str, work: Callable[..., Made], tasks: Sequence[Task], watch: Watch
) -> Pass:
    result = Pass({}, [])
    watch.begin(stage, len(tasks))
    with closing(each(work, tasks, jobs=study.jobs, scheduler=study.scheduler)) as outcomes:
        for outcome in outcomes:
            watch.step(stage, outcome)
            if outcome.failure is None:
                result.made[outcome.scan] = outcome.result._replace(warnings=())
                continue
            result.failures.append(outcome.failure)
            if study.stop_early:
                break
    return result


def build_references(study: Study, made: Mapping[str, Made]) -> dict[str | None, Goal]:
    """Do the second pass: make and write references; return what scans are brought to.

    That is one goal for each centre where the study goes by centres, and one for all under None.
    """
    if study.averaging.mode == "centre":
        for member in study.members:
            if member.centre is None:
                hint = "name its centre, or use --mode individual"
                raise FileError(member.image, f"{member.origin}: no centre", hint)
    present = [member for member in study.members if member.name in made]
    average = partial(_average, study, made)
    whole = average(present) if study.given is None else _given(study.given)
    target = in_units(read_target(whole), study.matching.scale, study.matching.range)
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


def _average(study: Study, made: Mapping[str, Made], members: Sequence[Member]) -> Reference:
    mixtures: list[GaussianMixture] = [made[member.name].mixture for member in members]
    names = [member.name for member in members]
    return reference(mixtures, average=study.averaging.average, names=names, channels=study.channel)


def reference_name(centre: str | None, kind: str = "reference") -> str:
    """Return what the reference of a centre is called, or that of all."""
    if centre is None:
        return f"{kind}.json"
    return f"{kind}_{quote(centre, safe=' +,()@')}.json"


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
