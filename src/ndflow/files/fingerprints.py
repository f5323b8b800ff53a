"""Stamps: by what goes into a result it is known whether it has to be made again.

A stamp is the hash of everything that a result depends on: the contents of its input files, not
their dates or names; the settings; the version of the program. It stands in the record of the
result. A run that finds the stamp it would write itself leaves the result as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ndflow._version import __version__
from ndflow.errors import FileError
from ndflow.files.json_model import read_model

__all__ = ["content_hashes", "fingerprint_of", "read_if_current", "with_checksum"]


def content_hashes(inputs: Mapping[str, Sequence[Mapping[str, str]]]) -> dict[str, list[str]]:
    """Return what files hold, by what they are to a result, and not what they are called."""
    return {what: [file["sha256"] for file in files] for what, files in inputs.items()}


def fingerprint_of(**parts: Any) -> str:
    """Return one hash for all that a result depends on, as JSON can hold it."""
    text = json.dumps({"ndflow": __version__, **parts}, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def with_checksum(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file with a hash by which damage to it is noticed.

    What was typed is not part of it, so that one result has one hash, however it was asked for.
    """
    content = {name: part for name, part in payload.items() if name not in ("seal", "command")}
    text = json.dumps(content, sort_keys=True, default=repr)
    return {**payload, "seal": hashlib.sha256(text.encode()).hexdigest()}


def read_if_current(path: Path, kind: str, wanted: str) -> dict[str, Any] | None:
    """Return the content of a model's file if it has the stamp that is wanted.

    A file that is damaged is as good as none: it will be made again.
    """
    if not path.exists():
        return None
    try:
        _, payload = read_model(path, kind)
    except FileError:
        return None
    intact = payload.get("seal") == with_checksum(payload)["seal"]
    return payload if intact and payload.get("stamp") == wanted else None
