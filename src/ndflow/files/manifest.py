"""Which files are ours: those that a record lists, with the hash of their content.

Each result has a record, a JSON file with ``outputs``: the files that were made with it, by their
paths relative to the record, and the SHA-256 of each. A record is written when its files are
complete, and before they get their names. So whenever a run is killed, every file that has its name
is listed; a file that is not listed, or whose content is another, belongs to somebody else, who may
have edited it, and is never replaced without being asked.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath, new_file, sync
from ndflow.files.model_files import read_model
from ndflow.files.stream import sha256_of


def relative_outputs(record: AnyPath, written: Mapping[Path, str]) -> dict[str, str]:
    """Return files and their hashes as a record lists them: by paths relative to it."""
    folder = Path(record).absolute().parent
    return {
        Path(os.path.relpath(path.absolute(), folder)).as_posix(): sha256
        for path, sha256 in written.items()
    }


def write_pending(
    pending: ExitStack,
    path: Path,
    content: bytes,
    *,
    force: bool = True,
    inputs: Iterable[AnyPath] = (),
) -> str:
    """Write a file that gets its name when `pending` is closed; return its hash.

    It is on the disc at once: when the first of several files has its name, none can fail for want
    of room.
    """
    file = pending.enter_context(new_file(path, force=force, inputs=inputs))
    file.write(content)
    sync(file)
    return hashlib.sha256(content).hexdigest()


def list_outputs(
    pending: ExitStack, record: Path, content: bytes, outputs: Iterable[Path], *, force: bool = True
) -> None:
    """Write a record whose files are complete, but do not have their final names yet.

    Those that an earlier record lists are removed once all is on the disc. Then the record gets its
    name, and after it the files.

    Parameters
    ----------
    pending : gives the files their names when it is closed.
    record, content : where the record goes, and what it says.
    outputs : the files that it lists, and those that an earlier one may have listed.
    force : whether a record that is there already may be replaced.
    """
    earlier = outputs_in(record)
    write_pending(pending, record, content, force=force)  # the last, so named first
    for path in outputs:
        if path.absolute() in earlier:
            Path(os.path.realpath(path)).unlink(missing_ok=True)  # links are kept


def outputs_in(record: Path) -> dict[Path, str]:
    """Return the files that a record lists, and their hashes; none if it cannot be read."""
    try:
        return outputs_of(record, read_model(record).payload)
    except FileError:
        return {}


def outputs_of(record: Path, payload: Mapping[str, Any]) -> dict[Path, str]:
    """Return the files that a record lists, and their hashes, from what its file holds."""
    listed, folder = payload.get("outputs"), record.absolute().parent
    pairs = listed.items() if isinstance(listed, dict) else ()
    return {_beside(folder, name): str(sha256) for name, sha256 in pairs}


def _beside(folder: Path, name: str) -> Path:
    """Return a file by its path relative to a folder, which may itself be a link or have ``..``."""
    for part in Path(name).parts:
        folder = folder.parent if part == ".." else folder / part
    return folder


def not_ours(record: Path, paths: Iterable[Path]) -> list[Path]:
    """Return those of some files that are there, but not as the record lists them."""
    there = [path for path in paths if os.path.lexists(path)]
    listed = outputs_in(record) if there else {}
    return [path for path in there if not _is_listed(path, listed)]


def unlisted(records: Iterable[Path], paths: Iterable[Path]) -> list[Path]:
    """Return those of some files that are there, but that no record lists."""
    listed = {path for record in records for path in outputs_in(record)}
    return [path for path in paths if os.path.lexists(path) and path.absolute() not in listed]


def _is_listed(path: Path, listed: Mapping[Path, str]) -> bool:
    known = listed.get(path.absolute())
    try:
        return known is not None and sha256_of(path) == known
    except FileError:
        return False
