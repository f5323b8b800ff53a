"""Names in BIDS datasets, and BIDS derivatives: what our images are called and described by.

In ``sub-01_run-1_T1w.nii.gz``, ``sub-01`` and ``run-1`` are entities (a key and a label), and
``T1w`` is the suffix.

The BIDS validator (bids-validator-deno) accepts a derivative if each image has a sidecar with
``SkullStripped``, and with ``Resolution`` or ``SpatialReference`` where its name has ``res-`` or
``space-``; the latter two come from the sidecar of the scan. Folders must be listed in
``.bidsignore`` as ``/models``: the validator does not ignore one listed as ``models/``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import quote

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath, new_file
from ndflow.files.model_files import read_text
from ndflow.files.outputs import sidecar_of
from ndflow.image.subject import Output, Subject

IMAGES = (".nii", ".nii.gz")
DESCRIPTION = "dataset_description.json"
RAW = "raw"  # the name of the source dataset in our BIDS URIs
OURS = "ndflow"  # the ``desc`` label of our own images, which are not scans

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


# ── derivatives ───────────────────────────────────────────────────────────────────────────────────

Description = dict[str, Any]  # the content of a dataset_description.json

_NO_LINKS: Mapping[str, Path] = MappingProxyType({})
_TOOL = "ndflow"
_BIDS_VERSION = "1.10.0"
_MAX_BYTES = 16 << 20
_READMES = ("README", "README.md", "README.rst", "README.txt")  # BIDS allows only one
DATASET_FILES = (DESCRIPTION, ".bidsignore", *_READMES)  # what describes a dataset


def bids_output(
    root: Path, derivatives: Mapping[str, Path], subject: Subject, image: str, name: str
) -> Output:
    """Return where the result of an image goes; see `ndflow.study.table.Naming`.

    Parameters
    ----------
    root : the dataset.
    derivatives : the folders that images and masks may come from as well, by the names that BIDS
        URIs give them.
    subject, image, name : the image, and whose it is.
    """
    sources = []
    for path in (Path(str(one)) for one in (image, subject.mask, subject.lesion)):
        places = {RAW: root, **derivatives}
        around = [one for one, place in places.items() if path.is_relative_to(place)]
        if around:  # they may lie in each other
            dataset = max(around, key=lambda one: len(places[one].parts))
            sources.append((dataset, path.relative_to(places[dataset]).as_posix()))
    folder, _, file = sources[0][1].rpartition("/")
    entities = {**without_desc(entities_of(file) or {}), "desc": OURS}
    parts = [f"{key}-{label}" for key, label in entities.items()]
    output = f"{folder}/{'_'.join([*parts, suffix_of(file)])}.nii.gz"
    metadata = {
        "Sources": [f"bids:{dataset}:{relative}" for dataset, relative in sources],
        "SkullStripped": False,  # unless the sidecar of the scan says so
        **inherited_metadata(image),
    }
    return Output(name, output, str(sidecar_of(output)), metadata)


_INHERITED = ("SkullStripped", "Resolution", "SpatialReference")  # what results share with scans


def inherited_metadata(image: AnyPath) -> dict[str, Any]:
    """Return what the sidecar of a scan says that holds for its results as well.

    Only the file beside the image is looked at.
    """
    path = sidecar_of(image)
    said = _read(path) if os.path.lexists(path) else {}
    return {name: said[name] for name in _INHERITED if said.get(name) is not None}


def write_dataset_files(
    folder: Path, *, kind: Literal["normalised", "prepared"] = "normalised", **about: Any
) -> None:
    """Write ``dataset_description.json``, ``README`` and ``.bidsignore`` of a derivative.

    Files of an earlier run are updated: what was added by hand to the description (authors, a
    licence) or to ``.bidsignore`` is kept, and so is a README. The description of a dataset that is
    not ours is never replaced.

    Parameters
    ----------
    folder : the folder of the derivative, which must exist.
    kind : of images, for the README and ``.bidsignore``, which are in the folder ``templates``.
    about : see `described`.

    Raises
    ------
    FileError : if the folder belongs to another dataset, or a file cannot be read or written.
    """
    content = json.dumps(described(folder, **about), indent=2, ensure_ascii=False)
    _write(folder / DESCRIPTION, f"{content}\n")
    templates, ignored = Path(__file__).parent / "templates", folder / ".bidsignore"
    old = read_text(ignored, max_bytes=_MAX_BYTES) if os.path.lexists(ignored) else ""
    ours = (templates / f"{kind}.bidsignore").read_text("utf-8")
    lines = dict.fromkeys((*old.splitlines(), *ours.splitlines()))
    _write(ignored, "\n".join((*lines, "")))
    if not any(os.path.lexists(folder / readme) for readme in _READMES):
        _write(folder / "README", (templates / f"{kind}.md").read_text("utf-8"))


def described(
    folder: Path,
    *,
    source_root: Path,
    version: str = "",
    derivatives: Mapping[str, Path] = _NO_LINKS,
    any_source: bool = False,
    force: bool = False,
) -> Description:
    """Return the description of a derivative, with what others have added to an earlier one.

    Parameters
    ----------
    folder : the folder of the derivative.
    source_root : the dataset that the scans come from.
    version : the version of ndflow.
    derivatives : the folders with masks, by the names that URIs use for them.
    any_source : whether the scans may come from a folder that is no dataset, and from another one
        than before.
    force : whether to replace the description altogether, even if the derivative was made from
        another dataset.

    Raises
    ------
    FileError : if the folder belongs to another dataset, or a description cannot be read.
    """
    real, root = Path(os.path.realpath(folder)), Path(os.path.realpath(source_root))
    within = real.relative_to(root).parts if real.is_relative_to(root) else ("outside",)
    if not any_source and (not within or within[0].startswith("sub-")):
        hint = f"choose a folder of its own, for example {source_root / 'derivatives' / _TOOL}"
        raise FileError(folder, "the dataset that the scans come from", hint)
    path, location = source_root / DESCRIPTION, _location(source_root, folder)
    origin = {} if any_source and not os.path.lexists(path) else _read(path)
    given = {"Name": origin.get("Name"), "DOI": origin.get("DatasetDOI")}
    known = {key: text for key, text in given.items() if isinstance(text, str) and text.strip()}
    links = {name: _location(one, folder) for name, one in derivatives.items()}
    ours: Description = {
        "Name": _TOOL,
        "BIDSVersion": _BIDS_VERSION,
        "DatasetType": "derivative",
        "GeneratedBy": [{"Name": _TOOL, "Version": version}],
        "SourceDatasets": [known if "DOI" in known else {**known, "URL": location}],
        "DatasetLinks": {RAW: location, **links},
    }
    path = folder / DESCRIPTION
    return _updated(path, ours, any_source, force) if os.path.lexists(path) else ours


def _updated(path: Path, ours: Description, any_source: bool, force: bool) -> Description:
    """Return our description with what others have added to that in a file, if that is ours."""
    old = _read(path)
    if not _is_ours(old):
        cause = "describes a dataset that is not ours"
        raise FileError(path, cause, "choose another folder for the output")
    links = old.get("DatasetLinks")
    links = links if isinstance(links, dict) else {}
    same = links.get(RAW) == ours["DatasetLinks"][RAW]
    same = same or _identity(old) == _identity(ours) != [{}]
    if not (same or any_source or force):
        cause = f"made from another dataset, {links.get(RAW)}"
        raise FileError(path, cause, "choose another folder, or --force to replace it")
    if force:
        return ours
    return {**old, **ours, "DatasetLinks": {**links, **ours["DatasetLinks"]}}


def is_our_derivative(folder: AnyPath) -> bool:
    """Tell whether a folder is a BIDS derivative that ndflow wrote."""
    path = Path(folder) / DESCRIPTION
    try:
        return path.exists() and _is_ours(_read(path))
    except FileError:
        return False


def dataset_name(images: Iterable[AnyPath]) -> str | None:
    """Return the name of the dataset that images are from, raw or derived; not that of a tool."""
    try:
        common = Path(os.path.commonpath([Path(one).absolute() for one in images]))
    except ValueError:  # on two drives
        return None
    for folder in (common, *common.parents):
        with suppress(FileError):
            known = _read(folder / DESCRIPTION)
            tools = [str(tool.get("Name")).lower() for tool in _objects(known.get("GeneratedBy"))]
            name = known.get("Name")
            if isinstance(name, str) and name and not name.lower().startswith(tuple(tools)):
                return name
    return None


def _is_ours(description: Description) -> bool:
    return any(tool.get("Name") == _TOOL for tool in _objects(description.get("GeneratedBy")))


def _identity(description: Description) -> list[Description]:
    """Return the names and DOIs of the sources, without their locations."""
    sources = _objects(description.get("SourceDatasets"))
    return [{key: text for key, text in one.items() if key != "URL"} for one in sources]


def _objects(items: Any) -> list[Description]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _location(source: Path, folder: Path) -> str:
    """Return the URI of the source: relative, so that both can be moved, if they share a folder."""
    real = Path(os.path.realpath(source))
    here = Path(os.path.realpath(folder))
    try:
        if os.path.commonpath((real, here)) != real.anchor:
            relative = Path(os.path.relpath(real, here)).as_posix()
            return quote(os.fsencode(relative))
    except ValueError:  # on two drives
        pass
    return real.as_uri()


def _read(path: Path) -> Description:
    try:
        text = read_text(path, max_bytes=_MAX_BYTES)
        content = json.loads(text, parse_constant=lambda _: None)  # NaN, which JSON does not have
    except (ValueError, RecursionError) as error:
        raise FileError(path, f"not JSON ({error})", "correct it, or fetch it again") from None
    if not isinstance(content, dict):
        raise FileError(path, "not a JSON object", "correct it, or fetch it again")
    return content


def _write(path: Path, text: str) -> None:
    """Write a file, unless it has this content already."""
    content = text.encode("utf-8", "backslashreplace")
    if not path.exists() or path.read_bytes() != content:
        with new_file(path, force=True) as file:
            file.write(content)
