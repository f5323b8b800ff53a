"""Whether a finished study is still what it was: all that it read and wrote is hashed again.

Three things can be wrong with a file: it is *missing*; it is *changed*, so that it is not what the
study read or wrote; or it is *foreign*, so that the study knows nothing about it. The report, which
can be made again, and lists for people, such as ``failures.tsv``, are not hashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ndflow.bids.derivative import DATASET_FILES
from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath, reading
from ndflow.files.fingerprints import FileHash
from ndflow.files.tables import read_delimited
from ndflow.image.subject import Scan
from ndflow.scan.builtin.builtin_references import builtin_file, is_builtin
from ndflow.scan.records import EvaluationRecord, MapRecord, ScanModel, StudyRecord
from ndflow.study.channels.verify_joint import is_joint_study, verify_joint_study
from ndflow.study.findings import Checked, Finding, broken, compared, foreign
from ndflow.study.finished import read_finished, read_joint_record, results_fingerprint
from ndflow.study.folder import (
    EVALUATION,
    EVALUATION_RECORD,
    PROVENANCE,
    REPORT,
    SCANS,
)
from ndflow.study.integrity import refuse_other_model
from ndflow.study.listing.scan_table import read_study_scans
from ndflow.study.parallel.check_scans import check_scans
from ndflow.study.parallel.tasks import FAILURES, Task
from ndflow.study.passes import Progress, Silent
from ndflow.study.plan import ResultPaths, Study
from ndflow.study.preparing.preparation_plan import PREPARED
from ndflow.study.preparing.verify_preparation import is_preparation, verify_preparation

__all__ = ["Finding", "Verification", "verify"]

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
    if is_joint_study(folder):
        with reading([folder]):
            return _verify_joint(folder, jobs, follow)
    with reading([folder] if (folder / PROVENANCE).exists() else []):
        (run,) = read_finished([folder])
        scans = read_study_scans(folder / SCANS)
        failed = _failed(folder)
        done = [scan for scan in scans if scan.name not in failed]
        tasks = [Task(scan.name, {"scan": scan, "paths": run.study.paths(scan)}) for scan in done]
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
    record = read_joint_record(folder)
    own = verify_joint_study(folder, record, jobs, follow)
    files, found = _check_study(folder, record)
    known = {folder / name for name in (*_LISTS, *record.files)} | own.known
    found += [*own.checked.findings, *foreign(folder, known, "study")]
    return _verification(own.images, [*files, *own.checked.files], found)


def _verification(scans: int, files: Iterable[str], found: Sequence[Finding]) -> Verification:
    once = {finding.path: finding for finding in reversed(found)}  # one for each file
    return Verification(scans, len({*files}), tuple(once.values())[::-1])


def _failed(folder: Path) -> set[str]:
    """Return the scans that have no result because they failed."""
    path = folder / FAILURES
    return {cells[0] for _, cells in read_delimited(path).rows} if path.exists() else set()


def _check_scan(scan: Scan, paths: ResultPaths) -> Checked:
    found: list[Finding] = []
    files = [str(path) for path in paths if path != paths.preview or path.exists()]
    try:
        model = ScanModel.read(paths.model)
    except FileError as error:
        model = None
        found.append(broken(paths.model, error))
    try:
        record = MapRecord.read(paths.sidecar)
    except FileError as error:
        return Checked(files, [*found, broken(paths.sidecar, error)])
    if model is not None:
        try:
            refuse_other_model(paths, model, record)
        except FileError as error:
            found.append(Finding("changed", str(paths.model), error.cause))
    written = [FileHash(str(paths.image), sha256) for sha256 in record.outputs or ()]
    found += compared(written, "not what the study wrote")
    for what, known in (record.inputs or {}).items():
        # The study may have moved together with its scans: names are those of its list.
        names = scan.files(tissues=True).get(what) or tuple(file.file for file in known)
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


def _foreign(study: Study, record: StudyRecord, scans: Sequence[Scan]) -> Iterator[Finding]:
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
