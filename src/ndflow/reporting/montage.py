"""The brains: one slice of a scan of each site, before and after, in one grey window each.

Before, one window for all sites shows what a study that pools its scans as they are would see;
after, one window for all shows what it sees now. Both follow the same rule, so that neither is made
to look better: the same two quantiles of the voxels inside the masks, each in the median scan of a
site, those of the darkest and of the brightest site. The median leaves out single odd scans, which
would darken all others. The scan of a site is its most typical one: whose quantiles are nearest to
the average of the site's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ndflow.errors import FileError, InvalidValueError
from ndflow.figures.cohort import MaskSlice, masks_figure
from ndflow.figures.style import svg
from ndflow.image.mask import BoolArray
from ndflow.image.preview import Greys, Preview, Window, encode_png, upright
from ndflow.reporting.content import Montage, Picture
from ndflow.study.finished import read_raw_voxels
from ndflow.study.site_checks import SHOWN
from ndflow.values import Doubt, FloatArray, listed

if TYPE_CHECKING:
    from ndflow.reporting.scan_section import ScanSummary

_SITES = 8  # in a montage
_AROUND = 12.0  # mm around a mask: what it has left out must be seen
_SMALL = 64  # pixels, the longer side of a thumbnail


class Windows(NamedTuple):
    """The grey windows that all scans share, before and after."""

    before: Window
    after: Window


def shared_windows(scans: Sequence[ScanSummary]) -> Windows:
    """Return the grey windows that all scans share."""
    return Windows(_shared(scans, "raw"), _shared(scans, "result"))


def _shared(scans: Sequence[ScanSummary], condition: str) -> Window:
    """Return the first and the last quantile, .005 and .995, of the darkest and brightest site."""
    of_sites: dict[str, list[tuple[float, float]]] = {}
    for scan in scans:
        quantiles = scan.quantiles[condition]
        of_sites.setdefault(scan.site, []).append((float(quantiles[0]), float(quantiles[-1])))
    usual = np.array([np.median(own, axis=0) for own in of_sites.values()])
    return float(usual[:, 0].min()), float(usual[:, 1].max())


def montage(
    scans: Sequence[ScanSummary],
    previews: Mapping[str, Preview],
    windows: Windows,
    doubtful: Collection[str],
) -> Montage:
    """Return the montage of a study.

    Parameters
    ----------
    scans, previews : the scans, and the previews of those that have one.
    windows : see `shared_windows`.
    doubtful : names of scans that should not stand for their site if others can.
    """
    chosen = _typical_scans([scan for scan in scans if scan.scan.name in previews], doubtful)
    sites = list(chosen)[:_SITES]
    names = [chosen[site].scan.name for site in sites]
    before, after = [], []
    for one in (previews[name] for name in names):
        greys = regreyed(one.axial(one.before), one.before_window, windows.before)
        before.append(encode_png(greys))
        after.append(encode_png(_result(one, windows.after)))
    return Montage(sites, names, before, after, _caption(windows, len(sites), len(chosen)))


def _typical_scans(
    scans: Sequence[ScanSummary], doubtful: Collection[str]
) -> dict[str, ScanSummary]:
    """Return the most typical scan of each site, in the order of the sites' names."""
    chosen = {}
    for site in sorted({scan.site for scan in scans}):
        own = [scan for scan in scans if scan.site == site]
        own = [scan for scan in own if scan.scan.name not in doubtful] or own
        quantiles = np.array([scan.quantiles["raw"] for scan in own])
        off = np.abs(quantiles - quantiles.mean(axis=0)).sum(axis=1)
        chosen[site] = own[int(np.argmin(off))]
    return chosen


def masks_of_sites(
    scans: Sequence[ScanSummary], doubts: Sequence[Doubt], max_bytes: int
) -> Picture | None:
    """Return the masks of a typical scan of each site, on the scans as they were.

    Parameters
    ----------
    scans : of a study.
    doubts : about the study; there is a picture if it explains one, with the sites that they name.
    max_bytes : the largest file to read.
    """
    told = [doubt.text for doubt in doubts if doubt.kind in SHOWN]
    typical, shown = _typical_scans(scans if told else (), ()), {}
    wrong = [site for site in typical if any(text.startswith(f"At {site}, ") for text in told)]
    for site in sorted([*dict.fromkeys([*wrong, *typical])][:_SITES]):
        scan = typical[site]
        with suppress(FileError, InvalidValueError):  # files that are no longer there
            voxels = read_raw_voxels(scan.scan, scan.record, max_bytes=max_bytes)
            values, spacing = upright(voxels.volume, np.ones_like(voxels.inside))
            inside = np.isfinite(upright(voxels.volume, voxels.inside)[0])
            shown[site] = [_middle(values, inside, spacing, axis) for axis in (2, 1)]
    if not shown:
        return None
    where = "each site" if len(shown) > 1 else "the study"
    text = f"The outline of the mask on a typical scan of {where}"
    return Picture(svg(masks_figure(shown)), f"{text}: {listed(list(shown))}", f"{text}.")


def _middle(
    values: FloatArray, inside: BoolArray, spacing: Sequence[float], axis: int
) -> MaskSlice:
    """Return the slice across an axis through the middle of the mask, cropped to it."""
    box: list[slice | int] = []
    for at, size in zip(np.nonzero(inside), spacing, strict=True):
        around = round(_AROUND / size)
        box.append(slice(max(0, at.min() - around), at.max() + 1 + around))
    box[axis] = int((np.flatnonzero(inside.any(axis=tuple({0, 1, 2} - {axis})))).mean())
    across, up = (spacing[other] for other in range(3) if other != axis)
    return MaskSlice(np.nan_to_num(values[tuple(box)]), inside[tuple(box)], (across, up))


def _caption(windows: Windows, shown: int, sites: int) -> str:
    before, after = (
        " to ".join(f"{float(f'{end:.3g}'):,g}".replace("-", "−") for end in window)
        for window in windows
    )
    greys = f"black to white is {before} before and {after} after, by the same percentiles"
    if sites == 1:
        return f"A typical scan; {greys}."
    some = f" {shown} of {sites} sites are shown." if shown < sites else ""
    return f"A typical scan of each site, all in one grey window: {greys}.{some}"


def regreyed(greys: Greys, own: Window, window: Window) -> Greys:
    """Return a picture in another grey window; 0 stays outside.

    Parameters
    ----------
    greys : the picture, from 1 to 255.
    own, window : the intensities that are black and white in it, and that are to be.
    """
    levels = np.arange(256)
    values = own[0] + (own[1] - own[0]) * (levels - 1) / 254
    share = np.clip((values - window[0]) / (window[1] - window[0]), 0, 1)
    table = np.rint(1 + 254 * share).astype(np.uint8)
    table[0] = 0
    return table[greys]


def thumbnail(preview: Preview, window: Window) -> bytes:
    """Return a small picture of a scan after normalisation, as a PNG file.

    Parameters
    ----------
    preview : of the scan.
    window : the grey window of all scans.
    """
    greys = _result(preview, window)
    step = max(1, -(-max(greys.shape) // _SMALL))
    padded = np.pad(greys, [(0, -length % step) for length in greys.shape])
    rows, columns = (length // step for length in padded.shape)
    blocks = padded.reshape(rows, step, columns, step).mean(axis=(1, 3))
    return encode_png(np.rint(blocks).astype(np.uint8))


def _result(preview: Preview, window: Window) -> Greys:
    """Return the axial slice of a scan after normalisation."""
    return regreyed(preview.axial(preview.after), preview.after_window, window)
