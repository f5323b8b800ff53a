"""A study from the first scan to the last: check, prepare, fit, references, normalise, record.

A scan that fails is left out and reported, and the others go on. What is there already, and up to
date, is kept (`ndflow.study.steps`). Results are the same for any number of workers: densities are
averaged in an order that does not depend on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

from ndflow._version import __version__, versions
from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import folder_lock, remove_abandoned
from ndflow.files.outputs import check_folder, make_folder, sidecar_of
from ndflow.files.stream import sha256_of
from ndflow.image.subject import Subject
from ndflow.population.balancing import SiteBalance
from ndflow.preparation.brain import deepbet_version, is_other_contrast
from ndflow.study import bids_derivative
from ndflow.study.checks import SiteDistances, doubt_counts
from ndflow.study.fit_step import FitStep, lacks_tissue_maps
from ndflow.study.manifest import (
    check_place,
    record_in,
    remove_results,
    remove_unchanged,
    top_files,
)
from ndflow.study.normalise_step import NormaliseStep
from ndflow.study.plan import PREPARED, PROVENANCE, REPORT, SCANS, Study
from ndflow.study.prepare_step import PACKAGES, PreparationRecord, PrepareStep, check_requirements
from ndflow.study.prepare_tables import ALIGNED, STUDY, write_tables
from ndflow.study.references import (
    References,
    check_references,
    compare_scans,
    make_references,
    write_references,
)
from ndflow.study.steps import NEW, Pass, Step, check_readable, look, refuse_changed, run_step
from ndflow.study.table import refuse_almost_equal_sites, refuse_repeats, write_study_scans
from ndflow.study.tasks import (
    Failure,
    Progress,
    check_jobs,
    read_failures,
    record_failures,
)
from ndflow.subject.presets import PresetRecord
from ndflow.subject.records import StudyRecord
from ndflow.subject.voxels import check_found_mask

# Steps that come after these, for each scan that was normalised: one line each.
MORE: tuple[type[Step], ...] = ()

_DATASET_LOCK, _TABLES_LOCK = ".ndflow-dataset-lock", ".ndflow-tables-lock"


class Summary(NamedTuple):
    """How a study ended.

    Attributes
    ----------
    done, kept : scans that were normalised (or prepared), and those of them that had been before.
    failures : of the others.
    doubts_of : what to check by eye, by the name of the scan.
    distances : how far apart the sites are, before and after; None of fewer than two scans.
    prepared : how the preparation ended that came first, if there was one.
    of_study : what is doubtful about the study as a whole, such as its tissue maps.
    preset : what the preset decided, and why; None for a method without presets.
    balance : what the weights of each site achieve, if scans are weighted.
    table, aligned : of a preparation, the tables of prepared scans and of their copies.
    seconds : of a preparation, the median time of a scan.
    """

    done: int
    kept: int
    failures: list[Failure]
    doubts_of: Mapping[str, tuple[Doubt, ...]] = MappingProxyType({})
    distances: SiteDistances | None = None
    prepared: Summary | None = None
    of_study: tuple[Doubt, ...] = ()
    preset: PresetRecord | None = None
    balance: Mapping[str, SiteBalance] = MappingProxyType({})
    table: Path | None = None
    aligned: Path | None = None
    seconds: float | None = None

    @property
    def doubts(self) -> dict[str, list[str]]:
        """The names of the scans to check by eye, by what is doubtful; the most frequent first."""
        return {count.kind: count.scans for count in doubt_counts(self.doubts_of)}


def run_study(study: Study, progress: Progress, *, command: Sequence[str] = ()) -> Summary:
    """Run a study, or a preparation.

    Parameters
    ----------
    study : what to do.
    progress : follows how far the run has come.
    command : what the user typed, for the record.
    """
    check_study(study)
    make_folder(study.folder)
    with folder_lock(study.folder, shared=study.partial), _tidied(study):
        check_place(study, _steps(study))  # again, now that no other run can change it
        run = _Run(study, command)
        run.begin()
        if study.raw is not None:
            run.prepared = run_study(study.raw, progress, command=command)
        if study.preparing is not None:
            prepare = PrepareStep.of(study)
            run.passes["prepare"] = run_step(prepare, study.scans, study, progress, apart=True)
            return run.finish()
        fitted = run.passes["fit"] = run_step(FitStep.of(study), run.ready(), study, progress)
        if study.partial:
            return run.finish_part()
        normalised = run.passes["normalise"] = Pass()
        if scans := [scan for scan in study.scans if scan.name in fitted.done]:
            goals = run.references = compare_scans(study, scans, progress)
            run.written = write_references(study.folder, goals)
            normalised = run_step(lambda scan: normalise_step(goals, scan), scans, study, progress)
            run.passes["normalise"] = normalised
        for kind in MORE:
            scans = [scan for scan in study.scans if scan.name in normalised.done]
            run.passes[kind.name] = run_step(kind.of(study), scans, study, progress)
        return run.finish()


def normalise_step(references: References, scan: Subject) -> NormaliseStep:
    """Return the last step of a scan."""
    study = replace(references.study, scans=(), raw=None)  # which need not go to every worker
    odd, model = references.odd.get(scan.name, ()), references.fits.get(scan.name)
    return NormaliseStep(study, references.goal(scan), odd, model)


# ── before any work ───────────────────────────────────────────────────────────────────────────────


def check_study(study: Study) -> None:
    """Raise an error, before any work, if a study cannot be run."""
    check_jobs(study.jobs)
    refuse_repeats(study.scans)
    refuse_almost_equal_sites(study.scans)
    check_folder(study.within or study.folder)
    if study.dataset or study.preparing is not None:
        bids_derivative.described(study.folder, **_source(study))
    check_place(study, _steps(study))
    if study.preparing is not None:
        check_requirements(study)
        return
    if study.raw is not None:
        check_study(study.raw)
    if study.partial:
        return
    check_references(study)
    for scan in study.scans:
        _check_scan(study, scan)


def _check_scan(study: Study, scan: Subject) -> None:
    """Refuse a scan that lacks what the options of a study need."""
    if scan.finds_brain and is_other_contrast(scan.mask_channel):
        raise InvalidValueError(
            f"--mask brain finds brains in T1w images, but these are {study.channel}; give masks"
        )
    check_found_mask(scan)
    if study.target_rule.needs_tissue_maps and not scan.tissues.complete:
        raise lacks_tissue_maps(scan)
    if study.mode.by_site and scan.site is None:
        hint = "name it in the table or in participants.tsv, or use --mode individual"
        raise FileError(scan.path, f"its site is not known ({scan.origin})", hint)


def _steps(study: Study) -> list[Step]:
    """Return the steps of a study, as far as their files are concerned."""
    if study.preparing is not None:
        return [PrepareStep.of(study)]
    fit = FitStep.of(study)
    if study.partial:
        return [fit]
    return [fit, NormaliseStep.of(study), *(kind.of(study) for kind in MORE)]


def _source(study: Study) -> dict[str, Any]:
    force = study.options.force
    return {"source_root": study.root, "any_source": not study.dataset, "force": force}


# ── the files of a run ────────────────────────────────────────────────────────────────────────────


@contextmanager
def _tidied(study: Study) -> Iterator[None]:
    """Remove the temporary files of runs that were killed, and of ours.

    At the end, because a worker of a run that was killed may have gone on for a while.
    """

    def tidy() -> None:
        steps = _steps(study)
        places = {study.folder}
        for scan in study.scans:
            for step in steps:
                places |= {path.parent for path in (*step.records(scan), *step.outputs(scan))}
        for folder in places:
            remove_abandoned(folder)

    tidy()
    try:
        yield
    finally:
        tidy()


@dataclass
class _Run:
    """A run: what has come of it so far, and the files about it."""

    study: Study
    command: Sequence[str]
    prepared: Summary | None = None
    passes: dict[str, Pass] = field(default_factory=dict)
    references: References | None = None
    written: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Remember how an earlier run ended."""
        self._before = record_in(self.study.folder)
        self._failed: set[str] = set()
        with suppress(FileError):
            self._failed = {scan for scan, *_ in read_failures(self.study.folder)}

    def ready(self) -> list[Subject]:
        """Return the scans that are prepared, or need not be."""
        failed = {failure.scan for failure in self._unprepared()}
        return [scan for scan in self.study.scans if scan.name not in failed]

    def begin(self) -> None:
        """Describe the folder, and record what is run, before anything else is written."""
        study, folder = self.study, self.study.folder
        if study.dataset or study.preparing is not None:
            links = {} if study.raw is None else {PREPARED: study.raw.folder}
            with folder_lock(folder, name=_DATASET_LOCK, wait=True):
                bids_derivative.write_dataset_files(
                    folder,
                    version=__version__,
                    derivatives={**study.derivatives, **links},
                    kind="normalised" if study.preparing is None else "prepared",
                    **_source(study),
                )
        if study.partial and study.preparing is None:
            return
        with folder_lock(folder, name=_TABLES_LOCK, wait=True):
            known = {} if self._before is None else self._before.outputs
            outputs = {name: known.get(name, "") for name in top_files(study)}
            self._record(study, outputs, finished=False)
            if study.preparing is None:
                write_study_scans(folder / SCANS, study.scans)

    def finish(self) -> Summary:
        """Write down how a study or a preparation ended."""
        study, folder, found = self.study, self.study.folder, self.references
        failed = self._unprepared()
        names = [] if study.preparing is not None else [SCANS, *self.written]
        for step in _steps(study):
            done = self.passes[step.name]
            failed += done.failures  # and so in all that follows
            remove_results(step, study.scans, failed)
            for scan in (scan for scan in study.scans if scan.name in done.done):
                names += [path.relative_to(folder).as_posix() for path in step.records(scan)]
        main = self.passes["normalise" if study.preparing is None else "prepare"]
        if main.kept < len(main.done) or self._failed != {failure.scan for failure in failed}:
            remove_unchanged(folder, [REPORT])
        outcome: dict[str, Any] = {"doubts": main.all_doubts()}
        if found is not None:
            outcome |= {"of_study": found.of_study, "balance": dict(found.weights.sites)}
            outcome["inputs"] = found.read
        with folder_lock(folder, name=_TABLES_LOCK, wait=True):
            if study.preparing is not None:
                names, more = self._write_tables()
                outcome |= more
            tried = {"prepare": [scan.name for scan in study.scans]} if study.partial else None
            stages = {name: one.failures for name, one in self.passes.items()}
            record_failures(folder, tried, {"prepare": self._unprepared(), **stages})
            outputs = {name: sha256_of(folder / name) for name in names}
            decided = study if found is None else found.study
            self._record(decided, outputs, finished=True, **outcome)
        summary = Summary(
            len(main.done),
            main.kept,
            failed,
            outcome["doubts"],
            main.distances(),
            self.prepared,
            () if found is None else found.of_study,
            decided.preset,
            {} if found is None else found.weights.sites,
        )
        if study.preparing is None or not main.done:
            return summary
        copies = study.preparing.resolution is not None
        return summary._replace(
            table=folder / STUDY,
            aligned=folder / ALIGNED if copies else None,
            seconds=median(main.seconds) if main.seconds else None,
        )

    def _write_tables(self) -> tuple[list[str], dict[str, Any]]:
        """Write the tables of a preparation; return what they list, and how many scans."""
        step, done = PrepareStep.of(self.study), self.passes["prepare"].done
        records = {
            scan.name: PreparationRecord.read(step.paths(scan).record)
            for scan in self.study.scans
            if scan.name in done
        }
        tables, rows = write_tables(self.study, records)
        sidecars = [sidecar_of(str(row["image"])).as_posix() for row in rows]
        sites = Counter(str(row["site"]) for row in rows if row["site"] not in (None, "n/a"))
        return [*tables, *sidecars], {"scans": len(rows), "sites": dict(sorted(sites.items()))}

    def finish_part(self) -> Summary:
        """Write down which scans of some participants failed; the group does the rest."""
        fitted, folder = self.passes["fit"], self.study.folder
        tried = [scan.name for scan in self.study.scans]
        failed = {"prepare": self._unprepared(), "fit": fitted.failures}
        with folder_lock(folder, name=".ndflow-failures-lock", wait=True):
            record_failures(folder, dict.fromkeys(("prepare", "fit", "normalise"), tried), failed)
        failures = [*failed["prepare"], *failed["fit"]]
        doubts = fitted.all_doubts()
        return Summary(len(fitted.done), fitted.kept, failures, doubts, prepared=self.prepared)

    def _unprepared(self) -> list[Failure]:
        return [*self.prepared.failures] if self.prepared is not None else []

    def _record(self, study: Study, outputs: Mapping[str, str], **outcome: Any) -> None:
        """Write what is run; at the end, with what came of it."""
        folder = self.study.folder
        known = {} if self._before is None else self._before.outputs
        if outcome["finished"] and not study.partial:
            stale = {name for name in known if "/" not in name and name not in outputs}
            remove_unchanged(folder, stale - {REPORT})
        there = {n: known[n] for n in known if "/" not in n and (folder / n).exists()}
        # The report stays listed, and so does a file that is no longer written, but was changed.
        outputs = {**outputs, **{n: there[n] for n in there if n not in outputs}}
        preparing = study.preparing is not None
        packages = PACKAGES if preparing else ()
        found = {"deepbet": deepbet_version()} if any(s.finds_brain for s in study.scans) else {}
        done = {name: len(one.done) for name, one in self.passes.items()}
        failed = [*self._unprepared(), *(f for one in self.passes.values() for f in one.failures)]
        if self.prepared is not None:
            done["prepare"] = self.prepared.done
        StudyRecord(
            **{
                "settings": study.settings,
                "command": tuple(self.command),
                "versions": versions(*packages) | found,
                "reference": study.given,
                "mask": None if preparing else study.unmasked,
                "outputs": dict(outputs),
                "channels": () if preparing else study.channels,
                "scans": len(study.scans),
                "sites": study.site_counts,
                "preset": study.preset,
                "done": done,
                "failed": len(failed),
                **outcome,
            }
        ).write(folder / PROVENANCE, force=True)


