"""The images of a joint study on its page: rows of the table, and joint densities of a few."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ndflow.density import GaussianMixture
from ndflow.figures.style import svg
from ndflow.image.preview import Preview
from ndflow.image.subject import Subject
from ndflow.reporting.content import Column, Picture, ScanEntry
from ndflow.reporting.montage import thumbnail
from ndflow.reporting.scan_section import noted, preview_of, slices_of
from ndflow.study.checks import NO_SITE
from ndflow.study.plan import Study
from ndflow.subject.plot import plot_channels
from ndflow.subject.records import MapRecord
from ndflow.values import Doubt

COLUMNS = (
    Column("channel", "What the image shows", True),
    Column("joint", "Distance of all channels from the target, in sd, after the joint map", True),
    Column("by itself", "The same after a map of each channel by itself", True),
    Column("z-scored", "The same after z-scoring", True),
    Column("moved", "How far the joint flow moved voxels, in standard deviations"),
    Column("smallest det", "Smallest determinant of the Jacobian of the joint flow"),
    Column("largest det", "Largest determinant of the Jacobian of the joint flow"),
    Column("voxels", "Voxels from which the densities were estimated"),
)
METHODS = (
    "The channels of each subject were brought to one joint reference together, by the map of each "
    "channel by itself and then a joint flow, unless that would have led away from the reference."
)
_DRAWN = 3  # subjects whose joint densities are shown


class ChannelImage(NamedTuple):
    """One channel of a subject."""

    scan: Subject
    record: MapRecord
    picture: Path
    preview: Preview | None

    @property
    def flags(self) -> list[Doubt]:
        """What to check."""
        return [*self.record.doubts, *noted(self.record.warnings)]


def read_channel(study: Study, scan: Subject, channel: str) -> ChannelImage:
    """Read what the files of a study say about one channel of a subject."""
    paths = study.paths(scan, channel)
    record = MapRecord.read(paths.sidecar)
    return ChannelImage(scan.alone(channel), record, paths.preview, preview_of(paths.preview))


def densities(
    images: Sequence[ChannelImage], target: GaussianMixture, names: Sequence[str]
) -> list[Picture]:
    """Return the joint densities of the first subjects, before and after."""
    pictures = []
    for one in [one for one in images if one.record.channel == names[0]][:_DRAWN]:
        mixture = one.record.mixture
        if mixture is not None:
            drawn = plot_channels(mixture, one.record.map, target, names)
            called = one.scan.person or one.scan.name
            about = f"Joint densities of {called}, before and after, with those of the reference"
            pictures.append(Picture(svg(drawn), about, caption=f"{called}, drawn from its density"))
    return pictures


def entry(one: ChannelImage, *, embedded: bool) -> ScanEntry:
    """Return what the page says of an image; `embedded` if its slices are part of the page."""
    figures, voxels, preview = one.record.joint, one.record.voxels, one.preview
    measured: list[str | float | None] = [None] * 6
    if figures is not None:
        distances = (figures.finished, figures.channelwise, figures.aligned)
        measured = [*distances, figures.moved, *figures.determinants]
    return ScanEntry(
        one.scan.output.name,
        one.scan.site or NO_SITE,
        [one.record.channel, *measured, None if voxels is None else voxels.fitted],
        one.flags,
        thumbnail=None if preview is None else thumbnail(preview, preview.after_window),
        slices=None if preview is None else slices_of(one.picture, preview, embedded=embedded),
    )
