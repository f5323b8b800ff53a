"""Model files: JSON with a format name, a format version and the kind of model.

``{"format": "ndflow", "version": 2, "kind": "mixture", "ndflow": "0.2.0", …}``, where the rest is
the model. Files may come from other hospitals, so nothing in them is taken on trust: they are read
as data, never run, and refused unless they are exactly what JSON and this format allow. Every text
file that a user gives us is read here (`read_text`), so that one that is too large, binary or in
another encoding is refused with the same message everywhere.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from ndflow._version import __version__
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath, check_new
from ndflow.files.fingerprints import FileHash, is_intact
from ndflow.files.stream import open_file

FORMAT, VERSION = "ndflow", 2
RIGHT_FILE = "check that it is the right file"

_MAX_BYTES = 64 << 20
_MAX_DEPTH = 64
_ENVELOPE = ("format", "version", "kind", "ndflow")


def check_new_model(
    path: AnyPath,
    *,
    force: bool = False,
    inputs: Iterable[AnyPath] = (),
    may_be_damaged: bool = True,
) -> None:
    """Raise a FileError if a model may not be written to a file.

    Even with `force`, JSON that we did not write is never replaced: beside an image it may be the
    sidecar that records its acquisition.

    Parameters
    ----------
    path : the file to write.
    force : whether an existing file may be replaced.
    inputs : files that must not be replaced, even with `force`.
    may_be_damaged : whether a file that is not JSON may be one of ours that was damaged, and so be
        replaced; an empty one may in any case.
    """
    place = check_new(path, force=force, inputs=inputs)
    data = _peek(place) if place.exists() and place.stat().st_size else {}
    ours = may_be_damaged if data is None else not data or data.get("format") == FORMAT
    if not ours:
        raise FileError(path, "exists, and was not written by ndflow", "choose another name")


def check_model(path: AnyPath, inputs: Sequence[AnyPath] = (), *, force: bool = False) -> None:
    """Say now why a model may not be written, for the files that it is made from."""
    if not is_model(path):
        raise FileError(path, "a model is written as JSON", "let its name end with .json")
    check_new_model(path, force=force, inputs=inputs, may_be_damaged=False)


def is_model(source: object) -> TypeGuard[AnyPath]:
    """Tell whether something is the path of a model, by its name."""
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".json"


def kind_in(path: AnyPath) -> str | None:
    """Return the kind of a model file; None if there is no such file, or it is not ours."""
    try:
        data = _peek(path)
    except FileError:
        return None
    kind = data.get("kind") if data and data.get("format") == FORMAT else None
    return kind if isinstance(kind, str) else None


def _peek(path: AnyPath) -> dict[str, Any] | None:
    """Return what is in a file, if it is a JSON object of whatever kind."""
    with open_file(path) as file:
        try:
            data = json.loads(file.read(_MAX_BYTES))
        except (ValueError, RecursionError):
            return None
    return data if isinstance(data, dict) else None


def model_bytes(kind: str, payload: Mapping[str, Any]) -> bytes:
    """Return the content of a model file; NaN and infinity are refused."""
    envelope = {"format": FORMAT, "version": VERSION, "kind": kind, "ndflow": __version__}
    if taken := sorted(payload.keys() & envelope):
        raise InvalidValueError(f"payload must not use the names {', '.join(taken)}")
    try:
        text = _written({**envelope, **payload})
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


def read_model(path: AnyPath, *kinds: str) -> ModelFile:
    """Read a model file, and check that it is as it was written.

    Parameters
    ----------
    path : the file.
    kinds : the kinds that are accepted; by default all of them.

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
    if not is_intact(payload):
        cause = "damaged or edited: its content is not what its checksum says"
        raise FileError(path, cause, "make it again, or restore it from a copy")
    file = FileHash(os.fspath(path), hashlib.sha256(content).hexdigest())
    return ModelFile(kind, payload, file)


def _parsed(path: AnyPath, text: str) -> Any:
    try:
        data = json.loads(
            text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_unique
        )
        too_deep = _depth(data) > _MAX_DEPTH
    except RecursionError:
        too_deep = True
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise FileError(path, f"not JSON ({where})", RIGHT_FILE) from None
    except ValueError as error:
        raise FileError(path, f"not a model of ndflow: {error}", "the file is damaged") from None
    if too_deep:
        raise FileError(path, f"nested more than {_MAX_DEPTH} levels deep", RIGHT_FILE)
    return data


def _depth(item: Any) -> int:
    """Return how many lists and objects lie around the innermost part of what JSON holds."""
    if not isinstance(item, list | dict):
        return 0
    parts = item.values() if isinstance(item, dict) else item
    return 1 + max(map(_depth, parts), default=0)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"it holds {digits[:20]}, which is no finite double")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, part in pairs:
        if name in data:
            raise ValueError(f"it holds {name[:40]!r} twice")
        data[name] = part
    return data


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
