"""A study from the first scan to the last: check, prepare, fit, references, normalise, record.

A scan that fails is left out and reported, and the others go on. What is there already, and up to
date, is kept (`ndflow.study.steps`). Results are the same for any number of workers: densities are
averaged in an order that does not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ndflow._version import __version__, versions
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import folder_lock, remove_abandoned
from ndflow.files.model_files import write_listed
from ndflow.files.outputs import check_folder, make_folder
from ndflow.files.stream import FileHash, sha256_of
from ndflow.image.mask import FoundMask, found_for
from ndflow.image.subject import Subject, is_other_contrast
from ndflow.options import Options, Preparing, TissueSource
from ndflow.population.balancing import SiteBalance
from ndflow.preparation.brain import deepbet_version
from ndflow.study import bids_names, manifest, prepare_step, references, table
from ndflow.study.checks import agreement, doubt_counts
from ndflow.study.plan import PREPARED, PROVENANCE, REPORT, SCANS, Study
from ndflow.study.prepare_step import PrepareStep
from ndflow.study.references import References, compare_scans
from ndflow.study.scan_steps import FitStep, NormaliseStep, lacks_tissue_maps
from ndflow.study.site_checks import refuse_inverted
from ndflow.study.steps import NEW, Done, Pass, Step, check_readable, look, refuse_changed, run_step
from ndflow.study.tasks import FAILURES, Failure, Progress, Silent, check_jobs, record_failures
from ndflow.study.visits import visits_said
from ndflow.subject.presets import Choices, PresetRecord
from ndflow.subject.records import Agreement, StudyRecord
from ndflow.subject.target import full_name, is_builtin
from ndflow.subject.voxels import check_found_mask
from ndflow.values import Doubt

# Steps that come after these, for each scan that was normalised: one line each.
MORE: tuple[type[Step], ...] = ()

_TEMPORARY = "**/.ndflow-*.tmp"
_DATASET_LOCK, _TABLES_LOCK = ".ndflow-dataset-lock", ".ndflow-tables-lock"


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
    with folder_lock(study.folder, shared=study.partial), ExitStack() as last:
        # At the end, too: a worker of a run that was killed may have gone on for a while.
        last.callback(remove_abandoned, study.folder, _TEMPORARY)
        remove_abandoned(study.folder, _TEMPORARY)
        manifest.check_place(study, _steps(study))  # again: now no other run can change it
        run = _Run(study, command, manifest.record_in(study.folder))
        run.begin()
        if study.preparing is not None:
            step: Step = PrepareStep.of(study)
            preparing = [(step, scan) for scan in study.scans]
            run.passes["prepare"] = run_step(preparing, study, progress, apart=True)
            return run.finish()
        if study.raw is not None:
            prepared = run_study(study.raw, progress, command=command)
            names = {raw.name: s.name for raw, s in zip(study.raw.scans, study.scans, strict=True)}
            failures = [one._replace(scan=names[one.scan]) for one in prepared.failures]
            doubts = {names[name]: own for name, own in prepared.doubts_of.items()}
            run.prepared = prepared._replace(failures=failures, doubts_of=doubts)
        step, failed = FitStep.of(study), {failure.scan for failure in run.failures}
        fitting = [(step, scan) for scan in study.scans if scan.name not in failed]
        fitted = run.passes["fit"] = run_step(fitting, study, progress)
        if fitted.done and not study.only_fits:
            found = run.references = compare_scans(study, fitted.done, run.before, progress)
            if not study.options.force:
                refuse_inverted(found.of_study)
            if not study.partial:
                run.write(study, references.reference_files(found))
            normalising = [(found.step(scan), scan) for scan in found.scans]
            normalised = run.passes["normalise"] = run_step(normalising, study, progress)
            for kind in MORE:
                step = kind.of(study)
                more = [(step, scan) for scan in found.scans if scan.name in normalised.done]
                run.passes[kind.name] = run_step(more, study, progress)
        return run.finish()


class Summary(NamedTuple):
    """How a study ended.

    Attributes
    ----------
    done, kept : scans that were normalised (or prepared), and those of them that had been before.
    failures : of the others.
    doubts_of : what to check by eye, by the name of the scan.
    agreement : how far tissues lie apart between scans; None where that is not known.
    prepared : how the preparation ended that came first, if there was one.
    of_study : what is doubtful about the study as a whole, such as its tissue maps.
    preset : what the preset decided, and why; None for a method without presets.
    balance : what the weights of each site achieve, if scans are weighted.
    table, aligned : of a preparation, the tables of prepared scans and of their copies.
    visits : how many people were scanned several times, and what these scans share, in words.
    """

    done: int
    kept: int
    failures: list[Failure]
    doubts_of: Mapping[str, tuple[Doubt, ...]] = MappingProxyType({})
    agreement: Agreement | None = None
    prepared: Summary | None = None
    of_study: tuple[Doubt, ...] = ()
    preset: PresetRecord | None = None
    balance: Mapping[str, SiteBalance] = MappingProxyType({})
    table: Path | None = None
    aligned: Path | None = None
    visits: str | None = None

    @property
    def doubts(self) -> dict[str, list[str]]:
        """The names of the scans to check by eye, by what is doubtful; the most frequent first."""
        return {count.kind: count.scans for count in doubt_counts(self.doubts_of)}


# ── from scans that were listed, and what is asked of them, to a study ────────────────────────────


@dataclass(frozen=True)
class Asked:
    """What is asked of a study, besides its scans.

    Attributes
    ----------
    choices : about results.
    reference : that was given, if any.
    preparing : how raw scans are prepared first; None if they are not.
    unmasked : the mask to find for scans without one.
    jobs, scheduler, partial : see `Study`.
    derivatives : folders that masks of a BIDS dataset come from, by name; None where the scans are
        not those of a dataset.
    """

    choices: Choices = field(default_factory=Choices)
    reference: str | None = None
    preparing: Preparing | None = None
    unmasked: FoundMask | None = None
    jobs: int = 1
    scheduler: str | None = None
    partial: bool = False
    derivatives: Mapping[str, Path] | None = None


def preparing_for(
    prepare: bool, mask: str | None, *, tissues: TissueSource = "given", no_bias_field: bool = False
) -> tuple[Preparing | None, FoundMask | None]:
    """Return how raw scans are prepared, if they are; and the mask to find if they are not.

    Parameters
    ----------
    prepare : whether they are.
    mask : for scans without a mask.
    tissues, no_bias_field : see `Preparing`.
    """
    if prepare and mask == "auto":
        words = "--prepare finds brain masks, and --mask auto the foreground"
        raise InvalidValueError(f"{words}; leave out one of them")
    if prepare:
        return Preparing("nonzero" if mask == "nonzero" else "brain", tissues, no_bias_field), None
    if tissues != "given" or no_bias_field:
        given = "--no-bias-field" if no_bias_field else f"--tissues {tissues}"
        raise InvalidValueError(f"{given} is about --prepare; add --prepare, or leave it out")
    return None, found_for(mask)


def assemble(
    listing: table.Listing, folder: Path, asked: Asked, *, within: Path | None = None
) -> Study:
    """Return the study of some scans.

    Parameters
    ----------
    listing : the scans.
    folder : for the results.
    asked : what is asked of it.
    within : the folder of several studies that this is one of.
    """
    listing.refuse_missing()
    naming: table.Naming = table.plain_names
    given = asked.reference
    given = full_name(given) if given is not None and is_builtin(given) else given
    if asked.derivatives is not None:
        naming = partial(bids_names.bids_output, listing.root, asked.derivatives)
    study = Study(
        folder,
        table.named(listing.subjects, naming, asked.unmasked),
        Options(**asked.choices.options),
        given,
        asked.jobs,
        asked.scheduler,
        listing.table,
        within,
        listing.root,
        asked.derivatives is not None,
        asked.derivatives or {},
        asked.partial,
    )
    if asked.preparing is not None:
        within, whole = within or folder, listing.whole or listing  # once for all channels
        named = table.named(whole.subjects, naming, asked.unmasked)
        raw = replace(study, folder=within / PREPARED, scans=named, within=within)
        raw = replace(raw, given=None, table=None)
        step = PrepareStep.of(raw := as_preparation(raw, asked.preparing))
        pairs = zip(raw.scans, study.scans, strict=True)
        study = replace(study, raw=raw, scans=[_ready(step, one, scan) for one, scan in pairs])
    found = None if given is None else references.read_reference(given, study.channels)[0]
    return references.settled(replace(study, choices=asked.choices), found)


def as_preparation(study: Study, preparing: Preparing) -> Study:
    """Return the preparation of the scans of a study."""
    return replace(
        study, scans=prepare_step.scans_to_prepare(study.scans, study.root), preparing=preparing
    )


def _ready(step: PrepareStep, raw: Subject, scan: Subject) -> Subject:
    """Return a scan as it will be when it is prepared, with the places of its own results."""
    mask = step.paths(raw).mask.relative_to(step.study.folder).as_posix()
    outputs = {}
    for channel, own in scan.outputs.items():
        metadata, before = dict(own.metadata), raw.outputs[channel]
        if "Sources" in metadata:
            metadata["Sources"] = [f"bids:{PREPARED}:{one}" for one in (before.image, mask)]
            if raw.mask is None and step.preparing.mask == "nonzero":
                metadata["SkullStripped"] = before.metadata.get("SkullStripped", True)
        outputs[channel] = own._replace(metadata=metadata)
    ready = step.prepared(raw)
    images = {channel: ready.images[channel] for channel in scan.channels}
    return replace(ready, images=images, outputs=outputs, name=scan.name)


def assemble_preparation(
    listing: table.Listing,
    folder: Path,
    preparing: Preparing,
    options: Options,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
) -> Study:
    """Return the preparation of some scans, by itself.

    Parameters
    ----------
    listing, folder : the scans, and the folder for the results.
    preparing, options : what the user chose.
    jobs, scheduler : see `Study`.
    """
    listing.refuse_missing()
    scans = table.named(listing.subjects)
    study = Study(folder, scans, options, None, jobs, scheduler, listing.table, root=listing.root)
    return as_preparation(study, preparing)


# ── before any work ───────────────────────────────────────────────────────────────────────────────


def check_study(study: Study) -> None:
    """Raise an error, before any work, if a study cannot be run."""
    check_jobs(study.jobs)
    check_folder(study.within or study.folder)
    if study.described:
        bids_names.described(study.folder, **_source(study))
    manifest.check_place(study, _steps(study))
    if study.preparing is not None:
        prepare_step.check_requirements(study)
        return
    if study.raw is not None:
        check_study(study.raw)
    if study.only_fits:
        return
    for scan in study.scans:
        if scan.finds_brain and is_other_contrast(scan.mask_channel):
            words = f"--mask brain finds brains in T1w images, but these are {study.channel}"
            raise InvalidValueError(f"{words}; give masks")
        check_found_mask(scan)
        if study.target_rule.needs_tissue_maps and not scan.tissues.complete:
            raise lacks_tissue_maps(scan)
        if scan.site is None and (study.mode.by_site or study.options.balance):
            hint = "name it in the table or in participants.tsv, or use --mode individual alone"
            raise FileError(scan.path, f"its site is not known ({scan.origin})", hint)
    references.check_references(study)


def _steps(study: Study) -> list[Step]:
    """Return the steps of a study, as far as their files are concerned."""
    if study.preparing is not None:
        return [PrepareStep.of(study)]
    more = [] if study.only_fits else [NormaliseStep.of(study), *(kind.of(study) for kind in MORE)]
    return [FitStep.of(study), *more]


def _source(study: Study) -> dict[str, Any]:
    force = study.options.force
    return {"source_root": study.root, "any_source": not study.dataset, "force": force}


# ── the files of a run ────────────────────────────────────────────────────────────────────────────


@dataclass
class _Run:
    """A run: what has come of it so far, and the files about it.

    Attributes
    ----------
    before : the record of an earlier run in the same folder.
    prepared : how the preparation ended that came first.
    passes : what came of each step, by its name.
    references : what scans are brought to.
    table : the list of scans or participants, as it was when the run began.
    listed : the files at the top of the folder that are ours, and their hashes.
    written : those of them that this run has written.
    """

    study: Study
    command: Sequence[str]
    before: StudyRecord | None
    prepared: Summary | None = None
    passes: dict[str, Pass] = field(default_factory=dict)
    references: References | None = None
    table: FileHash | None = None
    listed: dict[str, str] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Note what an earlier run has written, and the list of scans."""
        known = {} if self.before is None else self.before.outputs
        tops = {name: sha256 for name, sha256 in known.items() if "/" not in name}
        self.listed |= {name: tops[name] for name in tops if name != FAILURES}
        if (given := self.study.table) is not None:
            self.table = FileHash(str(Path(given).absolute()), sha256_of(given))

    @property
    def stages(self) -> dict[str, list[Failure]]:
        """The scans that failed so far, by step."""
        unprepared = {} if self.prepared is None else {"prepare": self.prepared.failures}
        return unprepared | {name: one.failures for name, one in self.passes.items()}

    @property
    def failures(self) -> list[Failure]:
        """All scans that failed so far."""
        return [failure for some in self.stages.values() for failure in some]

    def begin(self) -> None:
        """Describe the folder, and record what is run, before anything else is written."""
        study, folder = self.study, self.study.folder
        if study.described:
            links = {} if study.raw is None else {PREPARED: study.raw.folder}
            with folder_lock(folder, name=_DATASET_LOCK, wait=True):
                bids_names.write_dataset_files(
                    folder,
                    version=__version__,
                    derivatives={**study.derivatives, **links},
                    kind="normalised" if study.preparing is None else "prepared",
                    **_source(study),
                )
        if study.partial:
            return
        with folder_lock(folder, name=_TABLES_LOCK, wait=True):
            files = {}
            if study.preparing is None:
                files[SCANS] = table.study_scans(folder, study.scans, study.within)
            self.write(study, files)

    def finish(self) -> Summary:
        """Write down how a study, a preparation, or the part of some participants ended."""
        study, folder, found = self.study, self.study.folder, self.references
        preparing = study.preparing is not None
        main = "prepare" if preparing else "fit" if study.only_fits else "normalise"
        last, decided = self.passes.get(main, Pass()), study if found is None else found.study
        doubts = last.all_doubts()
        for name, own in self.prepared.doubts_of.items() if self.prepared else ():
            doubts[name] = (*own, *doubts.get(name, ()))
        medians = {name: one.medians for name, one in last.done.items() if one.medians}
        sites = {scan.name: scan.site for scan in study.scans}
        tissues = None if found is None else found.common.tissues
        summary = Summary(
            len(last.done),
            last.kept,
            self.failures,
            doubts,
            agreement(medians, sites, own_maps=tissues is not None and tissues.source == "maps"),
            self.prepared,
            () if found is None else found.of_study,
            decided.preset if preparing or not study.only_fits else None,
            {} if found is None else found.weights.sites,
            visits=None if found is None else visits_said(decided, found.scans),
        )
        if study.preparing is not None and last.done:
            aligned = None if study.preparing.resolution is None else folder / prepare_step.ALIGNED
            summary = summary._replace(table=folder / prepare_step.STUDY, aligned=aligned)
        names = [scan.name for scan in study.scans]
        tried = dict.fromkeys(("prepare", "fit", "normalise"), names) if study.partial else None
        with folder_lock(folder, name=_TABLES_LOCK, wait=True):
            news = record_failures(folder, tried, self.stages) or last.kept < len(last.done)
            if not study.partial:
                self._conclude(decided, summary, news=news)
        return summary

    def _conclude(self, decided: Study, summary: Summary, *, news: bool) -> None:
        """Remove what is no longer valid, and record what was written."""
        study, folder, found = self.study, self.study.folder, self.references
        failed = [] if self.prepared is None else [*self.prepared.failures]
        files, names = dict[str, bytes](), list[str]()
        if study.preparing is not None:
            done = self.passes["prepare"].done
            prepared = [scan for scan in study.scans if scan.name in done]
            files = prepare_step.tables(study, prepared)
        for step in _steps(study):
            own = self.passes.get(step.name, Pass())
            failed += own.failures  # and so in all that follows
            manifest.remove_results(step, study.scans, failed)
            for scan in (scan for scan in study.scans if scan.name in own.done):
                names += [path.relative_to(folder).as_posix() for path in step.records(scan)]
        if news:
            manifest.remove_unchanged(folder, [REPORT])
        outcome: dict[str, Any] = {"doubts": summary.doubts_of, "of_study": summary.of_study}
        outcome |= {"balance": dict(summary.balance), "agreement": summary.agreement}
        if found is not None:
            outcome |= {"inputs": found.read, "made_from": found.made_from, "trust": found.trust}
        manifest.remove_unchanged(folder, self.listed.keys() - {REPORT, *self.written, *files})
        names += [FAILURES] if (folder / FAILURES).exists() else []
        records = {name: sha256_of(folder / name) for name in names}
        self.write(decided, files, records, finished=True, **outcome)

    def write(
        self,
        study: Study,
        files: Mapping[str, bytes],
        records: Mapping[str, str] = MappingProxyType({}),
        **outcome: Any,
    ) -> None:
        """Write files at the top of the folder, with what is run; at the end, what came of it."""
        folder, preparing = self.study.folder, study.preparing is not None
        self.written += files
        # The report stays listed, and so does a file that is no longer written, but was changed.
        kept = {n for n in self.listed if n in self.written or (folder / n).exists()}
        there = {name: sha256 for name, sha256 in self.listed.items() if name in kept}
        found = {"deepbet": deepbet_version()} if any(s.finds_brain for s in study.scans) else {}
        done = {name: len(one.done) for name, one in self.passes.items()}
        if self.prepared is not None:
            done["prepare"] = self.prepared.done
        about: dict[str, Any] = {
            "settings": study.settings,
            "command": tuple(self.command),
            "versions": versions(*prepare_step.PACKAGES if preparing else ()) | found,
            "reference": study.given,
            "mask": None if preparing else study.unmasked,
            "channels": () if preparing else study.channels,
            "scans": len(study.scans),
            "sites": study.site_counts,
            "preset": study.preset,
            "done": done,
            "failed": len(self.failures),
            "table": self.table,
            **outcome,
        }

        def content(written: Mapping[str, str]) -> bytes:
            self.listed = {**there, **written}
            return StudyRecord(**about, outputs={**self.listed, **records}).content()

        paths = {folder / name: data for name, data in files.items()}
        write_listed(folder / PROVENANCE, paths, content, force=self.study.options.force)


