"""The page of a joint study, OUT/report.html: every image before and after, and how it was mapped.

It has the scans to check, the subjects that failed, the joint densities of a few, a table of all
images with what was measured, which can be sorted, filtered and rated, and slices of each.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ndflow.doubt import Doubt
from ndflow.errors import FileError
from ndflow.figures.style import colours, svg
from ndflow.image.preview import Preview, read_preview
from ndflow.image.subject import Scan
from ndflow.reporting.content import Column, Headline, Page, Picture, ScanEntry, SiteEntry, Slices
from ndflow.reporting.montage import thumbnail
from ndflow.study.distances import NO_SITE
from ndflow.study.finished import read_joint_record
from ndflow.study.folder import SCANS
from ndflow.study.joint_plan import JointStudyRecord
from ndflow.study.table import read_study_scans
from ndflow.study.tasks import read_failures
from ndflow.subject.channels import listed
from ndflow.subject.plot import plot_joint_density
from ndflow.subject.records import JointMapRecord
from ndflow.values import plural

_COLUMNS = (
    Column("channel", "What the image shows", True),
    Column(
        "aligned",
        "Distance of all channels of the subject from the target (sliced Wasserstein), in standard "
        "deviations, after alignment of mean and standard deviation alone",
        True,
    ),
    Column("by itself", "The same after a map of each channel by itself", True),
    Column("joint", "The same after the joint map, which made the image", True),
    Column("moved", "How far the joint flow moved voxels, in standard deviations"),
    Column("smallest det", "Smallest determinant of the Jacobian of the joint flow"),
    Column("largest det", "Largest determinant of the Jacobian of the joint flow"),
    Column("voxels", "Voxels from which the densities were estimated"),
)
_DRAWN = 3  # subjects whose joint densities are shown
_METHODS = (
    "The channels of each subject were brought to one joint reference together, by the map of each "
    "channel by itself and then a joint flow, unless that would have led away from the reference."
)


class _Image(NamedTuple):
    """One channel of a subject."""

    scan: Scan
    record: JointMapRecord
    preview: Preview | None

    @property
    def flags(self) -> list[Doubt]:
        warnings = (Doubt("warning", text, "see what it says") for text in self.record.warnings)
        return [*self.record.doubts, *warnings]


def joint_page(
    folder: Path,
    *,
    title: str | None,
    date: str,
    study: str,
    sample: int,
    begin: Callable[[int], Callable[[], None]],
) -> Page:
    """Return the page of a joint study.

    Parameters
    ----------
    folder : of the study.
    title, date : of the page; the title is by default the name of the folder.
    study : what readers' ratings are kept under.
    sample : how many images have their slices in the page itself, those to check first.
    begin : is told how many images there are, and returns what is to be called after each.

    Raises
    ------
    FileError
        Where the folder holds no finished joint study.
    """
    record = read_joint_record(folder)
    images = _images(folder, begin)
    images.sort(key=lambda one: not one.flags)  # those to check come first
    failures = read_failures(folder)
    counts = Counter(one.scan.site or NO_SITE for one in images)
    sites = sorted(counts)
    palette = colours(sites)
    named = [SiteEntry(site, counts[site], palette[site], [], "") for site in sites]
    return Page(
        title=title or folder.name,
        date=date,
        headline=Headline(_sentence(images, record, len(failures)), []),
        montage=None,
        failures=failures,
        populations=_densities(images, record.channel_names),
        densities="Joint densities",
        wide_densities=True,
        sites=named if len(sites) > 1 else [],
        columns=_COLUMNS,
        scans=[_entry(folder, one, embedded=place < sample) for place, one in enumerate(images)],
        windows=None,
        verdicts=[],
        tables=[],
        pictures=[],
        methods=_METHODS,
        citation="",
        facts=[
            ("Command", shlex.join(record.command)),
            ("Channels", ", ".join(record.channel_names)),
            ("Subjects", f"{record.normalised} normalised, {len(failures)} failed"),
            ("Reference", record.reference or "made from these subjects"),
            ("Settings", ", ".join(f"{name} {value}" for name, value in record.settings.items())),
            ("Versions", ", ".join(f"{name} {one}" for name, one in record.versions.items())),
        ],
        study=study,
    )


def _images(folder: Path, begin: Callable[[int], Callable[[], None]]) -> list[_Image]:
    """Return the images that were written."""
    listing = read_study_scans(folder / SCANS)
    scans = [scan for scan in listing if (folder / scan.sidecar).exists()]
    step = begin(len(scans))
    found = []
    for scan in scans:
        preview = None
        with suppress(FileError):
            preview = read_preview(folder / _preview(scan))
        found.append(_Image(scan, JointMapRecord.read(folder / scan.sidecar), preview))
        step()
    return found


def _densities(images: list[_Image], names: tuple[str, ...]) -> list[Picture]:
    """Return the joint densities of a few subjects before and after, those to check first."""
    pictures = []
    for one in [one for one in images if one.record.channel == names[0]][:_DRAWN]:
        mixture, target = one.record.mixture, one.record.target
        if mixture is not None and target is not None:
            drawn = plot_joint_density(mixture, one.record.map, target.mixture, names)
            called = one.scan.subject or one.scan.name
            about = f"Joint densities of {called}, before and after, with those of the reference"
            pictures.append(Picture(svg(drawn), about, caption=f"{called}, drawn from its density"))
    return pictures


def _preview(scan: Scan) -> str:
    return f"figures/{scan.name}.png"


def _entry(folder: Path, one: _Image, *, embedded: bool) -> ScanEntry:
    figures, voxels, preview = one.record.joint, one.record.voxels, one.preview
    measured: list[str | float | None] = [None] * 6
    if figures is not None:
        low, high = figures.determinants
        distances = (figures.aligned, figures.channelwise, figures.finished)
        measured = [*distances, figures.moved, low, high]
    slices = None
    if preview is not None:
        height, width = preview.before.shape
        slices = Slices(
            _preview(one.scan),
            (folder / _preview(one.scan)).read_bytes() if embedded else None,
            width,
            height,
            preview.before_window,
            preview.after_window,
            preview.lesion,
        )
    return ScanEntry(
        one.scan.name,
        one.scan.site or NO_SITE,
        [one.record.channel, *measured, None if voxels is None else voxels.fitted],
        one.flags,
        thumbnail=None if preview is None else thumbnail(preview, preview.after_window),
        slices=slices,
    )


def _sentence(images: list[_Image], record: JointStudyRecord, failed: int) -> str:
    flagged = sum(bool(one.flags) for one in images)
    subjects = plural(record.normalised or 0, "subject")
    verb = "was" if record.normalised == 1 else "were"
    done = f"{listed(record.channel_names)} of {subjects} {verb} normalised together"
    check = f"{flagged or 'none'} of {plural(len(images), 'image')} should be checked"
    return f"{done}, {failed or 'none'} failed, and {check}."
