"""The aligned copies in the folder of a preparation: which there are, and which must not be."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.fingerprints import FileHash
from ndflow.files.stream import sha256_of
from ndflow.image.subject import Scan
from ndflow.preparation.rigid import TEMPLATE_SPACE
from ndflow.study.findings import Checked, broken, compared
from ndflow.study.preparing.copies.copy_paths import CopyPaths, copy_paths
from ndflow.study.preparing.preparation_plan import Preparation
from ndflow.study.preparing.preparation_records import AlignedRecord

__all__ = [
    "check_copy",
    "foreign_in_copy",
    "refuse_shared_copies",
    "remove_copies",
    "remove_other_copies",
]


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
