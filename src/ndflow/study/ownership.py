"""Which files in the folder of a study are ours: no others are ever replaced or removed.

A folder whose ``provenance.json`` is ours belongs to a study, with all files at its top that we
write, and with the results of the scans that its ``scans.tsv`` lists. Any other file that a study
would write must show by its content that it is ours: a model by what it says, an image by the
sidecar that holds its hash, a preview by the note in it, a brain mask by its header.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.model_files import kind_in
from ndflow.files.tables import read_delimited
from ndflow.image.preview import is_ours
from ndflow.scan.records import MapRecord, ReferenceModel, ScanModel, StudyRecord
from ndflow.scan.results import is_result
from ndflow.study.folder import PROVENANCE, SCANS
from ndflow.study.listing.columns import OURS
from ndflow.study.listing.scan_table import read_study_scans
from ndflow.study.plan import ResultPaths, Study
from ndflow.study.preparing.kept_mask import is_our_mask, keeps_mask
from ndflow.study.references import reference_name

__all__ = ["refuse_replacing"]


def refuse_replacing(study: Study, *, images: bool = True) -> None:
    """Refuse, before any work, to write where there is a file that we did not write.

    Parameters
    ----------
    study : what is to be done.
    images : whether images and references are written; otherwise only densities.
    """
    _refuse_inputs(study)
    for path in _foreign(study, images=images):
        cause = "exists, and was not written by ndflow"
        raise FileError(path, cause, "move it, or choose another folder for the results")


def _refuse_inputs(study: Study) -> None:
    """Refuse a table or a reference that lies where the study writes its own."""
    written = {os.path.realpath(path) for path in (study.folder / PROVENANCE, *_at_the_top(study))}
    for source in (study.table, study.given):
        if source is not None and os.path.realpath(source) in written:
            cause = "lies where the study writes a file of that name"
            raise FileError(source, cause, "move it, or choose another folder for the results")


def _at_the_top(study: Study) -> dict[Path, str | None]:
    """Return what is written at the top of the folder, and of which kind models are."""
    folder = study.folder
    names: dict[str, str | None] = {SCANS: None, reference_name(None): ReferenceModel.kind}
    for site in study.site_counts:
        names[reference_name(site)] = ReferenceModel.kind
        names[reference_name(site, "map")] = MapRecord.kind
    return {folder / name: kind for name, kind in names.items()}


def _foreign(study: Study, *, images: bool) -> Iterator[Path]:
    """Yield the files that the study would replace and that are not ours."""
    provenance = study.folder / PROVENANCE
    owned = kind_in(provenance) == StudyRecord.kind
    if images and not owned:
        if provenance.is_file():
            yield provenance
        for path, kind in _at_the_top(study).items():
            if path.is_file() and not (
                _is_list_of_scans(path) if kind is None else kind_in(path) == kind
            ):
                yield path
    listed = _listed(study.folder / SCANS) if owned else set()
    for scan in study.scans:
        if scan.name not in listed:
            paths = study.paths(scan)
            yield from _foreign_results(paths, images=images)
            if keeps_mask(scan) and paths.mask.is_file() and not is_our_mask(paths.mask):
                yield paths.mask


def _foreign_results(paths: ResultPaths, *, images: bool) -> Iterator[Path]:
    if paths.model.is_file() and kind_in(paths.model) != ScanModel.kind:
        yield paths.model
    if images and paths.sidecar.is_file() and kind_in(paths.sidecar) != MapRecord.kind:
        yield paths.sidecar
    if images and paths.image.is_file() and not is_result(paths.image, paths.sidecar):
        yield paths.image
    if images and paths.preview.is_file() and not is_ours(paths.preview):
        yield paths.preview


def _is_list_of_scans(path: Path) -> bool:
    try:
        return tuple(read_delimited(path).columns[:2]) == OURS[:2]
    except FileError:
        return False


def _listed(path: Path) -> set[str]:
    """Return the names of the scans that an earlier run listed."""
    try:
        return {scan.name for scan in read_study_scans(path)}
    except FileError:
        return set()
