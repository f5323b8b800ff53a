"""Names of files and folders in a BIDS dataset: entities, suffixes and labels.

In ``sub-01_run-1_T1w.nii.gz``, ``sub-01`` and ``run-1`` are entities (a key and a label), and
``T1w`` is the suffix.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.model_files import read_text

IMAGES = (".nii", ".nii.gz")
DESCRIPTION = "dataset_description.json"
RAW = "raw"  # the name of the source dataset in our BIDS URIs
OURS = "ndflow"  # the ``desc`` label of our own images, which are not scans

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


# ── filter files ──────────────────────────────────────────────────────────────────────────────────
# Filter files of BIDS Apps: which images to read of each kind.
#
# A file such as ``{"t1w": {"session": "02", "acquisition": null, "run": [1, 2]}}`` holds one query
# for each kind of image. A query names entities, and ``datatype``, ``suffix`` or ``extension``;
# each with the label that the image must have, a list of labels, or null if it must have none.

_MAX_BYTES = 1 << 20
_OTHER_KEYS = ("datatype", "suffix", "extension")
_FORMAT = 'write for example {"t1w": {"session": "02", "acquisition": null}}'

Wanted = dict[str, list[str | None]]  # the labels that entities may have; None for their absence


class Filter(NamedTuple):
    """One query of a filter file.

    Attributes
    ----------
    path : the file.
    name : the name of the query in it, for example ``t1w``.
    wanted : the labels that each entity may have.
    """

    path: str
    name: str
    wanted: Wanted

    def accepts(self, datatype: str, name: str, entities: Entities) -> bool:
        """Tell whether an image fits the query.

        Parameters
        ----------
        datatype : the folder that the image lies in, such as ``anat``.
        name : the name of its file.
        entities : the entities of the image.
        """
        suffix, extension = suffix_of(name), f".{name.partition('.')[2]}"
        known = {**entities, "datatype": datatype, "suffix": suffix, "extension": extension}
        return all(_plain(key, known.get(key)) in labels for key, labels in self.wanted.items())


def read_filters(path: AnyPath, suffixes: Sequence[str]) -> tuple[dict[str, Filter], list[str]]:
    """Read a filter file.

    Parameters
    ----------
    path : the file.
    suffixes : of the images that are read; the name of a query is a suffix, in any case.

    Returns
    -------
    filters, unused : the query for each suffix; and the names of queries for other images, as other
        BIDS Apps have them.

    Raises
    ------
    FileError : if it is not a filter file, names something unknown or twice, or lacks a query for
        one of the suffixes.
    """
    try:
        content = json.loads(read_text(path, max_bytes=_MAX_BYTES), object_pairs_hook=_once)
    except InvalidValueError as error:
        raise FileError(path, str(error), "leave one out") from None
    except (ValueError, RecursionError) as error:
        raise FileError(path, f"not JSON ({error})", _FORMAT) from None
    if not (isinstance(content, dict) and all(isinstance(q, dict) for q in content.values())):
        raise FileError(path, "not a filter file: no object of queries", _FORMAT)
    queries = {}
    for name, query in content.items():
        try:
            queries[name] = Filter(str(path), name, _wanted(query))
        except InvalidValueError as error:
            hint = "give entities a label, a list of labels, or null for none"
            raise FileError(path, f"query {name!r}: {error}", hint) from None
    filters = {}
    for suffix in suffixes:
        fitting = [name for name in queries if name.lower() == suffix.lower()]
        if len(fitting) != 1:
            number = "two queries" if fitting else "no query"
            cause = f"has {number} for {suffix} images"
            raise FileError(path, cause, f"name one {suffix.lower()!r}, or leave out the file")
        filters[suffix] = queries.pop(fitting[0])
    return filters, list(queries)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs as a dictionary; refuse a key that is there twice: only one would count."""
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            raise InvalidValueError(f"{key!r} is given twice")
    return dict(pairs)


def _wanted(query: Mapping[str, Any]) -> Wanted:
    """Return the labels that a query asks for, by the short names of the entities."""
    pairs = []
    for entity, value in query.items():
        key = entity if entity in _OTHER_KEYS else ENTITIES.get(entity)
        if key is None:
            known = ", ".join((*dict.fromkeys(ENTITIES.values()), *_OTHER_KEYS))
            raise InvalidValueError(f"unknown entity {entity!r}, not one of {known}")
        labels = value if isinstance(value, list) else [value]
        if not labels:
            raise InvalidValueError(f"the list of {entity} is empty")
        pairs.append((key, [_label(key, label) for label in labels]))
    return _once(pairs)


def _label(key: str, value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidValueError(f"{key} must be a label, not {json.dumps(value)}")
    text = str(value)
    if key == "extension":
        return f".{text.removeprefix('.')}"
    return _plain(key, check_label(key, text.removeprefix(f"{key}-")))


def _plain(key: str, label: str | None) -> str | None:
    """Return a label, without leading zeros where it is a number: runs 1 and 01 are the same."""
    return label.lstrip("0") if label is not None and key in INDICES else label
