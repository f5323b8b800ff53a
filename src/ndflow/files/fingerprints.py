"""Fingerprints tell whether a result has to be made again; checksums, whether a file is damaged.

The fingerprint of a result is the hash of everything that it depends on: the contents of its input
files, not their dates or names; the settings; the version of the program. It is kept in the record
of the result. A run that finds the fingerprint it would write itself leaves the result as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ndflow._version import __version__

__all__ = ["fingerprint_of", "is_intact", "with_checksum"]

_UNSEALED = ("checksum", "command")


def fingerprint_of(**parts: Any) -> str:
    """Return one hash for everything that a result depends on, as JSON can hold it."""
    text = json.dumps({"ndflow": __version__, **parts}, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def with_checksum(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file together with a hash of it.

    The command that the user typed is left out, so that one result has one hash however it was
    asked for.
    """
    content = {name: part for name, part in payload.items() if name not in _UNSEALED}
    text = json.dumps(content, sort_keys=True, default=repr)
    return {**payload, "checksum": hashlib.sha256(text.encode()).hexdigest()}


def is_intact(payload: Mapping[str, Any]) -> bool:
    """Tell whether the content of a file is what its checksum says."""
    return bool(payload.get("checksum") == with_checksum(payload)["checksum"])
