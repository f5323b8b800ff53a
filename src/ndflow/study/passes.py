"""A whole study in three passes.

1. Every scan → its density, in a file of its own; nothing else comes back from the workers.
2. Densities → the common reference, and one for each site.
3. Every scan → its map → its normalised image.

A scan that fails is left out and reported, and the others go on. What is there already, with the
fingerprint it should have, is kept (`ndflow.files.fingerprints`). Results are the same for any
number of workers: densities are averaged in an order that does not depend on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Generator, Sequence
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
from ndflow.scan.records import ScanModel
from ndflow.study.listing.repeats import without_repeats
from ndflow.study.odd_scans import Doubts, odd_scans
from ndflow.study.parallel.tasks import (
    Failure,
    Outcome,
    Task,
    check_jobs,
    run_task,
    run_tasks,
)
from ndflow.study.plan import Study
from ndflow.study.references import (
    check_references,
    make_references,
    read_fits,
    write_references,
)
from ndflow.study.scan_jobs import (
    ScanDone,
    fit_job,
    fitted_before,
    lacks_tissue_maps,
    normalise_job,
    normalised_before,
)
from ndflow.study.site_distances import ScanQuantiles, SiteDistances, site_distances
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

_ALONE = 1.0  # seconds that the main process checks scans by itself, about the start of a worker


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
    quantiles : of scans and their results, by their names.
    """

    done: set[str] = field(default_factory=set)
    kept: int = 0
    failures: list[Failure] = field(default_factory=list)
    doubts: dict[str, tuple[Doubt, ...]] = field(default_factory=dict)
    compared: dict[str, Compared] = field(default_factory=dict)
    quantiles: dict[str, ScanQuantiles] = field(default_factory=dict)

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

    def distances(self) -> SiteDistances | None:
        """Return how far apart the sites are, before and after; None of fewer than two scans."""
        sites = [self.compared[name].site for name in self.quantiles]
        return site_distances(list(self.quantiles.values()), sites)


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


class _Work(NamedTuple):
    """What a pass does for each scan.

    Attributes
    ----------
    stage : its name.
    job : does it, unless it was done before.
    before : returns what was done before; None if that is missing or out of date.
    """

    stage: str
    job: Callable[..., ScanDone]
    before: Callable[..., ScanDone | None]


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

    def without(self, first: int) -> _Tasks:
        """Return all but the first tasks."""
        return _Tasks(self._study, self.scans[first:], self._more)


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
    chosen: Arguments = {"fitting": study.fitting, "matching": fit_matching(study)}
    work = _Work(
        "fit",
        partial(fit_job, reading=study.reading, **chosen),
        partial(fitted_before, **chosen),
    )
    return _over(study, work, _Tasks(study, study.scans, lambda _: {}), progress)


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
    chosen: Arguments = {"settings": study.settings}
    work = _Work(
        "normalise",
        partial(normalise_job, reading=study.reading, writing=study.writing, **chosen),
        partial(normalised_before, **chosen),
    )
    tasks = _Tasks(
        study,
        _done(study, done),
        lambda scan: {
            "goal": study.mode.goal_of(references.goals, scan.site),
            "doubts": references.doubts.get(scan.name, ()),
        },
    )
    return _over(study, work, tasks, progress)


def build_references(study: Study, done: Container[str], progress: Progress) -> ReferencePass:
    """Do the second pass: make and write references, and compare the scans with each other."""
    scans = _done(study, done)
    stage = "references"

    def step() -> None:
        progress.step(stage, Outcome(stage, None, None))

    progress.begin(stage, len(scans) + 1 + len({scan.site for scan in scans if scan.site}))
    fits: dict[str, ScanModel] = {}
    for scan in scans:
        fits |= read_fits(study, [scan])
        step()
    models = {name: fit.model for name, fit in fits.items()}
    made = make_references(study, scans, models, each=step)
    odd = odd_scans(scans, fits, made.common.mixture)
    return ReferencePass(made.goals, odd, made.read, write_references(study.folder, made))


def _done(study: Study, done: Container[str]) -> list[Scan]:
    return [scan for scan in study.scans if scan.name in done]


def _over(study: Study, work: _Work, tasks: _Tasks, progress: Progress) -> Pass:
    result = Pass()
    progress.begin(work.stage, len(tasks))
    with closing(_outcomes(study, work, tasks)) as outcomes:
        for scan, outcome in without_repeats(tasks.scans, outcomes):
            progress.step(work.stage, outcome)
            if outcome.failure is None:
                result.done.add(scan.name)
                result.kept += outcome.result.kept
                result.compared[scan.name] = outcome.result.compared
                if outcome.result.quantiles is not None:
                    result.quantiles[scan.name] = outcome.result.quantiles
                if outcome.result.doubts:
                    result.doubts[scan.name] = outcome.result.doubts
                continue
            result.failures.append(outcome.failure)
            if study.stop_early:
                break
    return result


def _outcomes(study: Study, work: _Work, tasks: _Tasks) -> Generator[Outcome, None, None]:
    """Yield the outcome of each task, in their order.

    Whether scans are up to date is found out here as long as they are, and as long as workers would
    take to start: a small study that has nothing to do needs none.
    """
    first = 0
    if study.jobs != 1 and study.scheduler is None:
        until = time.monotonic() + _ALONE
        while first < len(tasks) and time.monotonic() < until:
            outcome = run_task(work.before, tasks[first])
            if outcome.failure is not None or outcome.result is None:
                break
            yield outcome
            first += 1
    fewest = 2 if len(tasks) < 2 else 1  # the last scan of several has a process of its own, too
    yield from run_tasks(
        work.job, tasks.without(first), jobs=study.jobs, scheduler=study.scheduler, fewest=fewest
    )
