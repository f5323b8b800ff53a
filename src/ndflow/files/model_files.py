"""Model files: JSON with a format name, a format version and the kind of model.

``{"format": "ndflow", "version": 2, "kind": "mixture", "ndflow": "0.2.0", …}``, where the rest is
the model. Files may come from other hospitals, so nothing in them is taken on trust: they are read
as data, never run, and refused unless they are exactly what JSON and this format allow. Every text
file that a user gives us is read here (`read_text`), so that one that is too large, binary or in
another encoding is refused with the same message everywhere.

A model that is the record of a result has ``outputs``: the files that were made with it, by their
paths relative to the record, and the SHA-256 of each. It is written when its files are complete,
and before they get their names. So whenever a run is killed, every file that has its name is
listed; a file that is not listed, or whose content is another, belongs to somebody else, who may
have edited it, and is never replaced without being asked. Nor is a symbolic link.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from ndflow._version import __version__
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath, check_new, new_file, refuse_links, sync
from ndflow.files.stream import FileHash, open_file, sha256_of

FORMAT, VERSION = "ndflow", 2
RIGHT_FILE = "check that it is the right file"
ELSEWHERE = "move it, or choose another folder for the results"

_MAX_BYTES = 64 << 20
_ENVELOPE = ("format", "version", "kind", "ndflow", "checksum")


def check_model(path: AnyPath, inputs: Iterable[AnyPath] = (), *, force: bool = False) -> None:
    """Raise a FileError if a model may not be written to a file; parameters as for `check_new`.

    Even with `force`, a file that we did not write is never replaced, unless it is empty: beside an
    image it may be the sidecar that records its acquisition.
    """
    if not is_model(path):
        raise FileError(path, "a model is written as JSON", "let its name end with .json")
    place = check_new(path, force=force, inputs=inputs)
    if place.exists() and place.stat().st_size and kind_in(place) is None:
        raise FileError(path, "exists, and was not written by ndflow", "choose another name")


def is_model(source: object) -> TypeGuard[AnyPath]:
    """Tell whether something is the path of a model, by its name."""
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".json"


def kind_in(path: AnyPath) -> str | None:
    """Return the kind of a model file; None if there is no such file, or it is not ours."""
    try:
        data = json.loads(read_bounded(path, max_bytes=_MAX_BYTES))
    except (FileError, ValueError, RecursionError):
        return None
    ours = isinstance(data, dict) and data.get("format") == FORMAT
    return str(data.get("kind")) if ours else None


def model_bytes(kind: str, payload: Mapping[str, Any]) -> bytes:
    """Return the content of a model file, with its checksum; NaN and infinity are refused."""
    envelope = {"format": FORMAT, "version": VERSION, "kind": kind, "ndflow": __version__}
    if taken := sorted(payload.keys() & {*_ENVELOPE}):
        raise InvalidValueError(f"payload must not use the names {', '.join(taken)}")
    try:
        text = _written({**envelope, **payload, "checksum": _checksum(payload)})
        # File names may be any bytes; what is not UTF-8 is written with JSON's own escapes.
        return (text + "\n").encode("utf-8", "backslashreplace")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError(f"cannot be written as JSON: {error}") from None


def _written(item: Any, margin: str = "\n") -> str:
    """Return JSON for human readers: one entry per line, but arrays of numbers on one line."""
    if isinstance(item, Mapping):
        ends = "{}"
        parts = [
            f"{_written(str(name))}: {_written(part, margin + ' ')}" for name, part in item.items()
        ]
    elif isinstance(item, list | tuple) and any(isinstance(part, Mapping) for part in item):
        ends, parts = "[]", [_written(part, margin + " ") for part in item]
    else:
        return json.dumps(item, allow_nan=False, ensure_ascii=False)
    inner = f",{margin} ".join(parts)
    return f"{ends[0]}{margin} {inner}{margin}{ends[1]}" if parts else ends


def _checksum(payload: Mapping[str, Any]) -> str:
    """Return a hash of a model.

    The command that the user typed is left out, so that one result has one hash however it was
    asked for.
    """
    content = {name: part for name, part in payload.items() if name != "command"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()


class ModelFile(NamedTuple):
    """What a model file holds.

    Attributes
    ----------
    kind : what kind of model it is.
    payload : the model, as given to `model_bytes`.
    file : the file, and the hash of what was read.
    """

    kind: str
    payload: dict[str, Any]
    file: FileHash


def read_model(path: AnyPath, *kinds: str, sealed: bool = False) -> ModelFile:
    """Read a model file, and check that it is as it was written.

    Parameters
    ----------
    path : the file.
    kinds : the kinds that are accepted; by default all of them.
    sealed : whether it must have a checksum, as all that we write has.

    Raises
    ------
    FileError : if the file cannot be read, is not such a model, or has been changed since.
    """
    content = read_bounded(path, max_bytes=_MAX_BYTES)
    data = _parsed(path, decoded(path, content, hint=RIGHT_FILE))
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FileError(path, "JSON, but not a model of ndflow", RIGHT_FILE)
    version, kind = data.get("version"), data.get("kind")
    if type(version) is not int or version != VERSION:
        cause = f"its format version is {version!r}, but this version of ndflow reads {VERSION}"
        raise FileError(path, cause, "use the version of ndflow that wrote it, or make it again")
    if not isinstance(kind, str) or (kinds and kind not in kinds):
        cause = f"of the kind {kind!r}, where {' or '.join(map(repr, kinds))} is expected"
        raise FileError(path, cause, RIGHT_FILE)
    payload = {name: part for name, part in data.items() if name not in _ENVELOPE}
    if sealed and "checksum" not in data:
        raise FileError(path, "edited: its checksum is missing", "restore it from a copy")
    if "checksum" in data and data["checksum"] != _checksum(payload):
        cause = "damaged or edited: its content is not what its checksum says"
        raise FileError(path, cause, "make it again, or restore it from a copy")
    file = FileHash(os.fspath(path), hashlib.sha256(content).hexdigest())
    return ModelFile(kind, payload, file)


def _parsed(path: AnyPath, text: str) -> Any:
    try:
        return json.loads(
            text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_without_doubles
        )
    except RecursionError:
        raise FileError(path, "nested too deep", RIGHT_FILE) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise FileError(path, f"not JSON ({where})", RIGHT_FILE) from None
    except ValueError as error:
        raise FileError(path, f"not a model of ndflow: {error}", "the file is damaged") from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("one of its objects has the same name twice")
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"it holds {digits[:20]}, which is no finite double")
    return number


# ── the files that a record lists ────────────────────────────────────────────────────────────────


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


def write_listed(
    record: Path,
    files: Mapping[Path, bytes],
    content: Callable[[dict[str, str]], bytes],
    *,
    earlier: Iterable[Path] = (),
    force: bool = False,
) -> None:
    """Write files together with the record that lists them; one that is there already is kept.

    Parameters
    ----------
    record : where the record goes.
    files : what they hold.
    content : gives what the record says, from the hashes of the files as a record lists them.
    earlier : other files, to be removed if the record has listed them until now.
    force : whether files may be replaced that somebody has changed, see `refuse_others`.
    """
    hashed = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    new = {path: data for path, data in files.items() if hash_of(path) != hashed[path]}
    refuse_others(record, files, force=force)
    with ExitStack() as pending:
        for path, data in new.items():
            write_pending(pending, path, data)
        gone = {*new, *earlier} - (files.keys() - new.keys())
        list_outputs(pending, record, content(relative_outputs(record, hashed)), gone)


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
            path.unlink(missing_ok=True)


def outputs_in(record: Path) -> dict[Path, str]:
    """Return the files that a record lists, and their hashes; none if it cannot be read."""
    try:
        return outputs_of(record, read_model(record, sealed=True).payload)
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
    """Return those of some files that are there, but not as the record lists them; and links."""
    there = [path for path in paths if os.path.lexists(path)]
    listed = outputs_in(record) if there else {}
    return [p for p in there if p.is_symlink() or listed.get(p.absolute()) != hash_of(p)]


def refuse_others(record: Path, paths: Iterable[Path], *, force: bool = False) -> None:
    """Refuse to replace a link, and a file that the record does not list.

    One that it lists, but that somebody has changed since, is replaced by force only.
    """
    paths = [*paths]
    refuse_links(record.parent, paths)
    for path in unlisted([record], paths):
        raise FileError(path, "exists, and was not written by ndflow", ELSEWHERE)
    for path in () if force else not_ours(record, paths):
        raise changed_since(path)


def changed_since(path: Path) -> FileError:
    """Return the error of a result that somebody has edited."""
    is_mask = path.parent.name == "masks" or "_mask." in path.name
    keep = "copy it elsewhere" + (" and name it in the table" if is_mask else "")
    hint = f"to keep it, {keep}; --force replaces it"
    return FileError(path, "changed since ndflow wrote it", hint)


def unlisted(records: Iterable[Path], paths: Iterable[Path]) -> list[Path]:
    """Return those of some files that are there, but that no record lists."""
    listed = {path for record in records for path in outputs_in(record)}
    return [path for path in paths if os.path.lexists(path) and path.absolute() not in listed]


def hash_of(path: Path) -> str | None:
    """Return the hash of a file; None if it cannot be read."""
    try:
        return sha256_of(path)
    except FileError:
        return None


# ── text: UTF-8, of bounded size ──────────────────────────────────────────────────────────────────


def read_text(path: AnyPath, *, max_bytes: int, hint: str = "save it as UTF-8") -> str:
    """Read a text file.

    Parameters
    ----------
    path : the file.
    max_bytes : the largest size that is accepted.
    hint : what to try where the file is not UTF-8.

    Returns
    -------
    text : the content, without a byte order mark.

    Raises
    ------
    FileError : if the file cannot be read, is too large, or is not UTF-8.
    """
    return decoded(path, read_bounded(path, max_bytes=max_bytes), hint=hint)


def read_bounded(path: AnyPath, *, max_bytes: int) -> bytes:
    """Return the content of a file as it is; refuse one of more than `max_bytes`."""
    with open_file(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise FileError(path, f"larger than {max_bytes >> 20} MB", RIGHT_FILE)
    return content


def decoded(path: AnyPath, content: bytes, *, hint: str = "save it as UTF-8") -> str:
    """Return the content of a file as text; name the first line that is not UTF-8.

    Parameters as for `read_text`, and the content.
    """
    if b"\0" in content:
        raise FileError(path, "not text in UTF-8, but in UTF-16 or not text at all", hint)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileError(path, f"line {line} is not text in UTF-8", hint) from None
