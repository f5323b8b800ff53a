"""Names of files and folders in a BIDS dataset: entities, suffixes and labels.

In ``sub-01_run-1_T1w.nii.gz``, ``sub-01`` and ``run-1`` are entities (a key and a label), and
``T1w`` is the suffix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ndflow.errors import InvalidValueError

__all__ = [
    "ENTITIES",
    "IMAGES",
    "INDICES",
    "VALIDATOR",
    "Entities",
    "check_label",
    "entities_of",
    "is_labelled",
    "labels_of",
    "natural",
    "pairs_of",
    "suffix_of",
    "without_desc",
]

IMAGES = (".nii", ".nii.gz")
VALIDATOR = "for details, run the BIDS validator: bids-validator-deno"

# The short names of entities, by the names that people use for them: those of BIDS and of pybids.
_LONG = """
subject sub, session ses, sample sample, task task, tracer trc, acquisition acq, ceagent ce,
staining stain, reconstruction rec, direction dir, run run, modality mod, echo echo, flip flip,
inversion inv, mtransfer mt, part part, processing proc, hemisphere hemi, space space,
cohort cohort, split split, recording recording, chunk chunk, segmentation seg, resolution res,
density den, label label, description desc
"""
ENTITIES = dict(pair.split() for pair in _LONG.split(","))
ENTITIES |= {key: key for key in ENTITIES.values()}
INDICES = ("run", "echo", "flip", "inv", "split", "chunk")  # entities whose labels are numbers

Entities = dict[str, str]

_LABEL = re.compile(r"[0-9A-Za-z+]+")
_ENTITY = re.compile(rf"([0-9A-Za-z]+)-({_LABEL.pattern})")
_NUMBER = re.compile(r"([0-9]+)")


def entities_of(name: str) -> Entities | None:
    """Return the entities of a file name, in their order; None if it is not a valid BIDS name.

    >>> entities_of("sub-01_run-1_T1w.nii.gz")
    {'sub': '01', 'run': '1'}
    """
    parts = name.partition(".")[0].split("_")[:-1]
    entities, _ = pairs_of(parts)
    return entities if len(entities) == len(parts) and "sub" in entities else None


def pairs_of(parts: Iterable[str]) -> tuple[Entities, list[str]]:
    """Return the entities among the parts of a name, and the other parts.

    >>> pairs_of(["sub-01", "T1w", "label-lesion"])
    ({'sub': '01', 'label': 'lesion'}, ['T1w'])
    """
    pairs = {part: _ENTITY.fullmatch(part) for part in parts}
    entities = {pair[1]: pair[2] for pair in pairs.values() if pair}
    return entities, [part for part, pair in pairs.items() if pair is None]


def without_desc(entities: Entities) -> Entities:
    """Return entities without ``desc``, which says how an image was processed."""
    return {key: label for key, label in entities.items() if key != "desc"}


def suffix_of(name: str) -> str:
    """Return the suffix of a file name, such as ``T1w``."""
    return name.partition(".")[0].rpartition("_")[2]


def is_labelled(name: str, prefix: str) -> bool:
    """Return whether a name is a prefix, such as ``sub-`` or ``ses-``, and a valid label."""
    return name.startswith(prefix) and _LABEL.fullmatch(name, len(prefix)) is not None


def labels_of(what: str, prefix: str, given: Iterable[str]) -> set[str]:
    """Check labels, which may have a prefix, and return them without it.

    Parameters
    ----------
    what : what they label, for messages.
    prefix : the prefix, such as ``sub-``.
    given : the labels.
    """
    return {check_label(what, label.removeprefix(prefix)) for label in given}


def check_label(what: str, label: str) -> str:
    """Return a label if BIDS allows it; in particular, it cannot be a path."""
    if not _LABEL.fullmatch(label):
        raise InvalidValueError(f"{what} must be letters and digits only, not {label!r}")
    return label


def natural(text: str) -> tuple[list[str | int], str]:
    """Return a sort key for natural order, in which 2 comes before 10."""
    parts = enumerate(_NUMBER.split(text))
    return [int(part) if count % 2 else part for count, part in parts], text
