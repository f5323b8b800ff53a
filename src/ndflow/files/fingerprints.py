"""Fingerprints tell whether a result has to be made again.

The fingerprint of a result is the hash of everything that it depends on: the contents of its input
files, not their dates or names; the settings; the generation of results, a number that rises when
a new version of the program computes anything differently. It is kept in the record of the result.
A run that finds the fingerprint it would write itself leaves the result as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ndflow._version import RESULTS
from ndflow.files.atomic import AnyPath
from ndflow.files.stream import sha256_of
from ndflow.values import Record


@dataclass(frozen=True)
class FileHash(Record):
    """A file that was read, and the SHA-256 of what was read from it."""

    file: str
    sha256: str


Files = Mapping[str, Sequence[str]]  # the files of a scan, by what they are
Hashes = dict[str, tuple[FileHash, ...]]  # the same, once they are read


def contents(hashed: Hashes) -> dict[str, tuple[str, ...]]:
    """Return what the files hold, by what they are and not by what they are called."""
    return {what: tuple(file.sha256 for file in files) for what, files in hashed.items()}


def hashes(inputs: Files) -> Hashes:
    """Return the SHA-256 of every file as it is now; what was read knows its own hashes."""
    return {
        what: tuple(FileHash(name, sha256_of(name)) for name in names)
        for what, names in inputs.items()
        if names
    }


def names_of(hashed: Hashes) -> dict[str, tuple[str, ...]]:
    """Return the names of files that were read."""
    return {what: tuple(file.file for file in files) for what, files in hashed.items()}


def all_files(inputs: Files) -> list[str]:
    """Return the files that were read, whatever they are."""
    return [name for names in inputs.values() for name in names]


def fingerprint_of(**parts: Any) -> str:
    """Return one hash for everything that a result depends on, as JSON can hold it."""
    text = json.dumps({"results": RESULTS, **parts}, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def identity_of(path: AnyPath) -> Hashable:
    """Return what all names of a file have in common: other paths to it, and links of any kind.

    It reads nothing. Of a file that does not exist, or was not fetched, only the path is known.
    """
    try:
        found = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return os.path.abspath(path)  # noqa: PTH100
    return (found.st_dev, found.st_ino) if found.st_ino else os.path.realpath(path)