# ── a rehearsal ───────────────────────────────────────────────────────────────────────────────────


class Rehearsed(NamedTuple):
    """What a run would do for a scan.

    Attributes
    ----------
    scan : the scan.
    action, why : what would be done, and for what reason.
    error : what would prevent it.
    found : what is known about it, if its results are kept.
    """

    scan: Subject
    action: str = ""
    why: str = ""
    error: FileError | None = None
    found: Done | None = None


KEEP, UP_TO_DATE = "keep", "up to date"


def rehearse(study: Study) -> list[Rehearsed]:
    """Return what a run would do for each scan, and why, without doing it.

    Where some densities are still to be estimated, the reference of a study is not known yet, and
    what will become of the images depends on it.
    """
    if study.preparing is not None:
        return [_rehearsed(PrepareStep.of(study), scan, "prepare") for scan in study.scans]
    fit = "fit" if study.only_fits else "fit and write"
    prepared = [] if study.raw is None else rehearse(study.raw)
    if any(one.action != KEEP for one in prepared):
        rest = "prepared; the rest depends on the other scans"
        return [
            one._replace(action=f"keep or {fit}", why=rest)
            if one.action == KEEP
            else one._replace(action=f"prepare, {fit}")
            for one in prepared
        ]
    fits = [_rehearsed(FitStep.of(study), scan, fit) for scan in study.scans]
    if study.only_fits:
        return fits
    found, done = None, {one.scan.name: one.found for one in fits if one.found is not None}
    if len(done) == len(fits):
        found = compare_scans(study, done, manifest.record_in(study.folder), Silent())
    elif study.given is not None and not study.mode.by_site:
        found = references.make_references(study, [], {})  # given: no scan changes it
    return [one if one.found is None else _then(one, found) for one in fits]


def _rehearsed(step: Step, scan: Subject, action: str) -> Rehearsed:
    why: Done | str = NEW
    try:
        check_readable(step, scan)
        why = look(step, scan)
        if isinstance(why, Done):
            return Rehearsed(scan, KEEP, UP_TO_DATE, found=why)
        refuse_changed(step, scan)
    except FileError as error:
        return Rehearsed(scan, action, str(why), error)
    return Rehearsed(scan, action, why)


def _then(fitted: Rehearsed, found: References | None) -> Rehearsed:
    """Return what becomes of the images of a scan that was fitted."""
    if found is None:
        why = "depends on the reference, which may change"
        return fitted._replace(action="keep or write", why=why)
    for step in (found.step(fitted.scan), *(kind.of(found.study) for kind in MORE)):
        one = _rehearsed(step, fitted.scan, "write")
        if one.action != KEEP:
            return one._replace(why="fitted already") if one.why == NEW else one
    return fitted
