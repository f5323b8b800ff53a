"""Whether a finished study is still what it was: all that it read and wrote is hashed again.

Three things can be wrong with a file: it is *missing*; it is *changed*, so that it is not what the
study read or wrote; or it is *foreign*, so that the study knows nothing about it. The report, which
can be made again, and lists for people, such as ``failures.tsv``, are not hashed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath, reading
from ndflow.files.fingerprints import FileHash
from ndflow.files.model_files import kind_in
from ndflow.image.subject import Subject
from ndflow.study.bids_derivative import DATASET_FILES
from ndflow.study.finished import read_finished, read_joint_record, results_fingerprint
from ndflow.study.folder import EVALUATION, EVALUATION_RECORD, PROVENANCE, REPORT, SCANS
from ndflow.study.integrity import (
    Checked,
    Finding,
    broken,
    check_scans,
    compared,
    foreign,
)
from ndflow.study.joint_plan import JointStudyRecord
from ndflow.study.plan import PREPARED, Preparation, PreparedPaths, Study
from ndflow.study.prepare_copies import CopyPaths, check_copy, copy_paths
from ndflow.study.prepare_folder import STUDY
from ndflow.study.prepare_records import PreparationRecord, PreparedRecord
from ndflow.study.table import read_scans, read_study_scans
from ndflow.study.tasks import FAILURES, Progress, Silent, Task, read_failures
from ndflow.subject.outputs import sidecar_of
from ndflow.subject.records import (
    EvaluationRecord,
    JointMapRecord,
    MapRecord,
    StudyRecord,
)
from ndflow.subject.target import builtin_file, is_builtin

# ── preparations ──────────────────────────────────────────────────────────────────────────────────


class CheckedFolder(NamedTuple):
    """How many prepared scans there are, which files were checked, and what is wrong with them."""

    scans: int
    files: list[str]
    findings: list[Finding]


def is_preparation(folder: Path) -> bool:
    """Tell whether a folder is that of a preparation."""
    return kind_in(folder / PROVENANCE) == PreparedRecord.kind


def verify_preparation(folder: Path, jobs: int, follow: Progress) -> CheckedFolder:
    """Hash again all that was read and written.

    Parameters
    ----------
    folder : of the preparation.
    jobs : how many scans at a time.
    follow : follows how far the work has come.

    Raises
    ------
    FileError
        Where the preparation was not finished, or none of its scans is left.
    """
    with reading([folder]):
        record = PreparedRecord.read(folder / PROVENANCE)
        if not record.finished or not record.files:
            cause = "holds a preparation that was stopped"
            raise FileError(folder, cause, "run the same command again to finish it")
        scans, found = _prepared_scans(folder, record)
        plan = Preparation(folder, scans)
        copies = _copies(plan, record)
        tasks = [
            Task(one.name, {"paths": plan.paths(one), "copy": copies.get(one.name)}, one.origin)
            for one in plan.scans
        ]
        written = [FileHash(str(folder / name), sha256) for name, sha256 in record.files.items()]
        files = [str(folder / PROVENANCE), *(file.file for file in written)]
        told = {one.path for one in found}
        differ = compared(written, "not what the preparation wrote")
        found += [one for one in differ if one.path not in told]
        checked = check_scans(_check_prepared, tasks, jobs, follow)
        files, found = [*files, *checked.files], [*found, *checked.findings]
        ours = (PROVENANCE, FAILURES, REPORT, *DATASET_FILES, *record.files)
        known = {folder / name for name in ours}
        known |= {path for scan in plan.scans for path in plan.paths(scan)}
        known |= {path for copy in copies.values() for path in copy}
        found += foreign(folder, known, "preparation")
    return CheckedFolder(len(tasks), files, found)


def _prepared_scans(folder: Path, record: PreparedRecord) -> tuple[list[Subject], list[Finding]]:
    """Return the scans that the table of a preparation lists, and what is wrong with it.

    If it cannot be read, those of the record are returned that have sidecars.
    """
    table = folder / STUDY
    found: list[Finding] = []
    try:
        listed = [Path(scan.path) for scan in read_scans(table)]
    except FileError as error:
        if not record.prepared:  # all have failed
            return [], []
        found.append(broken(table, error))
        known = [folder.absolute() / name for name in record.outputs]
        listed = [path for path in known if sidecar_of(path).exists()]
    names: list[str] = []
    for path in listed:
        try:
            names.append(_absolute(path).relative_to(_absolute(folder)).as_posix())
        except ValueError:
            cause = f"lists {_absolute(path)}, which is not in this folder"
            found.append(Finding("changed", str(table), cause))
    scans = [
        Subject(str(folder / name), name=name, output=name, sidecar=str(sidecar_of(name)))
        for name in names
    ]
    return scans, found


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 (without "..", and links as they are)


def _copies(plan: Preparation, record: PreparedRecord) -> dict[str, CopyPaths]:
    """Return where the aligned copies of scans are, by their names, if they were asked for."""
    resolution = record.settings.get("resolution")
    if not isinstance(resolution, float):
        return {}
    return {scan.name: copy_paths(plan.paths(scan).image, resolution) for scan in plan.scans}


def _check_prepared(paths: PreparedPaths, copy: CopyPaths | None) -> Checked:
    own = _check_own(paths)
    if copy is None:
        return own
    more = check_copy(copy)
    return own._replace(files=own.files + more.files, findings=own.findings + more.findings)


def _check_own(paths: PreparedPaths) -> Checked:
    try:
        record = PreparationRecord.read(paths.sidecar)
    except FileError as error:
        return Checked([str(paths.sidecar)], [broken(paths.sidecar, error)])
    named = paths.named(record.outputs)
    written = [FileHash(str(path), record.outputs[what]) for what, path in named.items()]
    found = [*compared(written, "not what the preparation wrote")]
    read = [file for files in record.inputs.values() for file in files]
    found += compared(read, "not what the preparation read")
    return Checked([str(paths.sidecar), *(file.file for file in (*written, *read))], found)


# ── studies ───────────────────────────────────────────────────────────────────────────────────────

_LISTS = (PROVENANCE, SCANS, FAILURES, REPORT, *DATASET_FILES)  # which are not hashed


@dataclass(frozen=True)
class Verification:
    """What became of the files of a study.

    Attributes
    ----------
    scans : how many scans it has.
    files : how many files were checked.
    findings : those that are not as they should be.
    """

    scans: int
    files: int
    findings: tuple[Finding, ...]


def verify(out: AnyPath, *, jobs: int = 1, progress: Progress | None = None) -> Verification:
    """Check that every file that a study read or wrote is still as it was.

    Parameters
    ----------
    out : the folder of the study, or of a preparation.
    jobs : how many scans at a time, each in a process of its own; -1 for one per core.
    progress : follows how far the work has come.

    Returns
    -------
    Verification
        How many files were checked, and which are missing, changed or foreign.

    Raises
    ------
    FileError
        Where the folder holds no finished study.

    Examples
    --------
    >>> import ndflow
    >>> ndflow.verify("out").findings  # doctest: +SKIP
    ()
    """
    folder = Path(out)
    follow = progress or Silent()
    if is_preparation(folder):
        alone = verify_preparation(folder, jobs, follow)
        return _verification(alone.scans, alone.files, alone.findings)
    if kind_in(folder / PROVENANCE) == JointStudyRecord.kind:
        return _verify_joint(folder, jobs, follow)
    with reading([folder] if (folder / PROVENANCE).exists() else []):
        (run,) = read_finished([folder])
        scans = read_study_scans(folder / SCANS)
        failed = {name for name, _, _ in read_failures(folder)}
        tasks = [
            Task(scan.name, {"scan": scan, "folder": folder, "images": {}})
            for scan in scans
            if scan.name not in failed
        ]
        files, found = _check_study(folder, run.record)
        checked = check_scans(_check_scan, tasks, jobs, follow)
        files, found = [*files, *checked.files], [*found, *checked.findings]
        more, wrong = _check_evaluation(run.study)
        files += more
        found += [*wrong, *_foreign(run.study, run.record, scans)]
    if is_preparation(folder / PREPARED):
        first = verify_preparation(folder / PREPARED, jobs, follow)
        files, found = [*first.files, *files], [*first.findings, *found]
    return _verification(len(scans), files, found)


def _verify_joint(folder: Path, jobs: int, follow: Progress) -> Verification:
    with reading([folder]):
        record = read_joint_record(folder)
        scans = read_study_scans(folder / SCANS)
        failed = {name for name, _, _ in read_failures(folder)}
        count = len(record.channel_names)
        tasks = []
        for subject in (scans[start : start + count] for start in range(0, len(scans), count)):
            made = any((folder / scan.sidecar).exists() for scan in subject)
            if made or failed.isdisjoint({subject[0].name, subject[0].person or ""}):
                images = dict(zip(record.channel_names, subject, strict=False))
                tasks += [
                    Task(scan.name, {"scan": scan, "folder": folder, "images": images})
                    for scan in subject
                ]
        files, found = _check_study(folder, record)
        checked = check_scans(_check_scan, tasks, jobs, follow)
        known = {folder / name for name in (*_LISTS, *record.files)}
        known |= {path for scan in scans for path in _places(folder, scan)}
        found += [*checked.findings, *foreign(folder, known, "study")]
    return _verification(len(scans), [*files, *checked.files], found)


def _verification(scans: int, files: Iterable[str], found: Sequence[Finding]) -> Verification:
    once = {finding.path: finding for finding in reversed(found)}  # one for each file
    return Verification(scans, len({*files}), tuple(once.values())[::-1])


def _places(folder: Path, scan: Subject) -> tuple[Path, Path, Path]:
    """Return where the image, the sidecar and the preview of a scan are."""
    return folder / scan.output, folder / scan.sidecar, folder / "figures" / f"{scan.name}.png"


def _check_scan(scan: Subject, folder: Path, images: Mapping[str, Subject]) -> Checked:
    """Check the image of a scan, and what it was made from; the study knows its other files.

    Parameters
    ----------
    scan, folder : the scan, and the folder of the study.
    images : of all channels of the subject, by name, where they were mapped together.
    """
    image, sidecar, _ = _places(folder, scan)
    files = [str(image), str(sidecar)]
    try:
        record = (JointMapRecord if images else MapRecord).read(sidecar)
    except FileError as error:
        return Checked(files, [broken(sidecar, error)])
    written = [FileHash(str(image), sha256) for sha256 in record.outputs or ()]
    found = [*compared(written, "not what the study wrote")]
    for what, known in (record.inputs or {}).items():
        # The study may have moved together with its scans: names are those of its list.
        own = images[what].files()["image"] if what in images else None
        names = own or scan.files(tissues=True).get(what) or tuple(file.file for file in known)
        files += names
        read = [FileHash(n, file.sha256) for n, file in zip(names, known, strict=False)]
        found += compared(read, f"not the {what} that the study read")
    return Checked(files, found)


def _check_study(folder: Path, record: StudyRecord) -> tuple[list[str], list[Finding]]:
    """Check the files whose hashes the study itself has recorded, and those it was given."""
    written = [FileHash(str(folder / name), sha256) for name, sha256 in record.files.items()]
    given = [
        FileHash(str(builtin_file(one.file)), one.sha256) if is_builtin(one.file) else one
        for one in record.inputs
    ]
    found = [
        *compared(written, "not what the study wrote"),
        *compared(given, "not the reference that the study read"),
    ]
    names = [str(folder / PROVENANCE), *(file.file for file in (*written, *given))]
    return names, found


def _check_evaluation(study: Study) -> tuple[list[str], list[Finding]]:
    folder = study.folder / EVALUATION
    path = folder / EVALUATION_RECORD
    if not path.exists():
        return [], []
    try:
        record = EvaluationRecord.read(path)
    except FileError as error:
        return [str(path)], [broken(path, error)]
    written = [FileHash(str(folder / name), sha256) for name, sha256 in record.sha256.items()]
    found = [*compared(written, "not what the evaluation wrote")]
    if results_fingerprint(study) not in record.results.values():
        found.append(Finding("changed", str(path), "an evaluation of other results"))
    return [str(path), *(file.file for file in written)], found


def _foreign(study: Study, record: StudyRecord, scans: Sequence[Subject]) -> Iterator[Finding]:
    """Yield the files in the folder that the study knows nothing about."""
    folder = study.folder
    known = {folder / name for name in (*_LISTS, *record.files)}
    known |= {path for scan in scans for path in study.paths(scan)}
    known |= _evaluation_files(folder / EVALUATION)
    if is_preparation(folder / PREPARED):  # which is verified by itself
        known |= {*(folder / PREPARED).rglob("*")}
    yield from foreign(folder, known, "study")


def _evaluation_files(folder: Path) -> set[Path]:
    names = [EVALUATION_RECORD, FAILURES]
    try:
        names += EvaluationRecord.read(folder / EVALUATION_RECORD).files
    except FileError:
        return set()
    return {folder / name for name in names}
