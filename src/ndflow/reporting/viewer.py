"""NiiVue, the volume viewer, as nilearn ships it; ndflow has no copy of its own."""

from __future__ import annotations

import base64
import gzip
from importlib.resources import files

__all__ = ["niivue", "packed"]


def niivue() -> str | None:
    """Return NiiVue's bundle as nilearn installed it, or None if it is not there."""
    try:
        bundle = files("nilearn").joinpath("_assets", "js", "niivue.umd.js")
        return bundle.read_text(encoding="utf-8")
    except (ImportError, OSError):
        return None


def packed(text: str) -> str:
    """Return a text gzipped and base64-encoded, reproducibly."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")
