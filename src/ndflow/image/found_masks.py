"""Masks that are to be found in the image itself, and the words for them.

``auto`` is the foreground: the head, or the brain where all else was removed (`image.foreground`).
``brain`` is the brain in a T1w image (`preparation.brain_mask`).
"""

from __future__ import annotations

from typing import Literal, TypeGuard, get_args

from ndflow.errors import InvalidValueError

__all__ = ["AUTO", "BRAIN", "FoundMask", "Unmasked", "found_for", "to_be_found"]

FoundMask = Literal["auto", "brain"]
Unmasked = Literal["none", "auto", "brain"]  # for scans without a mask; none: all voxels but 0

AUTO: FoundMask = "auto"
BRAIN: FoundMask = "brain"


def to_be_found(mask: object) -> TypeGuard[FoundMask]:
    """Tell whether a mask is to be found in the image.

    >>> to_be_found("brain"), to_be_found("brain.nii.gz"), to_be_found(None)
    (True, False, False)
    """
    return isinstance(mask, str) and mask in get_args(FoundMask)


def found_for(unmasked: str | None) -> FoundMask | None:
    """Return the mask of scans without one; None for all voxels but 0.

    >>> found_for("brain"), found_for("none"), found_for(None)
    ('brain', None, None)
    """
    if unmasked in (None, "none"):
        return None
    if not to_be_found(unmasked):
        words = ", ".join(get_args(Unmasked))
        raise InvalidValueError(
            f"mask of scans without one must be one of {words}, not {unmasked!r}"
        )
    return unmasked
