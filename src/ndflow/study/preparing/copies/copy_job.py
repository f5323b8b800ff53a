"""The aligned copy of one prepared scan: made from its files, so that they need not be made again.

As for the prepared scan itself, the sidecar is written last, and removed before anything that it
describes is replaced.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ndflow._version import PREPARATIONS, versions
from ndflow.errors import FileError
from ndflow.files.atomic import new_file
from ndflow.files.fingerprints import fingerprint_of
from ndflow.files.stream import sha256_of
from ndflow.image.nifti import nifti_header_for
from ndflow.image.read import read_volume
from ndflow.image.subject import Scan
from ndflow.image.volume import Volume
from ndflow.preparation.aligned_copies import AlignedCopy, aligned_copy
from ndflow.preparation.rigid import TEMPLATE_SPACE, TemplateGrid
from ndflow.preparation.working_grid import Map
from ndflow.study.preparing.copies.copy_paths import CopyPaths, copy_paths
from ndflow.study.preparing.preparation_plan import PreparedPaths
from ndflow.study.preparing.preparation_records import AlignedRecord, PreparationRecord
from ndflow.study.preparing.prepared_images import (
    in_steps,
    write_mask,
    write_on_grid,
    write_probabilities,
)
from ndflow.study.preparing.raw_scan import TISSUE_COLUMNS

__all__ = ["copied_before", "make_copy", "refuse_edited_copy"]

_PACKAGES = ("antspyx", "nilearn")
_TEMPLATE = "https://www.bic.mni.mcgill.ca/ServicesAtlases/ICBM152NLin2009"


def copied_before(scan: Scan, paths: PreparedPaths, resolution: float) -> bool:
    """Tell whether the copy of a prepared scan is up to date.

    Parameters
    ----------
    scan, paths : the scan, and where its results are.
    resolution : of the copy, in mm.
    """
    copy = copy_paths(paths.image, resolution)
    if not copy.sidecar.exists():
        return False
    try:
        record = AlignedRecord.read(copy.sidecar)
        prepared = PreparationRecord.read(paths.sidecar)
        named = copy._asdict()
        written = {what: sha256_of(named[what]) for what in record.outputs if what in named}
    except FileError:
        return False
    return record.fingerprint == _fingerprint(scan, prepared, resolution) and (
        written == record.outputs
    )


def refuse_edited_copy(paths: PreparedPaths, resolution: float) -> None:
    """Refuse to replace part of a copy that somebody has changed."""
    copy = copy_paths(paths.image, resolution)
    try:
        record = AlignedRecord.read(copy.sidecar)
    except FileError:
        return
    named = copy._asdict()
    for what, sha256 in record.outputs.items():
        path = named.get(what)
        if path is not None and path.exists() and sha256_of(path) != sha256:
            hint = "to keep it, copy it elsewhere; --force replaces it"
            raise FileError(path, "changed since ndflow wrote it", hint)


def make_copy(
    scan: Scan,
    paths: PreparedPaths,
    resolution: float,
    *,
    max_bytes: int,
    keep: Sequence[str],
) -> float:
    """Make the copy of a prepared scan, and return how many seconds it took.

    Parameters
    ----------
    scan, paths, resolution : as for `copied_before`.
    max_bytes : the largest file to read.
    keep : files that must not be replaced.
    """
    since = time.perf_counter()
    prepared = PreparationRecord.read(paths.sidecar)
    inputs = _inputs(prepared)
    named = paths._asdict()
    volumes = {what: read_volume(named[what], max_bytes=max_bytes) for what in inputs}
    arrays = {what: _array(volume) for what, volume in volumes.items()}
    tissues = [arrays[tissue] for tissue in TISSUE_COLUMNS if tissue in arrays]
    found = aligned_copy(
        arrays["image"],
        volumes["image"].affine,
        arrays["mask"] > 0,
        tissues=np.stack(tissues) if tissues else None,
        lesion=arrays["lesion"] > 0 if "lesion" in arrays else None,
        resolution=resolution,
    )
    copy, like = copy_paths(paths.image, resolution), _volume_on(found.grid)
    kept = [*keep, *(str(named[what]) for what in inputs), str(paths.sidecar)]
    copy.sidecar.unlink(missing_ok=True)
    outputs = _write(copy, like, found, prepared, resolution, kept)
    record = AlignedRecord(
        copy_of=paths.image.name,
        resolution=resolution,
        matrix=tuple(map(tuple, found.matrix.tolist())),
        overlap=found.overlap,
        versions=versions(*_PACKAGES),
        inputs=inputs,
        fingerprint=_fingerprint(scan, prepared, resolution),
    )
    seconds = 0.0

    def describe(written: Any) -> None:
        nonlocal seconds
        seconds = round(time.perf_counter() - since, 2)
        hashed = outputs | {"image": written.sha256[0]}
        about = _metadata(scan, prepared, resolution)
        full = replace(record, outputs=hashed, seconds=seconds)
        full.write(copy.sidecar, force=True, inputs=kept, metadata=about)

    write_on_grid(copy.image, like, found.image, keep=kept, then=describe)
    return seconds


def _write(
    copy: CopyPaths,
    like: Volume,
    found: AlignedCopy,
    prepared: PreparationRecord,
    resolution: float,
    keep: list[str],
) -> dict[str, str]:
    """Write all files of a copy but the image and its sidecar; return their hashes."""
    about = _geometry(resolution)
    deepbet = prepared.versions["deepbet"] if prepared.steps.get("mask") == "brain" else None
    outputs = {
        "mask": write_mask(copy.mask, like, found.brain, keep=keep, deepbet=deepbet),
        "masks_json": _write_json(copy.masks_json, about, keep),
    }
    unused = {copy.maps_json, *copy.tissues, copy.lesion}
    if found.tissues is not None:
        ours = prepared.steps.get("tissues") == "found"
        parts = in_steps(found.tissues) if ours else found.tissues
        for tissue, path, part in zip(TISSUE_COLUMNS, copy.tissues, parts, strict=True):
            write = write_probabilities if ours else write_on_grid
            outputs[tissue] = write(path, like, part, keep=keep)
        outputs["maps_json"] = _write_json(copy.maps_json, about, keep)
        unused -= {copy.maps_json, *copy.tissues}
    if found.lesion is not None:
        outputs["lesion"] = write_mask(copy.lesion, like, found.lesion, keep=keep)
        unused -= {copy.lesion}
    for path in unused:  # of an earlier run with other choices
        path.unlink(missing_ok=True)
    return outputs


def _write_json(path: Path, content: dict[str, str], keep: list[str]) -> str:
    text = (json.dumps(content, indent=1) + "\n").encode()
    with new_file(path, force=True, inputs=keep) as file:
        file.write(text)
    return hashlib.sha256(text).hexdigest()


def _array(volume: Volume) -> Map:
    found: Map = np.asarray(volume.values(volume.stored), np.float32).reshape(
        volume.spatial_shape, order="F"
    )
    return found


def _volume_on(grid: TemplateGrid) -> Volume:
    """Return an empty image on a grid over the template."""
    header: Any = nifti_header_for(None, grid.shape, grid.affine)
    header.set_sform(grid.affine, "mni")
    header.set_qform(grid.affine, "mni")
    return Volume("", (), np.zeros(grid.shape, np.uint8, order="F"), 1.0, 0.0, header, grid.affine)


def _geometry(resolution: float) -> dict[str, str]:
    """Return what BIDS wants to know about images in the space of the template."""
    size = f"{resolution:g} mm"
    return {
        "Resolution": f"{size} isotropic; aligned with the template by rotation and shift alone",
        "SpatialReference": _TEMPLATE,
    }


def _metadata(scan: Scan, prepared: PreparationRecord, resolution: float) -> dict[str, Any]:
    """Return what BIDS wants to know about the image of a copy."""
    inherited = {name: part for name, part in scan.metadata.items() if name != "Sources"}
    return {
        "SkullStripped": prepared.steps.get("mask") == "nonzero",
        **inherited,
        **_geometry(resolution),
        "Sources": [f"bids::{scan.output}"],
    }


def _inputs(prepared: PreparationRecord) -> dict[str, str]:
    """Return the hashes of the prepared files that a copy is made from, by what they are."""
    return {what: sha256 for what, sha256 in prepared.outputs.items() if what != "picture"}


def _fingerprint(scan: Scan, prepared: PreparationRecord, resolution: float) -> str:
    return fingerprint_of(
        results=f"aligned {PREPARATIONS}",
        inputs=_inputs(prepared),
        settings={"space": TEMPLATE_SPACE, **_metadata(scan, prepared, resolution)},
    )
