"""BIDS derivatives: the names of our images, and the files that describe the dataset.

The BIDS validator (bids-validator-deno) accepts such a folder if each image has a sidecar with
``SkullStripped``, and with ``Resolution`` or ``SpatialReference`` where its name has ``res-`` or
``space-``; the latter two come from the sidecar of the scan. Folders must be listed in
``.bidsignore`` as ``/models``: the validator does not ignore one listed as ``models/``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath, new_file
from ndflow.files.model_files import read_text
from ndflow.files.outputs import sidecar_of
from ndflow.files.stream import open_file
from ndflow.image.subject import Output, Subject
from ndflow.study.bids_masks import RAW
from ndflow.study.bids_names import entities_of, suffix_of, without_desc
from ndflow.study.bids_query import DESCRIPTION, OURS

Description = dict[str, Any]  # the content of a dataset_description.json

_NO_LINKS: Mapping[str, Path] = MappingProxyType({})
_TOOL = "ndflow"
_BIDS_VERSION = "1.10.0"
_MAX_BYTES = 16 << 20
_READMES = ("README", "README.md", "README.rst", "README.txt")  # BIDS allows only one
DATASET_FILES = (DESCRIPTION, ".bidsignore", *_READMES)  # what describes a dataset


class DatasetTexts(NamedTuple):
    """What is special about a kind of derivative.

    Attributes
    ----------
    readme : what the README says.
    ignored : what the validator is to ignore, as in ``.bidsignore``.
    """

    readme: str
    ignored: tuple[str, ...]


NORMALISED = DatasetTexts(
    """\
# Normalised images

The intensities of these images were made comparable across scanners by ndflow, with nonparametric
density flows. Geometry and background are those of the images that they were made from.

- sub-*/: the images, desc-ndflow; the JSON beside each one says what it was made from, and how
- models/: what was found for each scan: the mixture of its intensities
- masks/: the brain masks of scans that came without one, if they were to be found
- figures/: slices of each scan before and after, for the report
- reference*.json, map_*.json: what the scans were matched to
- scans.tsv, failures.tsv: all scans, and those that could not be normalised, and why
- provenance.json, report.html, evaluation/: how it was done, and how it went
- prepared/: brain masks, bias-corrected images and tissue maps, if they were made by ndflow too

Only the images are described by BIDS; .bidsignore lists the rest.
""",
    (
        "/models",
        "/masks",
        "/figures",
        "/maps",
        "/evaluation",
        "/prepared",
        "/reference*.json",
        "/map_*.json",
        "/provenance.json",
        "/failures.tsv",
        "/scans.tsv",
        "/report.html",
        ".ndflow-*",
    ),
)
PREPARED = DatasetTexts(
    """\
# Prepared images

These images were prepared by ndflow for the normalisation of their intensities. All are on the
grids of the scans that they were made from, except copies in the space of a template (space-).

- sub-*/: per scan, desc-preproc: the image without its bias field, in its own units;
  desc-brain_mask: the brain; label-CSF, label-GM and label-WM: tissue probabilities. The JSON
  beside each image says what it was made from, how, and what was measured
- figures/: a picture of each scan with the outlines of mask and tissues, for quality control
- study.tsv: the scans as `ndflow cohort` reads them; study_space-MNI.tsv: the copies
- preparation.tsv: what was measured; failures.tsv: scans that could not be prepared, and why
- provenance.json, report.html: how it was done, and how it went

