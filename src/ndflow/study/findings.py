"""Findings: files of a study or a preparation that are not as they should be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import FileHash
from ndflow.files.stream import sha256_of

__all__ = ["Checked", "Finding", "broken", "compared", "foreign"]


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
