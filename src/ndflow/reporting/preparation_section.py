"""How scans were prepared, on a page: pictures for quality control, measures, and what to check."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.outputs import sidecar_of, stem
from ndflow.preparation.picture import OUTLINES
from ndflow.reporting.content import Column, Preparation, PreparedPicture
from ndflow.reporting.page import picture_size
from ndflow.study.plan import FIGURES
from ndflow.study.prepare_step import PreparationRecord
from ndflow.values import plural

COLUMNS = (
    Column("brain", "Volume of the brain mask, in millilitres", True),
    Column("CSF", "Volume of CSF, in millilitres", True),
    Column("GM", "Volume of GM, in millilitres", True),
    Column("WM", "Volume of WM, in millilitres", True),
    Column("overlap", "Overlap of the deformed template with the mask (Dice coefficient)", True),
    Column("likeness", "Correlation of the deformed template with the scan inside the brain"),
    Column("bias", "Largest bias in the brain, as a multiple of the smallest"),
    Column("agreement", "Share of the brain where tissues are those that the template expects"),
    Column("seconds", "How long the preparation took"),
)

_KEY = {"mask": "mask", "GM": "GM and CSF", "WM": "WM", "lesion": "lesion"}  # in words
_STEPS = {  # what was done, and what it was done to
    ("mask", "brain"): "Brains of {} were found by deepbet.",
    ("mask", "given"): "Masks of {} were given.",
    ("mask", "nonzero"): "In {}, all non-zero voxels are used as brain.",
    ("bias field", "corrected"): "Bias fields of {} were corrected by N4.",
    ("bias field", "left"): "Bias fields of {} were left as they are.",
    ("tissues", "found"): "Tissues of {} were found with a deformed template.",
    ("tissues", "given"): "Tissue probability maps of {} were given.",
    ("channels", "registered"): "Channels of {} were registered with the T1w image by greedy.",
}


def section(records: Sequence[PreparationRecord]) -> Preparation | None:
    """Return what the page says about the preparation; None if nothing was prepared by ndflow."""
    if not records:
        return None
    counts = Counter(step for record in records for step in record.steps.items())
    lesions = any("lesion" in record.inputs for record in records)
    return Preparation(
        [_STEPS[step].format(plural(counts[step], "scan")) for step in _STEPS if counts[step]],
        [(_KEY[name], OUTLINES[name]) for name in OUTLINES if name != "lesion" or lesions],
    )


def picture(prepared: PreparedImage, folder: Path, *, embedded: bool) -> PreparedPicture | None:
    """Return the picture of a prepared scan; None if it is not there.

    Parameters
    ----------
    prepared : how the scan was prepared.
    folder : of the page.
    embedded : whether the picture is part of the page.
    """
    if prepared.picture is None:
        return None
    content = prepared.picture.read_bytes()
    where = os.path.relpath(os.path.realpath(prepared.picture), os.path.realpath(folder))
    return PreparedPicture(
        Path(where).as_posix(), content if embedded else None, *picture_size(content)
    )


def cells(record: PreparationRecord) -> list[str | float | None]:
    """Return what was measured, in the order of `COLUMNS`."""
    known = record.measures
    least, most = known.field or (None, None)
    return [
        known.brain_ml,
        *(known.tissues_ml or (None, None, None)),
        known.overlap,
        known.likeness,
        None if least is None or most is None else most / least,
        known.agreement,
        record.seconds or None,
    ]


# ── how a scan was prepared ───────────────────────────────────────────────────────────────────────

_DEPTH = 4  # folders above an image: anat, session, subject, and that of the preparation


class PreparedImage(NamedTuple):
    """What is known about an image that ndflow has prepared.

    Attributes
    ----------
    record : of its preparation.
    picture : for quality control; None if it is not there.
    """

    record: PreparationRecord
    picture: Path | None


def preparation_of(image: AnyPath, sha256: str | None = None) -> PreparedImage | None:
    """Return how an image was prepared; None if ndflow has not prepared it.

    That of a copy in the space of a template is that of the image which it is a copy of.

    Parameters
    ----------
    image : the file.
    sha256 : its hash. Somebody may have changed it after it was prepared; then the record is about
        another image.
    """
    path = Path(image)
    for record_path in (sidecar_of(path), *path.parent.glob("*_desc-preproc_*.json")):
        try:
            record = PreparationRecord.read(record_path)
        except FileError:  # that of somebody else
            continue
        if record.outputs.get(path.name) == (sha256 or record.outputs.get(path.name, "")):
            name = f"{stem(record_path)}.png"
            places = (folder / FIGURES / name for folder in path.parents[:_DEPTH])
            return PreparedImage(record, next((place for place in places if place.is_file()), None))
    return None