Only the images are described by BIDS; .bidsignore lists the rest.
""",
    (
        "/figures",
        "/provenance.json",
        "/failures.tsv",
        "/study.tsv",
        "/study_space-MNI.tsv",
        "/preparation.tsv",
        "/report.html",
        ".ndflow-*",
    ),
)


class BidsNames(NamedTuple):
    """The names of a BIDS derivative.

    Attributes
    ----------
    root : the dataset that images come from.
    derivatives : folders that masks come from, by the names that BIDS URIs give them.
    """

    root: Path
    derivatives: Mapping[str, Path] = _NO_LINKS

    def output(self, subject: Subject, image: str, name: str) -> Output:
        """Return where the result of an image goes; see `ndflow.study.listing.Naming`."""
        relative = Path(image).relative_to(self.root).as_posix()
        folder, _, file = relative.rpartition("/")
        entities = {**without_desc(entities_of(file) or {}), "desc": OURS}
        parts = [f"{key}-{label}" for key, label in entities.items()]
        output = f"{folder}/{'_'.join([*parts, suffix_of(file)])}.nii.gz"
        uris = [f"bids:{RAW}:{relative}"]
        for source in (subject.mask, subject.lesion):
            mask = Path(str(source or ""))
            places = [one for one in self.derivatives.items() if mask.is_relative_to(one[1])]
            uris += [f"bids:{n}:{mask.relative_to(at).as_posix()}" for n, at in places[:1]]
        metadata = {
            "Sources": uris,
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
    folder: AnyPath,
    *,
    source_root: AnyPath,
    name: str = _TOOL,
    version: str,
    derivatives: Mapping[str, Path] = _NO_LINKS,
    texts: DatasetTexts = NORMALISED,
    any_source: bool = False,
    force: bool = False,
) -> None:
    """Write ``dataset_description.json``, ``README`` and ``.bidsignore`` of a derivative.

    Files of an earlier run are updated: what was added by hand to the description (authors, a
    licence) or to ``.bidsignore`` is kept, and so is a README. The description of a dataset that is
    not ours is never replaced.

    Parameters
    ----------
    folder : the folder of the derivative, which must exist.
    source_root : the dataset that the scans come from.
    name : the name of the derivative.
    version : the version of ndflow.
    derivatives : the folders with masks, by the names that URIs use for them.
    texts : what is special about this kind of derivative.
    any_source : whether the scans may come from a folder that is no dataset, and from another one
        than before.
    force : whether to replace the description altogether, even if the derivative was made from
        another dataset.

    Raises
    ------
    FileError : if the folder belongs to another dataset, or a file cannot be read or written.
    """
    place, source = Path(folder), Path(source_root)
    check_dataset(place, source_root=source, any_source=any_source, force=force)
    ours = _description(_source(source, any_source), _location(source, place), name, version)
    for other, root in derivatives.items():
        ours["DatasetLinks"][other] = _location(root, place)
    path, ignored = place / DESCRIPTION, place / ".bidsignore"
    fresh = force or not os.path.lexists(path)
    content = ours if fresh else _updated(_read(path), ours)
    _write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    old = read_text(ignored, max_bytes=_MAX_BYTES) if os.path.lexists(ignored) else ""
    _write(ignored, _with_ignored(old.splitlines(), texts.ignored))
    if not any(os.path.lexists(place / readme) for readme in _READMES):
        _write(place / "README", texts.readme)


def check_dataset(
    folder: AnyPath, *, source_root: AnyPath, any_source: bool = False, force: bool = False
) -> None:
    """Raise the error that `write_dataset_files` would raise for a folder; parameters as there."""
    place, source = Path(folder), Path(source_root)
    real, root = Path(os.path.realpath(place)), Path(os.path.realpath(source))
    inside = real.is_relative_to(root) and real.relative_to(root).parts[:1]
    if not any_source and (real == root or (inside and inside[0].startswith("sub-"))):
        hint = f"choose a folder of its own, for example {source / 'derivatives' / _TOOL}"
        raise FileError(place, "the dataset that the scans come from", hint)
    path = place / DESCRIPTION
    if os.path.lexists(path):
        ours = _description(_source(source, any_source), _location(source, place), _TOOL, "")
        _check_old(path, _read(path), ours, force=force or any_source)


def is_our_derivative(folder: AnyPath) -> bool:
    """Tell whether a folder is a BIDS derivative that ndflow wrote."""
    path = Path(folder) / DESCRIPTION
    try:
        return path.exists() and _is_ours(_read(path))
    except FileError:
        return False


def _is_ours(description: Description) -> bool:
    return any(tool.get("Name") == _TOOL for tool in _objects(description.get("GeneratedBy")))


def _description(source: Description, location: str, name: str, version: str) -> Description:
    """Return the description of a dataset made from another one, described by `source`."""
    if not name.strip():
        raise InvalidValueError("name must not be empty")
    given = {"Name": source.get("Name"), "DOI": source.get("DatasetDOI")}
    known = {key: text for key, text in given.items() if isinstance(text, str) and text.strip()}
    return {
        "Name": name,
        "BIDSVersion": _BIDS_VERSION,
        "DatasetType": "derivative",
        "GeneratedBy": [{"Name": _TOOL, "Version": version}],
        "SourceDatasets": [known if "DOI" in known else {**known, "URL": location}],
        "DatasetLinks": {RAW: location},
    }


def _check_old(path: Path, old: Description, ours: Description, *, force: bool) -> None:
    """Refuse to write into a dataset that is not ours, or was made from another dataset."""
    if not _is_ours(old):
        cause = "describes a dataset that is not ours"
        raise FileError(path, cause, "choose another folder for the output")
    links = old.get("DatasetLinks")
    was = links.get(RAW) if isinstance(links, dict) else None
    same = was == ours["DatasetLinks"][RAW] or _identity(old) == _identity(ours) != [{}]
    if not force and not same:
        cause = f"made from another dataset, {was}"
        raise FileError(path, cause, "choose another folder, or --force to replace it")


def _identity(description: Description) -> list[Description]:
    """Return the names and DOIs of the sources, without their locations."""
    sources = _objects(description.get("SourceDatasets"))
    return [{key: text for key, text in one.items() if key != "URL"} for one in sources]


def _updated(old: Description, ours: Description) -> Description:
    """Return our description with what others have added to the old one."""
    others = [tool for tool in _objects(old.get("GeneratedBy")) if tool.get("Name") != _TOOL]
    links = old.get("DatasetLinks")
    return {
        **old,
        **ours,
        "GeneratedBy": [*ours["GeneratedBy"], *others],
        "DatasetLinks": {**(links if isinstance(links, dict) else {}), **ours["DatasetLinks"]},
    }


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


def _source(root: Path, any_source: bool) -> Description:
    """Return the description of the dataset that scans come from; empty if it need not have one."""
    path = root / DESCRIPTION
    return {} if any_source and not os.path.lexists(path) else _read(path)


def _with_ignored(old: list[str], ours: tuple[str, ...]) -> str:
    """Return the content of ``.bidsignore``: the old lines, and those of ours that are missing."""
    return "\n".join((*old, *(line for line in ours if line not in old), ""))


def _read(path: Path) -> Description:
    try:
        content = json.loads(
            read_text(path, max_bytes=_MAX_BYTES), parse_constant=_finite, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise FileError(path, f"not JSON ({error})", "correct it, or fetch it again") from None
    if not isinstance(content, dict):
        raise FileError(path, "not a JSON object", "correct it, or fetch it again")
    return content


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _write(path: Path, text: str) -> None:
    """Write a file unless it has this content already: other processes may be writing it too."""
    content = text.encode("utf-8", "backslashreplace")
    if path.exists():
        with open_file(path) as file:
            if file.read(len(content) + 1) == content:
                return
    with new_file(path, force=True) as file:
        file.write(content)
