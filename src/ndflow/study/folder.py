"""The folder of a study: what is in it, and what must not be.

OUT/images/<name>.nii.gz   the normalised scans
OUT/models/<name>.json     their densities
OUT/maps/<name>.json       the sidecars of the images: their intensity maps, and how they were made
OUT/masks/<name>.nii.gz    their brain masks, where the study has found them (--mask brain)
OUT/figures/<name>.png     previews of them for the report: slices before and after
OUT/reference.json         the common reference; reference_<site>.json for each site, and
                           map_<site>.json its map to the common one, where there is one
OUT/scans.tsv              the scans, and where they came from
OUT/failures.tsv           the scans that failed, and why
OUT/provenance.json        what was run
OUT/report.html            the page about it, see `ndflow.reporting.build`
OUT/evaluation/            what was measured, see `ndflow.evaluation.save`
OUT/prepared/              raw scans that were prepared with the study, see
`ndflow.study.prepare_run`
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.atomic import remove_abandoned
from ndflow.files.model_files import kind_in
from ndflow.files.tables import read_delimited
from ndflow.image.mask import to_be_found
from ndflow.image.preview import is_ours
from ndflow.study.plan import PREPARED, Plan, ResultPaths, Study
from ndflow.study.prepared_images import is_our_mask, keeps_mask
from ndflow.study.references import reference_name
from ndflow.study.table import OURS, read_study_scans
from ndflow.study.tasks import Failure
from ndflow.subject.records import MapRecord, ReferenceModel, ScanModel, StudyRecord
from ndflow.subject.results import is_result

PROVENANCE = "provenance.json"
REPORT = "report.html"
SCANS = "scans.tsv"
EVALUATION = "evaluation"  # the folder of it, where there is one
EVALUATION_RECORD = "evaluation.json"

UNSIGNED = "0" * 64  # stands in a report for its own SHA-256, see `signed`

_HEAD = 1 << 14  # bytes at the beginning of a page
_UNSIGNED = UNSIGNED.encode()
_GENERATOR = b'<meta name="generator" content="ndflow '
_SIGNATURE = re.compile(rb'<meta name="ndflow-sha256" content="([0-9a-f]{64})">')


def refuse_foreign(folder: Path, channel: str) -> None:
    """Refuse a folder that holds something else than a study of such images."""
    if not folder.is_dir():
        return
    if all(_holds_no_study(path) for path in folder.iterdir()):
        return
    try:
        before = StudyRecord.read(folder / PROVENANCE).channel
    except FileError:
        cause = "not empty, and not the result of a study"
        raise FileError(folder, cause, "choose another folder, or --force to use it") from None
    if before != channel:
        cause = f"holds a study of {before!r}, not of {channel!r}"
        raise FileError(folder, cause, "choose another folder, or --force to use it")


def _holds_no_study(path: Path) -> bool:
    """Return whether it is a lock, or prepared scans that a study may begin with."""
    if path.name.startswith(".ndflow-"):
        return True
    return path.name == PREPARED and kind_in(path / PROVENANCE) == PREPARED


def refuse_other_scans(study: Study) -> None:
    """Refuse a folder with results of other scans, which were brought to another reference.

    A scan that was listed, but has no results because it failed, may go.
    """
    path = study.folder / SCANS
    if not path.exists():
        return
    names = {scan.name for scan in study.scans}
    others = [
        scan.name
        for scan in read_study_scans(path)
        if scan.name not in names and any(map(os.path.lexists, study.paths(scan)))
    ]
    if others:
        cause = f"holds {len(others)} scans that are not in this study, such as {others[0]}"
        raise FileError(study.folder, cause, "choose another folder, or --force to mix them")


def refuse_inputs_inside(plan: Plan) -> None:
    """Refuse a folder for the results that the scans themselves lie in."""
    inside = os.path.join(os.path.realpath(plan.folder), "")  # noqa: PTH118
    for scan in plan.scans:
        for source in (scan.image, scan.mask, scan.lesion, *scan.tissues):
            if source is None or to_be_found(source):
                continue
            if os.path.realpath(str(source)).startswith(inside):
                cause = f"lies in the folder for the results ({scan.origin})"
                raise FileError(str(source), cause, "choose another folder for the results")


def remove_failed(study: Study, unfitted: Sequence[Failure], unwritten: Sequence[Failure]) -> None:
    """Remove what an earlier run made of scans that failed now; valid densities stay."""
    without_model = {failure.scan for failure in unfitted}
    without_image = without_model | {failure.scan for failure in unwritten}
    for scan in study.scans:
        if scan.name in without_image:
            model, *others = study.paths(scan)
            if scan.name in without_model:
                others += [model, *([study.paths(scan).mask] if keeps_mask(scan) else [])]
            for path in others:
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def remove_page(folder: Path) -> None:
    """Remove the report of an earlier run, unless somebody else wrote or edited it."""
    with suppress(OSError):
        if is_our_page(folder / REPORT):
            (folder / REPORT).unlink()


def refuse_foreign_page(path: Path, *, force: bool = False) -> None:
    """Refuse to replace a report that ndflow did not write; `force` allows an edited one."""
    if not os.path.lexists(path) or is_our_page(path):
        return
    if _GENERATOR not in head_of_page(path):
        raise FileError(path, "exists, and was not written by ndflow", "move it elsewhere")
    if not force:
        cause = "edited since ndflow wrote it, or written by an old version"
        raise FileError(path, cause, "move it elsewhere, or --force to replace it")


def signed(page: str) -> bytes:
    """Return a report as it is written: with its own SHA-256 in place of `UNSIGNED`."""
    content = page.encode("utf-8", "replace")
    return content.replace(_UNSIGNED, hashlib.sha256(content).hexdigest().encode(), 1)


def head_of_page(path: Path) -> bytes:
    """Return what a page says about itself; nothing if there is no page."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD).partition(b"<style")[0].partition(b"<body")[0]
    except OSError:
        return b""


