"""What the name of an image file says about its format."""

from __future__ import annotations

from pathlib import Path

from ndflow.files.gzip import is_compressed

__all__ = ["IMAGE_KINDS", "kind_of", "pair_names"]

IMAGE_KINDS = (".nii", ".hdr", ".img", ".mgh")


def kind_of(name: str) -> str:
    """Return the extension of a file as if it were not compressed, in small letters."""
    plain = name.lower().removesuffix(".gz")
    return ".mgh" if plain.endswith(".mgz") else Path(plain).suffix


def pair_names(name: str) -> tuple[str, str] | None:
    """Return the header and the data file, both compressed or both not, if it is one of a pair."""
    if kind_of(name) not in (".hdr", ".img"):
        return None
    packed = name[-3:] if is_compressed(name) else ""
    base = name.removesuffix(packed)
    loud = base[-4:].isupper()
    header, data = (base[:-4] + (kind.upper() if loud else kind) for kind in (".hdr", ".img"))
    return header + packed, data + packed
