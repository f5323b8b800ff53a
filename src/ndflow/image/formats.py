"""Image formats by file name."""

from __future__ import annotations

from pathlib import Path

from ndflow.files.gzip import is_compressed

__all__ = ["IMAGE_KINDS", "kind_of", "pair_names"]

IMAGE_KINDS = (".nii", ".hdr", ".img", ".mgh")  # also compressed: .gz, and .mgz for .mgh.gz


def kind_of(name: str) -> str:
    """Return the extension of a file without that of its compression, in lower case.

    >>> kind_of("T1.NII.GZ"), kind_of("T1.mgz")
    ('.nii', '.mgh')
    """
    plain = name.lower().removesuffix(".gz")
    return ".mgh" if plain.endswith(".mgz") else Path(plain).suffix


def pair_names(name: str) -> tuple[str, str] | None:
    """Return the names of header and data if a file is one of such a pair, or None.

    >>> pair_names("T1.img.gz")
    ('T1.hdr.gz', 'T1.img.gz')
    """
    if kind_of(name) not in (".hdr", ".img"):
        return None
    compression = name[-3:] if is_compressed(name) else ""
    base = name.removesuffix(compression)
    upper = base[-4:].isupper()
    header, data = (base[:-4] + (kind.upper() if upper else kind) for kind in (".hdr", ".img"))
    return header + compression, data + compression