def is_our_page(path: Path) -> bool:
    """Return whether ndflow wrote a report, and nobody has edited it since."""
    found = _SIGNATURE.search(head_of_page(path))
    if found is None or _GENERATOR not in head_of_page(path):
        return False
    content = path.read_bytes().replace(found[1], _UNSIGNED, 1)
    return hashlib.sha256(content).hexdigest().encode() == found[1]


def remove_leftovers(plan: Plan) -> None:
    """Remove the temporary files of runs that were killed."""
    folders = {path.parent for scan in plan.scans for path in plan.paths(scan)}
    for folder in {plan.folder, *folders}:
        remove_abandoned(folder)


def remove_unused_masks(study: Study) -> None:
    """Remove masks of an earlier run that are no longer to be found, and what is left of others."""
    paths = {scan.name: study.paths(scan).mask for scan in study.scans}
    for folder in {path.parent for path in paths.values()}:
        remove_abandoned(folder)
    for scan in study.scans:
        path = paths[scan.name]
        if not keeps_mask(scan) and path.exists() and is_our_mask(path):
            with suppress(OSError):
                path.unlink()


def studies_in(folder: Path) -> list[str]:
    """Return the names of the channels whose studies lie in a folder, if there are any."""
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
    return [one.name for one in inside if _channel_of(one) == one.name]


def _channel_of(folder: Path) -> str | None:
    """Return what the images of a study show; None where there is no study."""
    try:
        return StudyRecord.read(folder / PROVENANCE).channel
    except FileError:
        return None


# ── what is ours ──────────────────────────────────────────────────────────────────────────────────
# Which files in the folder of a study are ours: no others are ever replaced or removed.
#
# A folder whose ``provenance.json`` is ours belongs to a study, with all files at its top that we
# write, and with the results of the scans that its ``scans.tsv`` lists. Any other file that a study
# would write must show by its content that it is ours: a model by what it says, an image by the
# sidecar that holds its hash, a preview by the note in it, a brain mask by its header.


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
