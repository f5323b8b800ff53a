"""The content of a report, as plain values: nothing is read and nothing is laid out here.

A `Page` lists its parts in reading order. All text is plain text, from whatever table it comes;
only `Picture.svg` is markup, and is cleaned when it is shown (see `ndflow.reporting.page`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ndflow.evaluation.summary import Section
from ndflow.values import Doubt


class Picture(NamedTuple):
    """A drawing, a description for those who cannot see it, and a caption."""

    svg: bytes
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Column:
    """A column of the table of scans.

    Attributes
    ----------
    name, meaning : what it is called, and what that means.
    shown : whether it is shown at first.
    form : how its numbers are written, as `str.format` takes it; by default with three digits.
    """

    name: str
    meaning: str
    shown: bool = False
    form: str = ""


class Montage(NamedTuple):
    """One slice of a scan of each site, before and after, in one grey window each.

    Attributes
    ----------
    sites, scans : the sites, and the scan of each that is shown.
    before, after : one picture per site (PNG).
    caption : what is shown, and in which windows.
    """

    sites: Sequence[str]
    scans: Sequence[str]
    before: Sequence[bytes]
    after: Sequence[bytes]
    caption: str


@dataclass(frozen=True)
class PreparedPicture:
    """The picture for quality control of a prepared scan.

    Attributes
    ----------
    link : where the picture lies, relative to the page; empty if it does not lie beside it.
    png : the picture itself, where the page contains it; None otherwise.
    width, height : in pixels.
    """

    link: str
    png: bytes | None
    width: int
    height: int


@dataclass(frozen=True)
class Slices(PreparedPicture):
    """Three slices of a scan side by side, before and after: the file of its preview.

    The picture has twice the height given here: before above, after below.

    Attributes
    ----------
    before, after : the intensities that are black and white in each half.
    lesion : the outline of the lesion in each half, a path of SVG; empty where there is none.
    """

    before: tuple[float, float]
    after: tuple[float, float]
    lesion: str = ""


class Volumes(NamedTuple):
    """A scan before and after: small NIfTI-1 volumes, compressed (``.nii.gz``), on one grid."""

    before: bytes
    after: bytes


@dataclass(frozen=True)
class ScanEntry:
    """A scan: a row of the table, and what the row opens to.

    Attributes
    ----------
    name, site : of the scan.
    cells : one per column of the page; None or NaN where there is no value.
    flags : what to check; a scan without any is as it should be.
    thumbnail : a small PNG of it after normalisation.
    slices : of it before and after.
    curves : lists of points, all of one length, that the page draws when the row is opened:
        ``x``, ``histogram``, ``mixture``, intensities as scanned, the density of the voxels and of
        the mixture; ``map``, ``alignment``, the intensity map at ``x``, and alignment in mean and
        standard deviation alone; ``y``, ``result``, ``target``, intensities after normalisation,
        the density of the voxels there, and that of the target.
    volumes : of its voxels, for the viewer.
    notes : other sentences about it.
    prepared : how its preparation looks.
    bands : between which intensities each tissue lies after normalisation, by its name.
    """

    name: str
    site: str
    cells: Sequence[str | float | None]
    flags: Sequence[Doubt] = ()
    thumbnail: bytes | None = None
    slices: Slices | None = None
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    volumes: Volumes | None = None
    notes: Sequence[str] = ()
    prepared: PreparedPicture | None = None
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteEntry:
    """A site: how many scans it gave, and its colour (``#rrggbb``)."""

    name: str
    count: int
    colour: str


class Headline(NamedTuple):
    """What was achieved: a sentence; a table, its head first, and what it shows; and details."""

    sentence: str
    table: Sequence[Sequence[str]] = ()
    title: str = ""
    details: str = ""


class Preparation(NamedTuple):
    """How scans were prepared: sentences, and (name, colour) of the outlines in the pictures."""

    sentences: Sequence[str]
    key: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """The whole report; what is empty or None is left out.

    Attributes
    ----------
    title, date : of the page; the date as in 17 November 2026.
    headline : what was achieved; its sentence is the verdict at the top.
    links : (name, address, sentence) of the pages of channels; no address where there is no page.
    montage : the brains.
    doubts : what to check in the study as a whole.
    masks : of a typical scan of each site, if something is wrong with a site.
    failures : (scan, cause, what to try).
    populations, densities : the densities of all scans, one picture per condition, with shared
        axes, or other densities; and their heading.
    wide_densities : whether these pictures are wide, and not by site.
    sites, scans : the study. Scans to check come first.
    columns : of the scans' cells. The first numbers are drawn by site.
    done : what was done with the scans.
    windows : the intensities that are black and white in the grey window that all scans share,
        before and after; None where there are no pictures.
    preparation : how scans were prepared by ndflow.
    tissues : to what the tissues of scans are known, and how far each site is adapted to people.
    visits : of people who were scanned several times.
    verdicts, tables, pictures : of the evaluation. It says of each run a title, and sentences under
        a few headings.
    methods : a paragraph for a paper.
    citation : BibTeX.
    facts : (name, value): versions, options, sites, counts.
    study : what readers' ratings are kept under in their browsers; its title if empty.
    """

    title: str
    date: str
    headline: Headline
    links: Sequence[tuple[str, str, str]] = ()
    montage: Montage | None = None
    doubts: Sequence[Doubt] = ()
    masks: Picture | None = None
    failures: Sequence[tuple[str, str, str]] = ()
    populations: Sequence[Picture] = ()
    densities: str = "Densities by site"
    wide_densities: bool = False
    sites: Sequence[SiteEntry] = ()
    columns: Sequence[Column] = ()
    scans: Sequence[ScanEntry] = ()
    done: str = "normalised"
    windows: tuple[tuple[float, float], tuple[float, float]] | None = None
    preparation: Preparation | None = None
    tissues: Headline | None = None
    visits: Headline | None = None
    verdicts: Sequence[tuple[str, Sequence[tuple[str, Sequence[str]]]]] = ()
    tables: Sequence[Section] = ()
    pictures: Sequence[Picture] = ()
    methods: str = ""
    citation: str = ""
    facts: Sequence[tuple[str, str]] = ()
    study: str = ""
