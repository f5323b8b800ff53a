"""Whether files are still what they were: checks of single files and scans, and what they find.

The sidecar of a result holds the hashes of the files that were read and written, and the density
that its map was made for. So a file that was replaced, or that belongs to another scan, is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import FileHash, Hashes, contents
from ndflow.files.stream import sha256_of
from ndflow.image.volume import Volume
from ndflow.study.plan import ResultPaths
from ndflow.study.tasks import Progress, Task, run_tasks
from ndflow.subject.records import MapRecord, ScanModel

MAPPED = ("image", "mask")  # the files that the image of a result is made from

_LESION = "lesion"  # the density only is estimated without it
_AGAIN = "run the study again; 'ndflow verify' finds everything that has changed"


class Results(NamedTuple):
    """The model of a scan, and the sidecar of its image."""

    model: ScanModel
    record: MapRecord


def read_results(paths: ResultPaths) -> Results:
    """Read what a study knows about a scan; refuse files that belong to different scans."""
    model, record = ScanModel.read(paths.model), MapRecord.read(paths.sidecar)
    refuse_other_model(paths, model, record)
    return Results(model, record)


def refuse_other_model(paths: ResultPaths, model: ScanModel, record: MapRecord) -> None:
    """Refuse a model that the map of a scan was not made for."""
    known = _mapped(model.sha256 or {})
    read = _mapped(contents(record.inputs or {}))
    if (record.mixture is not None and record.mixture != model.mixture) or (
        known and read and known != read
    ):
        cause = f"not the model that {paths.sidecar} was made with"
        raise FileError(paths.model, cause, _AGAIN)


def refuse_other_inputs(paths: ResultPaths, record: MapRecord, read: Hashes) -> None:
    """Refuse an image, a mask or a lesion mask that is no longer what the study read.

    The lesion mask may be that of another study, where this one had none.
    """
    known, found = contents(record.inputs or {}), contents(read)
    expected, now = _mapped(known), _mapped(found)
    if _LESION in known and _LESION in found:
        expected[_LESION], now[_LESION] = known[_LESION], found[_LESION]
    for what in sorted(now, reverse=True):  # a mask is the likelier one to be changed
        if expected.get(what) != now[what]:
            called = "lesion mask" if what == _LESION else what
            cause = f"not the {called} that {paths.sidecar} was made from"
            raise FileError(read[what][0].file, cause, _AGAIN)
    if missing := sorted(expected.keys() - now.keys()):
        cause = f"was made with a {missing[0]}, which is not known any more"
        raise FileError(paths.sidecar, cause, _AGAIN)


def refuse_other_image(record: MapRecord, image: Volume) -> None:
    """Refuse a normalised image that is not the one that the study wrote."""
    if record.outputs != tuple(file.sha256 for file in image.files):
        raise FileError(image.path, "not the image that the study wrote", _AGAIN)


def _mapped(files: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {what: files[what] for what in MAPPED if files.get(what)}


# ── findings ──────────────────────────────────────────────────────────────────────────────────────


class Finding(NamedTuple):
    """A file that is not as it should be.

    Attributes
    ----------
    problem : ``"missing"``, ``"changed"`` or ``"foreign"``.
    path : the file.
    cause : what is wrong with it, in words.
    """

    problem: Literal["missing", "changed", "foreign"]
    path: str
    cause: str


class Checked(NamedTuple):
    """The files of one or more scans that were checked, and what is wrong with them."""

    files: list[str]
    findings: list[Finding]
    warnings: tuple[str, ...] = ()


def compared(files: Iterable[FileHash], otherwise: str) -> Iterator[Finding]:
    """Yield the files that are gone or hold something else, with the words for the latter."""
    for file in files:
        try:
            if sha256_of(file.file) != file.sha256:
                yield Finding("changed", file.file, otherwise)
        except FileError as error:
            yield broken(file.file, error)


def broken(path: AnyPath, error: FileError) -> Finding:
    """Return the finding about a file that cannot be read."""
    return Finding("changed" if Path(path).exists() else "missing", str(path), error.cause)


def foreign(folder: Path, known: Collection[Path], what: str) -> Iterator[Finding]:
    """Yield the files in a folder that are not known there.

    Parameters
    ----------
    folder : where to look.
    known : the files that belong there.
    what : the folder is of, for the message.
    """
    for path in sorted(folder.rglob("*")):
        ours = any(part.startswith(".ndflow-") for part in path.relative_to(folder).parts)
        if path.is_file() and path not in known and not ours:
            yield Finding("foreign", str(path), f"not a file of this {what}")


# ── many scans ────────────────────────────────────────────────────────────────────────────────────


def check_scans(
    check: Callable[..., Checked], tasks: Sequence[Task], jobs: int, follow: Progress
) -> Checked:
    """Check the files of many scans.

    Parameters
    ----------
    check : checks those of one.
    tasks : one per scan.
    jobs : how many scans at a time.
    follow : follows how far the work has come.
    """
    everything = Checked([], [])
    follow.begin("verify", len(tasks))
    with closing(run_tasks(check, tasks, jobs=jobs)) as outcomes:
        for outcome in outcomes:
            follow.step("verify", outcome)
            if outcome.failure is not None:
                found = Finding("changed", outcome.scan, outcome.failure.cause)
                everything.findings.append(found)
                continue
            everything.files.extend(outcome.result.files)
            everything.findings.extend(outcome.result.findings)
    return everything
