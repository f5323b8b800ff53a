"""Masks that are to be found in the image itself, and the words for them.

``auto`` is the foreground: the head, or the brain where all else was removed (`image.foreground`).
``brain`` is the brain in a T1w image (`preparation.brain_mask`). The header of a file that holds
such a mask says so, because it is wider than those of other tools (`image.mask_doubts`).
"""

from __future__ import annotations

from typing import Any, Literal, TypeGuard, get_args

from ndflow.errors import InvalidValueError

__all__ = [
    "AUTO",
    "BRAIN",
    "FoundMask",
    "Unmasked",
    "found_for",
    "holds_found_brain",
    "mark_found_brain",
    "to_be_found",
]

FoundMask = Literal["auto", "brain"]
Unmasked = Literal["brain", "auto", "nonzero"]  # for scans without a mask

AUTO: FoundMask = "auto"
BRAIN: FoundMask = "brain"

_MARK = "ndflow brain mask"  # in the header, which has room for 79 characters


def to_be_found(mask: object) -> TypeGuard[FoundMask]:
    """Tell whether a mask is to be found in the image.

    >>> to_be_found("brain"), to_be_found("brain.nii.gz"), to_be_found(None)
    (True, False, False)
    """
    return isinstance(mask, str) and mask in get_args(FoundMask)


def found_for(unmasked: str | None) -> FoundMask | None:
    """Return the mask of scans without one; None for all voxels but 0.

    >>> found_for("brain"), found_for("nonzero"), found_for(None)
    ('brain', None, None)
    """
    if unmasked in (None, "nonzero"):
        return None
    if not to_be_found(unmasked):
        words = ", ".join(get_args(Unmasked))
        raise InvalidValueError(
            f"mask of scans without one must be one of {words}, not {unmasked!r}"
        )
    return unmasked


def mark_found_brain(header: Any, version: str) -> None:
    """Write into a NIfTI header that the image is a mask of the brain that deepbet found.

    Parameters
    ----------
    header : to be changed.
    version : of deepbet.
    """
    header["descrip"] = f"{_MARK}, deepbet {version}"[:79]
    header["intent_code"], header["intent_name"], header["aux_file"] = 0, b"", b""


def holds_found_brain(header: Any) -> bool:
    """Tell whether a header says that the image is a mask of the brain that deepbet found."""
    if "descrip" not in header.keys():  # noqa: SIM118 - a header is no dictionary
        return False
    return bytes(header["descrip"].tobytes()).startswith(_MARK.encode())
