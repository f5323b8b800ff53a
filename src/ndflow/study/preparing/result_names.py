"""What prepared scans are called: by the names of BIDS derivatives.

``sub-01_ses-1_run-2_T1w.nii.gz`` becomes ``sub-01/ses-1/anat/sub-01_ses-1_run-2_desc-preproc_T1w``.
An image whose name is not of BIDS gets a subject of its own, called like the image without all that
BIDS does not allow in a label: ``my scan_3.nii`` becomes ``sub-myscan3/anat/sub-myscan3_desc-…``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize
from urllib.parse import quote

from ndflow.bids.masks import RAW
from ndflow.bids.names import Entities, check_label, entities_of
from ndflow.errors import FileError
from ndflow.image.subject import Scan
from ndflow.preparation.contrasts import T1W, contrast_called, contrast_in_name, ending_of
from ndflow.scan.outputs import sidecar_of, stem
from ndflow.study.listing.image_metadata import inherited_metadata
from ndflow.study.listing.scan_table import alike

__all__ = ["contrast_of", "preprocessed_name", "scans_to_prepare"]

_OTHERWISE = re.compile("[^0-9A-Za-z]")
_PROCESSED = ("desc", "label")  # entities that say what was made of an image
_HASH = 6  # digits that tell labels apart which would be the same


def contrast_of(scan: Scan, channel: str | None = None) -> str:
    """Return what an image shows: as the user says, else by the end of its name, else T1w."""
    if channel:
        return contrast_called(channel)
    return contrast_in_name(scan.path) or T1W


def preprocessed_name(entities: Entities, suffix: str) -> str:
    """Return the path of a prepared image, relative to the folder of the results.

    Parameters
    ----------
    entities : of the scan.
    suffix : what it shows.

    Examples
    --------
    >>> preprocessed_name({"sub": "01", "ses": "1", "desc": "defaced"}, "T1w")
    'sub-01/ses-1/anat/sub-01_ses-1_desc-preproc_T1w.nii.gz'
    """
    kept = {key: label for key, label in entities.items() if key not in _PROCESSED}
    parts = [f"{key}-{label}" for key, label in kept.items()]
    folders = [f"{key}-{kept[key]}" for key in ("sub", "ses") if key in kept]
    return "/".join([*folders, "anat", "_".join([*parts, "desc-preproc", f"{suffix}.nii.gz"])])


def scans_to_prepare(scans: Sequence[Scan], source: Path, channel: str | None = None) -> list[Scan]:
    """Return scans whose results have the names of a BIDS derivative.

    Parameters
    ----------
    scans : with names of their own.
    source : the folder that they come from, to which the sidecars of results refer.
    channel : what all of them show, if the user said so.

    Raises
    ------
    FileError
        Where two scans would share their masks, as the T1w and the FLAIR image of one visit would,
        or two versions of one image.
    """
    if channel is not None:
        check_label("channel", channel)
    of_bids = {scan.name: found for scan in scans if (found := _entities(scan)) is not None}
    subjects = {alike(entities["sub"]) for entities in of_bids.values()}
    labels = _labels([scan.name for scan in scans if scan.name not in of_bids], subjects)
    taken: dict[str, Scan] = {}
    named: list[Scan] = []
    for scan in scans:
        inherited = inherited_metadata(scan.path) if scan.name in of_bids else {}
        entities = of_bids.get(scan.name) or {"sub": labels[scan.name]}
        stripped = {"SkullStripped": True} if scan.metadata.get("SkullStripped") is True else {}
        output = preprocessed_name(entities, contrast_of(scan, channel))
        other = taken.setdefault(alike(output.rpartition("_desc-")[0]), scan)
        if other is not scan:
            cause = f"{scan.origin}: by its name, of the same subject and visit as {other.path}"
            hint = "list one of them only, or prepare each to a folder of its own"
            if contrast_of(scan, channel) != contrast_of(other, channel):
                hint = "prepare one contrast at a time, each to a folder of its own"
            raise FileError(scan.path, f"{cause} ({other.origin})", hint)
        named.append(
            replace(
                scan,
                output=output,
                sidecar=sidecar_of(output).as_posix(),
                metadata={"Sources": [_uri(scan.path, source)], **stripped, **inherited},
            )
        )
    return named


def _entities(scan: Scan) -> Entities | None:
    """Return the entities of a scan whose name is of BIDS, and is its own; None otherwise."""
    file = Path(scan.path).name
    return entities_of(file) if stem(file) == scan.name else None


def _uri(path: str, source: Path) -> str:
    """Return the BIDS URI of a scan."""
    try:
        relative = os.path.relpath(os.path.abspath(path), source)  # noqa: PTH100
    except ValueError:  # on two drives
        relative = Path(path).name
    return f"bids:{RAW}:{quote(os.fsencode(Path(relative).as_posix()))}"


def _labels(names: Sequence[str], taken: set[str]) -> dict[str, str]:
    """Return different labels of BIDS for the names of scans, whatever the order of these.

    Parameters
    ----------
    names : of scans.
    taken : the labels of other scans, as of `alike`.
    """
    taken = {*taken}
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (_plain(name) != name, name)):
        label = _plain(name)
        if not label or alike(label) in taken:
            label += hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:_HASH]
        taken.add(alike(label))
        found[name] = label
    return found


def _plain(name: str) -> str:
    """Return a name without all that BIDS does not allow in a label."""
    short = name.removesuffix(ending_of(name)) or name
    plain = normalize("NFKD", short.removeprefix("sub-"))
    return _OTHERWISE.sub("", plain)
