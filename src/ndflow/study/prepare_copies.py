"""What aligned copies are called: like the prepared image, with entities ``space`` and ``res``."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndflow._version import PREPARATIONS, versions
from ndflow.errors import FileError
from ndflow.files.atomic import new_file
from ndflow.files.fingerprints import FileHash, fingerprint_of
from ndflow.files.stream import sha256_of
from ndflow.image.headers import new_nifti
from ndflow.image.read import read_volume
from ndflow.image.subject import Scan
from ndflow.image.volume import Volume
from ndflow.preparation.aligned_copies import (
    TEMPLATE_SPACE,
    AlignedCopy,
    TemplateGrid,
    aligned_copy,
)
from ndflow.preparation.grid import Map
from ndflow.study.integrity import Checked, broken, compared
from ndflow.study.plan import Preparation, PreparedPaths
from ndflow.study.prepare_records import AlignedRecord, PreparationRecord
from ndflow.study.prepared_images import in_steps, write_mask, write_on_grid, write_probabilities
from ndflow.study.raw_scan import TISSUE_COLUMNS
from ndflow.subject.outputs import sidecar_of

_IMAGE = "_desc-preproc_"
_OTHER_GRID = re.compile("_(?:space|cohort|res|den)-[0-9A-Za-z]+")  # that of the scan


class CopyPaths(NamedTuple):
    """Where the files of an aligned copy go; not every copy has all of them.

    Attributes
    ----------
    image, mask, csf, gm, wm, lesion : as of the prepared scan.
    sidecar : the JSON that describes the image and all that was made with it.
    masks_json, maps_json : what BIDS wants to know about masks, and about tissue probability maps.
    """

    image: Path
    sidecar: Path
    mask: Path
    csf: Path
    gm: Path
    wm: Path
    lesion: Path
    masks_json: Path
    maps_json: Path

    @property
    def tissues(self) -> tuple[Path, Path, Path]:
        """The tissue probability maps."""
        return self.csf, self.gm, self.wm


def copy_paths(image: Path, resolution: float) -> CopyPaths:
    """Return where the aligned copy of a prepared image goes.

    Parameters
    ----------
    image : the prepared image.
    resolution : of the copy, in mm. A label of BIDS has no point: 1.5 mm are ``res-1p5``.

    Examples
    --------
    >>> copy_paths(Path("sub-01_desc-preproc_T1w.nii.gz"), 1.5).mask.name
    'sub-01_space-MNI152NLin2009aSym_res-1p5_desc-brain_mask.nii.gz'
    """
    stem, _, end = image.name.partition(_IMAGE)
    label = f"{resolution:g}".replace(".", "p")
    start = f"{_OTHER_GRID.sub('', stem)}_space-{TEMPLATE_SPACE}_res-{label}"
    copy = image.with_name(f"{start}{_IMAGE}{end}")
    return CopyPaths(
        copy,
        sidecar_of(copy),
        image.with_name(f"{start}_desc-brain_mask.nii.gz"),
        image.with_name(f"{start}_label-CSF_probseg.nii.gz"),
        image.with_name(f"{start}_label-GM_probseg.nii.gz"),
        image.with_name(f"{start}_label-WM_probseg.nii.gz"),
        image.with_name(f"{start}_label-lesion_mask.nii.gz"),
        image.with_name(f"{start}_mask.json"),
        image.with_name(f"{start}_probseg.json"),
    )


# ── the folder ────────────────────────────────────────────────────────────────────────────────────


def refuse_shared_copies(plan: Preparation) -> None:
    """Refuse scans that differ in nothing but the space that their names give."""
    resolution = plan.preparing.resolution
    if resolution is None:
        return
    taken: dict[Path, Scan] = {}
    for scan in plan.scans:
        other = taken.setdefault(copy_paths(plan.paths(scan).image, resolution).image, scan)
        if other is not scan:
            cause = f"{scan.origin}: its aligned copy would be that of {other.path}, too"
            raise FileError(scan.path, cause, "prepare them to folders of their own")


def remove_other_copies(plan: Preparation) -> None:
    """Remove copies of an earlier run, of another resolution or no longer asked for."""
    for scan in plan.scans:
        remove_copies(plan.paths(scan).image, but=plan.preparing.resolution)


def remove_copies(image: Path, but: float | None = None) -> bool:
    """Remove the aligned copies of a prepared image, unless somebody has changed them.

    Parameters
    ----------
    image : the prepared image.
    but : the resolution of a copy that stays.

    Returns
    -------
    bool
        Whether nobody has changed any of the others.
    """
    unchanged = True
    for sidecar in image.parent.glob(f"*_space-{TEMPLATE_SPACE}_res-*_desc-preproc_*.json"):
        with suppress(FileError, OSError):
            record = AlignedRecord.read(sidecar)
            if record.copy_of != image.name or record.resolution == but:
                continue
            written = _written(copy_paths(image, record.resolution), record)
            there = {path: sha256 for path, sha256 in written.items() if path.exists()}
            if any(sha256_of(path) != sha256 for path, sha256 in there.items()):
                unchanged = False
                continue
            for path in (sidecar, *there):
                path.unlink(missing_ok=True)
    return unchanged


def foreign_in_copy(image: Path, resolution: float) -> Iterator[Path]:
    """Yield the files that the copy of a prepared image would replace and that are not ours."""
    paths = copy_paths(image, resolution)
    ours: Sequence[Path] = ()
    with suppress(FileError):
        ours = (*_written(paths, AlignedRecord.read(paths.sidecar)), paths.sidecar)
    yield from (path for path in paths if os.path.lexists(path) and path not in ours)


def check_copy(paths: CopyPaths) -> Checked:
    """Hash again the files of a copy, see `ndflow.study.verify`."""
    try:
        record = AlignedRecord.read(paths.sidecar)
    except FileError as error:
        return Checked([str(paths.sidecar)], [broken(paths.sidecar, error)])
    files = [FileHash(str(path), sha256) for path, sha256 in _written(paths, record).items()]
    found = [*compared(files, "not what the preparation wrote")]
    return Checked([str(paths.sidecar), *(file.file for file in files)], found)


def _written(paths: CopyPaths, record: AlignedRecord) -> dict[Path, str]:
    named = paths._asdict()
    return {named[what]: sha256 for what, sha256 in record.outputs.items() if what in named}


# ── the job of one scan ───────────────────────────────────────────────────────────────────────────
# The aligned copy of one prepared scan: made from its files, so that they need not be made again.
#
# As for the prepared scan itself, the sidecar is written last, and removed before anything that it
# describes is replaced.

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
    header: Any = new_nifti(grid.shape, grid.affine)
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