# ── a rehearsal ───────────────────────────────────────────────────────────────────────────────────


class Rehearsed(NamedTuple):
    """What a run would do for a scan.

    Attributes
    ----------
    scan : the scan.
    action, why : what would be done, and for what reason.
    error : what would prevent it.
    """

    scan: Subject
    action: str = ""
    why: str = ""
    error: FileError | None = None


KEEP, UP_TO_DATE = "keep", "up to date"


def rehearse(study: Study) -> list[Rehearsed]:
    """Return what a run would do for each scan, and why, without doing it.

    Where some densities are still to be estimated, the reference of a study is not known yet, and
    what will become of the images depends on it.
    """
    then = "" if study.partial else " and write"
    prepared = [] if study.raw is None else rehearse(study.raw)
    if study.preparing is not None:
        step = PrepareStep.of(study)
        return [_rehearsed(step, scan, "prepare") for scan in study.scans]
    if any(one.action != KEEP for one in prepared):
        return [
            one._replace(action=f"prepare, fit{then}")
            if one.action != KEEP
            else one._replace(
                action=f"keep or fit{then}", why="prepared; the rest depends on the other scans"
            )
            for one in prepared
        ]
    fit = FitStep.of(study)
    fits = [_rehearsed(fit, scan, f"fit{then}") for scan in study.scans]
    if study.partial:
        return fits
    found = None
    if all(one.action == KEEP for one in fits):
        found = compare_scans(study, study.scans)
    elif study.given is not None and not study.mode.by_site:
        found = make_references(study, [], {})  # that was given, and does not depend on the scans
    return [_then(one, found) for one in fits]


def _rehearsed(step: Step, scan: Subject, action: str) -> Rehearsed:
    why: str | None = NEW
    try:
        check_readable(step, scan)
        why = look(step, scan).why
        if why is None:
            return Rehearsed(scan, KEEP, UP_TO_DATE)
        refuse_changed(step, scan)
    except FileError as error:
        return Rehearsed(scan, action, why or "", error)
    return Rehearsed(scan, action, why)


def _then(fitted: Rehearsed, references: References | None) -> Rehearsed:
    """Return what becomes of the images of a scan."""
    if fitted.action != KEEP:
        return fitted
    if references is None:
        why = "depends on the reference, which may change"
        return fitted._replace(action="keep or write", why=why)
    scan, study = fitted.scan, references.study
    for step in (normalise_step(references, scan), *(kind.of(study) for kind in MORE)):
        found = _rehearsed(step, scan, "write")
        if found.action != KEEP:
            return found._replace(why="fitted already") if found.why == NEW else found
    return fitted
