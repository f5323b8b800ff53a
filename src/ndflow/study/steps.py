"""Step: work on each scan of a study whose results are kept until something they depend on changes.

Preparing, fitting and normalising are steps. A step says where its records go, what its results
depend on, and how to make them. One function says for all of them whether they are up to date, and
if not, why: `look`. The run, resuming and ``--dry-run`` ask it.

To add a step, write such a class in a module of its own, and name it in `ndflow.study.run.MORE`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Self

from ndflow.errors import FileError
from ndflow.files.atomic import refuse_links
from ndflow.files.model_files import (
    ELSEWHERE,
    changed_since,
    hash_of,
    not_ours,
    outputs_in,
    outputs_of,
    read_model,
    unlisted,
)
from ndflow.files.stream import contents, fingerprint_of, hashes, open_file, sha256_of
from ndflow.image.subject import Subject
from ndflow.study.checks import Medians
from ndflow.study.plan import Study
from ndflow.study.tasks import Failure, Outcome, Progress, Task, failed, run_each
from ndflow.subject.records import ScanModel
from ndflow.values import JSON, Doubt

NEW, OTHERWISE = "new", "made with another version of ndflow"
_THREADS = 4

Payload = Mapping[str, JSON]  # what the file of a record holds
Problem = Literal["missing", "changed", "foreign"]  # of a file, see `ndflow.study.manifest`


class Key(NamedTuple):
    """Everything that the results of a step depend on.

    Attributes
    ----------
    inputs : the hashes of the files that are read, by what they are.
    settings : what was chosen.
    more : the rest, which is not explained to the user.
    """

    inputs: Mapping[str, Sequence[str]]
    settings: Mapping[str, JSON]
    more: Mapping[str, JSON] = {}

    @property
    def fingerprint(self) -> str:
        """One hash for all of it."""
        return fingerprint_of(inputs=self.inputs, settings=self.settings, **self.more)


class Done(NamedTuple):
    """What became of a scan; the results are in its files.

    Attributes
    ----------
    kept : whether they had been made before.
    warnings, doubts : for the user; and what to check by eye.
    content : the hashes of its images, to find scans that are the same.
    medians : of its tissues, to be compared between the scans of a study.
    model : the density, if that was read.
    """

    kept: bool
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    content: tuple[str, ...] = ()
    medians: Medians | None = None
    model: ScanModel | None = None


@dataclass(frozen=True)
class Step(ABC):
    """Work on a scan; a value, which may be sent to a worker.

    Attributes
    ----------
    study : that the scan belongs to, without its scans.
    name : what progress and the list of failures call it.
    """

    study: Study

    name: ClassVar[str]

    @classmethod
    def of(cls, study: Study) -> Self:
        """Return the step of a study."""
        return cls(replace(study, scans=(), raw=None))

    @abstractmethod
    def records(self, scan: Subject) -> list[Path]:
        """Return where its records go."""

    @abstractmethod
    def outputs(self, scan: Subject) -> list[Path]:
        """Return where all other files go; not every scan has all of them."""

    def files(self, scan: Subject) -> Mapping[str, Sequence[str]]:
        """Return the files that are read, by what they are."""
        return scan.files()

    def hashes(self, scan: Subject) -> Mapping[str, Sequence[str]]:
        """Return the hashes of these files as they are now."""
        return contents(hashes(self.files(scan)))

    @abstractmethod
    def key(self, scan: Subject, inputs: Mapping[str, Sequence[str]]) -> Key:
        """Return everything that the results depend on; `inputs` are the hashes of the files."""

    @abstractmethod
    def make(self, scan: Subject) -> Done:
        """Make the results, and write them."""

    def kept(self, scan: Subject, key: Key, records: Sequence[Payload]) -> Done:
        """Return what is known about results that are up to date, from their records."""
        doubts = dict.fromkeys(
            Doubt.from_dict(one) for record in records for one in record.get("doubts") or ()
        )
        return Done(True, doubts=tuple(doubts), content=content_of(scan, key.inputs))


def content_of(scan: Subject, inputs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the hashes of the images of a scan, to find scans that are the same."""
    names = scan.channels if len(scan.images) > 1 else ("image",)
    return tuple(sha256 for name in names for sha256 in inputs.get(name, ()))


def look(step: Step, scan: Subject) -> Done | str:
    """Say what became of a scan whose results are up to date; otherwise, why they are not."""
    records = step.records(scan)
    if not all(record.exists() for record in records):
        return NEW
    if not (payloads := _payloads(records)):
        return "its record is damaged"
    key = step.key(scan, step.hashes(scan))
    for record, payload in zip(records, payloads, strict=True):
        if payload.get("fingerprint") != key.fingerprint:
            return _changed(payload, key)
        for problem, path, _ in altered(outputs_of(record, payload)):
            return f"{problem}: {path.name}"
    return step.kept(scan, key, payloads)


def altered(listed: Mapping[Path, str]) -> Iterator[tuple[Problem, Path, str]]:
    """Yield the files that are not what a record says: what is wrong, which file, and the cause."""
    for path, sha256 in listed.items():
        try:
            if sha256_of(path) != sha256:
                yield "changed", path, "its checksum is not the one that was recorded"
        except FileError as error:
            yield "changed" if path.exists() else "missing", path, error.cause


def _payloads(records: Sequence[Path]) -> list[Payload]:
    """Return what the files of records hold; nothing if any is damaged."""
    try:
        return [read_model(record, sealed=True).payload for record in records]
    except FileError:
        return []


