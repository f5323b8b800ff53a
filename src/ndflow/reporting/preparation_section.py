"""How scans were prepared, on a page: pictures for quality control, measures, and what to check."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ndflow.doubt import Doubt
from ndflow.preparation.picture import OUTLINES
from ndflow.reporting.content import Column, Numbers, Preparation, PreparedEntry
from ndflow.reporting.page import picture_size
from ndflow.reporting.scan_section import ScanSummary
from ndflow.study.distances import NO_SITE
from ndflow.study.finished import PreparedImage, preparation_of
from ndflow.study.prepare_records import PreparationRecord
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
    ("mask", "nonzero"): "In {}, all voxels but 0 count as brain.",
    ("bias field", "corrected"): "Bias fields of {} were corrected by N4.",
    ("bias field", "left"): "Bias fields of {} were left as they are.",
    ("tissues", "found"): "Tissues of {} were found with a deformed template.",
    ("tissues", "given"): "Tissue probability maps of {} were given.",
}
_DIGITS = (0, 0, 0, 0, 3, 2, 2, 2, 0)  # decimals of the columns
_HEADER = 24  # bytes of a PNG, up to its size


class PreparedScan(NamedTuple):
    """A scan of a page that ndflow has prepared.

    Attributes
    ----------
    name, site : of the scan.
    prepared : how it was prepared.
    """

    name: str
    site: str
    prepared: PreparedImage

    @property
    def record(self) -> PreparationRecord:
        """How it was prepared."""
        return self.prepared.record

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What to check."""
        return self.record.doubts


def prepared_scans(scans: Iterable[ScanSummary]) -> list[PreparedScan]:
    """Return those scans of a study that ndflow has prepared."""
    found = []
    for scan in scans:
        inputs = (scan.record.inputs or {}).get("image", ())
        prepared = preparation_of(scan.scan.path, inputs[0].sha256 if inputs else None)
        if prepared is not None:
            found.append(PreparedScan(scan.scan.name, scan.site, prepared))
    return found


def preparation_section(
    scans: Sequence[PreparedScan],
    folder: Path,
    *,
    embedded: Collection[str] = (),
    table: bool = True,
) -> Preparation | None:
    """Return what the page says about the preparation; None if nothing was prepared by ndflow.

    Parameters
    ----------
    scans : those that were.
    folder : of the page.
    embedded : the names of scans whose pictures are part of the page.
    table : whether to list what was measured.
    """
    if not scans:
        return None
    ordered = sorted(scans, key=lambda scan: not scan.doubts)
    lesions = any("lesion" in scan.record.inputs for scan in scans)
    return Preparation(
        sentences=_sentences(scans),
        key=[(_KEY[name], OUTLINES[name]) for name in OUTLINES if name != "lesion" or lesions],
        scans=[
            _entry(scan, scan.prepared.picture, folder, scan.name in embedded)
            for scan in ordered
            if scan.prepared.picture is not None
        ],
        table=_table(scans) if table else None,
    )


def _sentences(scans: Sequence[PreparedScan]) -> list[str]:
    """Return what was done, and to how many scans."""
    counts = Counter(step for scan in scans for step in scan.record.steps.items())
    return [
        text.format(plural(counts[step], "scan")) for step, text in _STEPS.items() if counts[step]
    ]


def _entry(scan: PreparedScan, picture: Path, folder: Path, embedded: bool) -> PreparedEntry:
    content = picture.read_bytes() if embedded else None
    with picture.open("rb") as file:
        width, height = picture_size(file.read(_HEADER))
    link = Path(os.path.relpath(os.path.realpath(picture), os.path.realpath(folder))).as_posix()
    return PreparedEntry(scan.name, scan.site, link, content, width, height, scan.doubts)


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
        sum(record.seconds.values()) if record.seconds else None,
    ]


def _table(scans: Sequence[PreparedScan]) -> Numbers:
    """Return what was measured, as a table of its own."""
    rows = []
    for scan in scans:
        own = [
            _number(cell, digits) for cell, digits in zip(cells(scan.record), _DIGITS, strict=True)
        ]
        site = "" if scan.site == NO_SITE else scan.site
        rows.append([scan.name, site, *own, ", ".join(doubt.kind for doubt in scan.doubts)])
    names = [column.name for column in COLUMNS]
    note = "; ".join(f"{column.name}: {_lower(column.meaning)}" for column in COLUMNS[4:])
    return Numbers(
        "What was measured",
        f"Volumes in millilitres; {note}.",
        ["Scan", "Site", *names, "To check"],
        rows,
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _number(cell: str | float | None, digits: int) -> str:
    return f"{cell:,.{digits}f}" if isinstance(cell, float) else "–"
