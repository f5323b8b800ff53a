"""What the sidecar of a scan says that holds for images made from it as well."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.model_files import read_text
from ndflow.scan.outputs import sidecar_of

__all__ = ["inherited_metadata"]

_INHERITED = ("SkullStripped", "Resolution", "SpatialReference")  # what results share with scans
_MAX_SIDECAR = 1 << 20


def inherited_metadata(image: AnyPath) -> dict[str, Any]:
    """Return what the sidecar of a scan says that holds for its results as well.

    Numbers that JSON does not have (NaN, which some programs write) count as missing.
    """
    path = sidecar_of(image)
    if not os.path.lexists(path):
        return {}
    try:
        said = json.loads(
            read_text(path, max_bytes=_MAX_SIDECAR), parse_constant=_finite, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise FileError(path, f"not JSON ({error})", "correct it, or remove it") from None
    if not isinstance(said, dict):
        raise FileError(path, "not a sidecar of BIDS: no JSON object", "correct it, or remove it")
    return {name: said[name] for name in _INHERITED if said.get(name) is not None}


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None
