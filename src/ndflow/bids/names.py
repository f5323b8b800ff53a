"""What the names of files and folders in a BIDS dataset say."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ndflow.errors import InvalidValueError

__all__ = [
    "IMAGES",
    "VALIDATOR",
    "Entities",
    "check_label",
    "entities_of",
    "is_labelled",
    "labels_of",
    "natural",
    "suffix_of",
    "without_desc",
]

IMAGES = (".nii", ".nii.gz")
VALIDATOR = "the BIDS validator says more: bids-validator-deno"

Entities = dict[str, str]

_LABEL = re.compile(r"[0-9A-Za-z+]+")
_ENTITY = re.compile(rf"([0-9A-Za-z]+)-({_LABEL.pattern})")
_NUMBER = re.compile(r"([0-9]+)")


def entities_of(name: str) -> Entities | None:
    """Return what a name says before its suffix; None where that is not made of pairs."""
    pairs = [_ENTITY.fullmatch(part) for part in name.partition(".")[0].split("_")[:-1]]
    entities = {pair[1]: pair[2] for pair in pairs if pair}
    return entities if len(entities) == len(pairs) and "sub" in entities else None


def without_desc(entities: Entities) -> Entities:
    """Return what is said about the scan itself, not about what was done to it."""
    return {key: label for key, label in entities.items() if key != "desc"}


def suffix_of(name: str) -> str:
    """Return of what kind a file is, by its name."""
    return name.partition(".")[0].rpartition("_")[2]


def is_labelled(name: str, prefix: str) -> bool:
    """Tell whether a folder is that of a subject (``sub-``) or of a session (``ses-``)."""
    return name.startswith(prefix) and _LABEL.fullmatch(name, len(prefix)) is not None


def labels_of(what: str, prefix: str, given: Iterable[str]) -> set[str]:
    """Return labels without their prefix; `what` they label, in messages."""
    return {check_label(what, label.removeprefix(prefix)) for label in given}


def check_label(what: str, label: str) -> str:
    """Return a label, unless it could be a path, or anything else that BIDS does not allow."""
    if not _LABEL.fullmatch(label):
        raise InvalidValueError(f"{what} must be letters and digits only, not {label!r}")
    return label


def natural(text: str) -> tuple[list[str | int], str]:
    """Return what to sort by where 2 comes before 10."""
    parts = enumerate(_NUMBER.split(text))
    return [int(part) if count % 2 else part for count, part in parts], text
