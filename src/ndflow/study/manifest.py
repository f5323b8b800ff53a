"""What is ours in the folder of a study, what must not be there, and whether it is still as it was.

A file is ours if a record lists it (`files.model_files`): ``provenance.json`` lists the files
at the top of the folder and all records, and the record of a scan lists the files of that scan. No
other file is ever replaced or removed.

Three things can be wrong with a file of a finished study: it is *missing*; it is *changed*, so that
it is not what the study read or wrote; or it is *foreign*, so that no record lists it. The files
that describe a BIDS dataset are not hashed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath, reading, refuse_links
from ndflow.files.model_files import (
    ELSEWHERE,
    kind_in,
    not_ours,
    outputs_in,
    outputs_of,
    read_model,
    refuse_others,
)
from ndflow.files.stream import all_files
from ndflow.files.tables import read_delimited
from ndflow.image.subject import Subject
from ndflow.study.bids_names import DATASET_FILES, DESCRIPTION
from ndflow.study.plan import EVALUATION_RECORD, PREPARED, PROVENANCE, SCANS, Study, reference_name
from ndflow.study.prepare_step import ALIGNED, MEASURES, STUDY
from ndflow.study.steps import Problem, Step, altered
from ndflow.study.table import read_study_scans
from ndflow.study.tasks import Failure, Progress, Silent, Task, run_tasks
from ndflow.subject.presets import GOVERNED
from ndflow.subject.records import StudiesRecord, StudyRecord
from ndflow.subject.target import builtin_file, is_builtin
from ndflow.values import plural

_ANOTHER = "choose another folder, or --force to use it"


def record_in(folder: Path) -> StudyRecord | None:
    """Return the record of the study in a folder; None if there is none that can be read."""
    try:
        return StudyRecord.read(folder / PROVENANCE)
    except FileError:
        return None


# ── before a run ──────────────────────────────────────────────────────────────────────────────────


def check_place(study: Study, steps: Sequence[Step]) -> None:
    """Refuse, before any work, a folder that holds something else, or files of somebody else."""
    folder, record = study.folder, study.folder / PROVENANCE
    tops = [folder / name for name in top_files(study)]
    pairs = [(step, scan) for scan in study.scans for step in steps]
    results = (p for step, scan in pairs for p in (*step.records(scan), *step.outputs(scan)))
    folders = {path.parent for path in results}  # a result that is a link may be kept
    refuse_links(study.within or folder, [folder, record, *tops, *folders])
    if not study.partial and kind_in(record) == StudyRecord.kind:
        StudyRecord.read(record)  # not if it is damaged
    before = record_in(folder)
    if not study.options.force:
        _refuse_foreign_folder(study, before)
    ours = {os.path.realpath(path) for path in (record, *tops)}
    for source in (study.table, study.given):
        if source is not None and os.path.realpath(source) in ours:
            raise FileError(source, "lies where the study writes a file of that name", ELSEWHERE)
    if not study.partial:
        refuse_others(record, tops, force=study.options.force)
    if before is not None and not study.options.force:
        if not study.partial:
            _refuse_other_scans(study)
        if not study.only_fits:
            _refuse_other_settings(study, before)
    _refuse_inputs_inside(study)
    known = before.outputs if before is not None else {}
    begun = before is not None or study.dataset  # so that records may be those of a killed run
    foreign = [record] if before is None and not study.partial and record.exists() else []
    for step, scan in pairs:
        there = [record for record in step.records(scan) if os.path.lexists(record)]
        others = [one for one in there if one.relative_to(folder).as_posix() not in known]
        foreign += [path for path in others if not begun or kind_in(path) is None]
        if not there:
            foreign += [path for path in step.outputs(scan) if os.path.lexists(path)]
    for path in foreign:
        raise FileError(path, "exists, and was not written by ndflow", ELSEWHERE)


def top_files(study: Study) -> list[str]:
    """Return the files that a run writes at the top of the folder, but its record."""
    if study.preparing is not None:
        return [STUDY, ALIGNED, MEASURES]
    kinds = ("reference", "map")
    sites = [reference_name(site, kind) for site in study.site_counts for kind in kinds]
    return [SCANS, reference_name(None), *sites]


def _refuse_foreign_folder(study: Study, before: StudyRecord | None) -> None:
    folder = study.folder
    if before is not None:
        wanted = study.channels if study.preparing is None else ()
        if before.channels != wanted:
            names = ["+".join(some) for some in (before.channels, wanted)]
            held, asked = (f"a study of {name!r}" if name else "a preparation" for name in names)
            raise FileError(folder, f"holds {held}, not {asked}", _ANOTHER)
        return
    if not folder.is_dir() or kind_in(folder / PROVENANCE) == StudyRecord.kind:  # or damaged
        return
    # Densities of participants may be there before there is a study; other runs may start, too.
    if study.dataset and (folder / DESCRIPTION).exists() and not (folder / PROVENANCE).exists():
        return
    for path in folder.iterdir():
        prepared = path.name == PREPARED and kind_in(path / PROVENANCE) == StudyRecord.kind
        if not path.name.startswith(".ndflow-") and not prepared:
            raise FileError(folder, "not empty, and not the result of such a study", _ANOTHER)


def _refuse_other_scans(study: Study) -> None:
    """Refuse a folder with results of other scans, which were brought to another reference."""
    names = {scan.name for scan in study.scans}
    table = study.folder / (SCANS if study.preparing is None else MEASURES)
    columns, lines = read_delimited(table) if table.exists() else ([], [])
    others = []
    for _, cells in lines:
        row = dict(zip(columns, cells, strict=True))
        name = row.get("scan") or row.get("name", "")
        files = row.get("output") or row.get("image", ""), row.get("sidecar"), f"models/{name}.json"
        if name not in names and any(os.path.lexists(study.folder / one) for one in files if one):
            others.append(name)
    if others:
        count = plural(len({*others}), "scan")
        cause = f"holds {count} not listed in this study, such as {others[0]}"
        raise FileError(study.folder, cause, "choose another folder, or --force to mix them")


def _refuse_other_settings(study: Study, before: StudyRecord) -> None:
    """Refuse a finished study with other settings, whose results would be replaced."""
    now = {**study.settings, "reference": study.given, "mask": study.unmasked}
    was = {**before.settings, "reference": before.reference, "mask": before.mask}
    unsaid = {"max_bytes"} if before.mask and study.unmasked else {"max_bytes", "mask"}
    if study.choices is not None and before.preset is not None:
        # What a preset decides may change with the scans; what the user chose may not.
        unsaid |= {*GOVERNED} - {*study.choices.options, *before.preset.chosen}
    pairs = [(name, _shown(was[name]), _shown(now[name])) for name in now if name in was]
    changed = [f"{n} {old}, now {new}" for n, old, new in pairs if old != new and n not in unsaid]
    if changed and before.finished:
        held = f"a finished study of {plural(before.scans, 'scan')}"
        cause = f"holds {held} with other settings ({'; '.join(changed)})"
        hint = "--force to replace its results, or choose another folder to keep both"
        raise FileError(study.folder, cause, hint)


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _refuse_inputs_inside(study: Study) -> None:
    """Refuse a folder for the results that the scans themselves lie in."""
    inside = os.path.join(os.path.realpath(study.folder), "")  # noqa: PTH118
    for scan in study.scans if study.raw is None else study.raw.scans:
        for path in all_files(scan.files(tissues=True)):
            if os.path.realpath(path).startswith(inside):
                cause = f"lies in the folder for the results ({scan.origin})"
                raise FileError(path, cause, "choose another folder for the results")


def remove_results(step: Step, scans: Iterable[Subject], failures: Sequence[Failure]) -> None:
    """Remove what an earlier run made of scans that failed now, unless somebody has changed it."""
    failed = {failure.scan for failure in failures}
    for scan in (scan for scan in scans if scan.name in failed):
        own = {path.absolute() for path in step.outputs(scan)}
        for record in step.records(scan):
            with suppress(OSError, FileError):
                files = outputs_of(record, read_model(record, sealed=True).payload)
                if not (record.is_symlink() or not_ours(record, files)):  # nor if it is damaged
                    for path in (*(own & {*files}), record):  # that at last
                        path.unlink(missing_ok=True)


def remove_unchanged(folder: Path, names: Iterable[str]) -> None:
    """Remove files at the top of a folder that ndflow wrote, unless somebody has changed them."""
    for path in (folder / name for name in names):
        with suppress(OSError):
            if not not_ours(folder / PROVENANCE, [path]):
                path.unlink(missing_ok=True)


# ── a finished study ──────────────────────────────────────────────────────────────────────────────


class Finding(NamedTuple):
    """A file that is not as it should be.

    Attributes
    ----------
    problem : what is wrong with it.
    path : the file.
    cause : the same in words.
    """

    problem: Problem
    path: str
    cause: str


@dataclass(frozen=True)
class Verification:
    """What became of the files of a study.

    Attributes
    ----------
    scans : how many there are.
    files : how many files were looked at.
    findings : those that are not as they should be.
    """

    scans: int
    files: int
    findings: tuple[Finding, ...]


def verify(out: AnyPath, *, jobs: int = 1, progress: Progress | None = None) -> Verification:
    """Check that every file that a study read or wrote is still as it was.

    Parameters
    ----------
    out : the folder of a finished study or preparation.
    jobs : how many records to check at a time, each by a process of its own; -1 for one per core.
    progress : follows how far it has come. Default: nothing.

    Returns
    -------
    Verification
        How many files were checked, and those that are missing, changed or foreign.

    Raises
    ------
    FileError
        Where there is no finished study, or another run is at work there.

    Examples
    --------
    >>> import ndflow
    >>> ndflow.verify("study").findings  # doctest: +SKIP
    ()
    """
    folder, follow = Path(out).absolute(), progress or Silent()
    record = read_record(Path(out))
    with reading([folder]):
        names = _moved_inputs(folder, record)
        tasks = [
            Task(str(path), {"record": path, "inputs": names.get(path, {})})
            for path in _records(folder)
        ]
        files: set[str] = set()
        found: dict[str, Finding] = {}
        follow.begin("verify", len(tasks))
        with closing(run_tasks(_check_record, tasks, jobs=jobs)) as outcomes:
            for outcome in outcomes:
                follow.step("verify", outcome)
                seen, wrong = outcome.result or ({outcome.scan}, [])
                if outcome.failure is not None:
                    cause = outcome.failure.cause.removeprefix(f"{outcome.scan}: ")
                    wrong = [Finding("changed", outcome.scan, cause)]
                files |= seen
                found = {one.path: one for one in wrong} | found
        for path in sorted(folder.rglob("*")):
            hidden = any(part.startswith(".ndflow-") for part in path.relative_to(folder).parts)
            known = str(path) in files or path.name in DATASET_FILES
            if path.is_file() and not known and not hidden:
                found.setdefault(str(path), Finding("foreign", str(path), "listed in no record"))
    return Verification(record.scans, len(files), tuple(found.values()))


def _records(folder: Path) -> list[Path]:
    """Return the records in a folder: those of runs, and all that these list."""
    roots = [*folder.rglob(PROVENANCE), *folder.rglob(EVALUATION_RECORD)]
    listed = [path for root in roots for path in outputs_in(root) if path.suffix == ".json"]
    return [*dict.fromkeys((*roots, *(path for path in listed if path.exists())))]


def read_record(folder: Path) -> StudyRecord:
    """Read the record of a finished study or preparation."""
    if kind_in(folder / PROVENANCE) == StudiesRecord.kind:
        inside = StudiesRecord.read(folder / PROVENANCE).channels
        cause = f"holds a study of each channel: {', '.join(inside)}"
        hint = f"give one of them, such as {folder / inside[0]}" if inside else "run it again"
        raise FileError(folder, cause, hint)
    if not (folder / PROVENANCE).exists():
        hint = "give the OUT of 'ndflow cohort' or 'ndflow bids'"
        raise FileError(folder, "holds no study", hint)
    record = StudyRecord.read(folder / PROVENANCE)
    if not record.finished:
        cause = "holds a run that was stopped"
        raise FileError(folder, cause, "run the same command again to finish it")
    return record


def _moved_inputs(folder: Path, record: StudyRecord) -> dict[Path, Mapping[str, Sequence[str]]]:
    """Return the inputs of each sidecar as the list of scans names them: it moves with them."""
    scans: list[Subject] = []
    if not record.is_preparation:
        with suppress(FileError):
            scans = read_study_scans(folder / SCANS, record.channels)
    pairs = [(output, scan) for scan in scans for output in scan.outputs.values()]
    return {folder / output.sidecar: scan.files(tissues=True) for output, scan in pairs}


def _check_record(
    record: Path, inputs: Mapping[str, Sequence[str]]
) -> tuple[set[str], list[Finding]]:
    """Hash again all that a record lists."""
    payload = read_model(record, sealed=True).payload
    listed = {path: sha256 for path, sha256 in outputs_of(record, payload).items() if sha256}
    given = payload.get("inputs") or {}
    for what, files in given.items() if isinstance(given, dict) else [("reference", given)]:
        known = [file for file in files if isinstance(file, dict) and "file" in file]
        names = inputs.get(what) or [file["file"] for file in known]
        for name, file in zip(names, known, strict=False):
            listed[builtin_file(name) if is_builtin(name) else Path(name)] = file["sha256"]
    if isinstance(table := payload.get("table"), dict):
        listed[Path(table["file"])] = table["sha256"]
    found = [Finding(problem, str(path), cause) for problem, path, cause in altered(listed)]
    return {str(record), *map(str, listed)}, found