def _changed(payload: Payload, key: Key) -> str:
    """Return which settings or files differ from those of a record, in words."""
    was, now = payload.get("settings") or {}, json.loads(json.dumps(dict(key.settings)))
    names = [name for name in now if was.get(name) != now[name]]
    read = payload.get("sha256") or {
        what: [file["sha256"] for file in files]
        for what, files in (payload.get("inputs") or {}).items()
    }
    names += [what for what in key.inputs if [*read.get(what, ())] != [*key.inputs[what]]]
    return f"changed: {', '.join(dict.fromkeys(names))}" if names else OTHERWISE


def attempt(task: Task) -> Outcome:
    """Make the results of a step for a scan, unless they are up to date."""
    step, scan = task.arguments["step"], task.arguments["scan"]
    try:
        found = look(step, scan)
        if isinstance(found, str):
            refuse_changed(step, scan)
            for path in (*step.records(scan), *step.outputs(scan)):
                path.parent.mkdir(parents=True, exist_ok=True)
            found = step.make(scan)
    except Exception as error:  # of any kind: it must not stop the other scans
        return failed(task, error)
    return Outcome(task.scan, found)


def refuse_changed(step: Step, scan: Subject) -> None:
    """Refuse to replace a link, a file that we did not write, or a result that has been changed.

    The last is replaced by force, or if it is now given as an input.
    """
    records = step.records(scan)
    refuse_links(step.study.folder, (*records, *step.outputs(scan)))
    damaged = [record for record in records if record.exists() and not _payloads([record])]
    for path in [] if damaged else unlisted(records, step.outputs(scan)):
        raise FileError(path, "exists, and was not written by ndflow", ELSEWHERE)
    edited = [path for record in records for path in not_ours(record, outputs_in(record))]
    if step.study.options.force or not (changed := damaged or edited):
        return
    given = {one for part in contents(hashes(step.files(scan))).values() for one in part}
    for path in changed:
        if hash_of(path) not in given:
            raise changed_since(path)


# ── many scans ────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Pass:
    """What a step gave for many scans.

    Attributes
    ----------
    done : what became of the scans that did not fail, by their names.
    failures : of the others that were tried.
    seen : the first scan with each content.
    """

    done: dict[str, Done] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    seen: dict[tuple[str, ...], Subject] = field(default_factory=dict)

    def note(self, task: Task, outcome: Outcome) -> Outcome:
        """Note what became of a scan; one with the content of an earlier one has failed."""
        scan = task.arguments["scan"]
        if outcome.failure is None and (content := outcome.result.content):
            other = self.seen.setdefault(content, scan)
            if other is not scan:
                cause = f"the same image as {other.path} ({scan.origin} and {other.origin})"
                error = FileError(scan.path, cause, "remove one of them")
                outcome = failed(task._replace(origin=""), error)
        if outcome.failure is None:
            self.done[scan.name] = outcome.result
        else:
            self.failures.append(outcome.failure)
        return outcome

    @property
    def kept(self) -> int:
        """How many scans had been done before."""
        return sum(one.kept for one in self.done.values())

    def all_doubts(self) -> dict[str, tuple[Doubt, ...]]:
        """Return the doubts about scans that have given rise to any."""
        return {name: one.doubts for name, one in self.done.items() if one.doubts}


def run_step(
    steps: Sequence[tuple[Step, Subject]], study: Study, progress: Progress, *, apart: bool = False
) -> Pass:
    """Do a step for many scans; one that fails is left out and reported, and the others go on.

    The first scans that are up to date are found by threads of this process, because to start a
    worker may take longer than the whole run.

    Parameters
    ----------
    steps : the scans, and the step of each.
    study : says how many at a time, and where.
    progress : follows how far the run has come.
    apart : whether even a single scan has a process of its own, which can be stopped.
    """
    result = Pass()
    if not steps:
        return result
    name = steps[0][0].name
    tasks = [Task(scan.name, {"step": one, "scan": scan}, scan.origin) for one, scan in steps]
    progress.begin(name, len(tasks))
    with closing(_up_to_date([] if study.scheduler else tasks)) as kept:
        for task, outcome in zip(tasks, kept, strict=False):
            progress.step(name, result.note(task, outcome))
    tasks = tasks[len(result.done) + len(result.failures) :]
    rest = run_each(attempt, tasks, jobs=study.jobs, scheduler=study.scheduler, apart=apart)
    with closing(rest):
        for task, outcome in zip(tasks, rest, strict=True):
            progress.step(name, result.note(task, outcome))
    return result


def _up_to_date(tasks: Sequence[Task]) -> Generator[Outcome]:
    """Yield what became of the first scans, up to one that is not up to date."""
    pool = ThreadPoolExecutor(_THREADS)
    try:
        for task, found in zip(tasks, pool.map(_looked, tasks), strict=True):
            if not isinstance(found, Done):
                return
            yield Outcome(task.scan, found)
    finally:
        pool.shutdown(cancel_futures=True)


def _looked(task: Task) -> Done | str:
    with suppress(Exception):  # which `attempt` meets again
        return look(**task.arguments)
    return NEW


def check_readable(step: Step, scan: Subject) -> None:
    """Raise an error, before any work, if one of the files of a scan cannot be opened."""
    try:
        for name in (name for names in step.files(scan).values() for name in names):
            with open_file(name):
                pass
    except FileError as error:
        raise FileError(error.path, f"{error.cause} ({scan.origin})", error.hint) from None
