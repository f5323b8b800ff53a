"""The content of a report, as plain values: nothing is read and nothing is laid out here.

A `Page` lists its parts in reading order, and refuses parts that do not fit together. All text is
plain text, from whatever table it comes; only `Picture.svg` is markup, and is cleaned when it is
shown (see `ndflow.reporting.svg`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ndflow.doubt import Doubt
from ndflow.errors import InvalidValueError

__all__ = ["Headline", "Numbers", "Page", "Picture", "ScanEntry", "SiteEntry", "Views"]

_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")


@dataclass(frozen=True)
class Picture:
    """A drawing, a description for those who cannot see it, and a caption."""

    svg: bytes
    alt: str
    caption: str = ""

    def __post_init__(self) -> None:
        """Validate."""
        if not self.alt.strip():
            raise InvalidValueError("alt must say what the picture shows")


@dataclass(frozen=True)
class Numbers:
    """A small table: a title, a note on how to read it, the names of its columns, its rows."""

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        """Validate."""
        for row in self.rows:
            if len(row) != len(self.head):
                raise InvalidValueError(
                    f"rows of {self.title!r} must have {len(self.head)} cells, not {len(row)}"
                )


@dataclass(frozen=True)
class Views:
    """A scan before and after.

    Attributes
    ----------
    before, after : small NIfTI-1 volumes, compressed (``.nii.gz``), on one grid.
    slices : of both, for where the viewer cannot run.
    """

    before: bytes
    after: bytes
    slices: Picture


@dataclass(frozen=True)
class ScanEntry:
    """A scan: a row of the table, and what the row opens to.

    Attributes
    ----------
    name, site : of the scan.
    cells : one per column of the page; None or NaN where there is no value.
    flags : what to check; a scan without any is as it should be.
    picture : its density, map and quantiles.
    views : of its voxels.
    notes : other sentences about it.
    """

    name: str
    site: str
    cells: Sequence[str | float | None]
    flags: Sequence[Doubt] = ()
    picture: Picture | None = None
    views: Views | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class SiteEntry:
    """A site: how many scans it gave, its colour (``#rrggbb``) and what happened to it."""

    name: str
    count: int
    colour: str
    picture: Picture | None
    sentence: str

    def __post_init__(self) -> None:
        """Validate."""
        if not _COLOUR.fullmatch(self.colour):
            raise InvalidValueError(f"colour must be like '#0072B2', not {self.colour!r}")


@dataclass(frozen=True)
class Headline:
    """What was achieved: a sentence, a few (label, value) numbers, and one picture."""

    sentence: str
    numbers: Sequence[tuple[str, str]]
    picture: Picture


@dataclass(frozen=True)
class Page:
    """The whole report, in reading order.

    Attributes
    ----------
    title : of the page.
    facts : (name, value): versions, options, sites, counts.
    failures : (scan, cause, what to try).
    headline : what was achieved.
    populations : the densities of all scans, before and after.
    sites, scans : the study.
    columns : the names of the scans' cells.
    tables, pictures : further results.
    methods : a paragraph for a paper.
    citation : BibTeX.
    explained : what the columns mean.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    failures: Sequence[tuple[str, str, str]]
    headline: Headline
    populations: Picture | None
    sites: Sequence[SiteEntry]
    columns: Sequence[str]
    scans: Sequence[ScanEntry]
    tables: Sequence[Numbers]
    pictures: Sequence[Picture]
    methods: str
    citation: str
    explained: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        """Validate."""
        for scan in self.scans:
            if len(scan.cells) != len(self.columns):
                raise InvalidValueError(
                    f"cells of {scan.name!r} must be {len(self.columns)}, one per column, "
                    f"not {len(scan.cells)}"
                )
