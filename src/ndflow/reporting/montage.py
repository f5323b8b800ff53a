"""The brains: one slice of a scan of each site, before and after, in one grey window each.

Before, one window for all sites shows what a study that pools its scans as they are would see;
after, one window for all shows what it sees now. The scan of a site is its most typical one: whose
quantiles are nearest to the average of the site's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.image.preview import Greys, Preview, Window, encode_png
from ndflow.reporting.content import Montage

if TYPE_CHECKING:
    from ndflow.reporting.scan_section import ScanSummary

_SITES = 8  # in a montage
_ENDS = (0.005, 0.995)  # quantiles of the target that are black and white
_SMALL = 64  # pixels, the longer side of a thumbnail


class Windows(NamedTuple):
    """The grey windows that all scans share, before and after."""

    before: Window
    after: Window


def shared_windows(
    scans: Sequence[ScanSummary],
    previews: Mapping[str, Preview],
    target: GaussianMixture,
) -> Windows | None:
    """Return the grey windows that all scans share; None without previews.

    Before, from 0 (or the darkest site) to the brightest site, each in the median of its scans, so
    that a single odd scan does not darken all others. After, nearly the whole range of the target.
    """
    of_sites: dict[str, list[Window]] = {}
    for scan in scans:
        one = previews.get(scan.scan.name)
        if one is not None:
            of_sites.setdefault(scan.site, []).append(one.before_window)
    if not of_sites:
        return None
    before = np.array([np.median(own, axis=0) for own in of_sites.values()])
    whole = min(0.0, float(before[:, 0].min())), float(before[:, 1].max())
    low, high = target.quantile(_ENDS).tolist()
    return Windows(_proper(whole), _proper((low, high)))


def _proper(window: Window) -> Window:
    low, high = window
    return window if low < high else (low - 0.5, low + 0.5)


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
    shown = [(site, scan.scan.name) for site, scan in chosen.items()][:_SITES]
    caption = _caption(windows, len(shown), len(chosen))
    before, after = [], []
    for _, name in shown:
        one = previews[name]
        old = regreyed(one.axial(one.before), one.before_window, windows.before)
        new = regreyed(one.axial(one.after), one.after_window, windows.after)
        before.append(encode_png(old))
        after.append(encode_png(new))
    sites, names = [site for site, _ in shown], [name for _, name in shown]
    return Montage(sites, names, before, after, caption)


def _typical_scans(
    scans: Sequence[ScanSummary], doubtful: Collection[str]
) -> dict[str, ScanSummary]:
    """Return the most typical scan of each site, in the order of the sites' names."""
    chosen = {}
    for site in sorted({scan.site for scan in scans}):
        own = [scan for scan in scans if scan.site == site]
        own = [scan for scan in own if scan.scan.name not in doubtful] or own
        quantiles = np.array([scan.quantiles("raw") for scan in own])
        off = np.abs(quantiles - quantiles.mean(axis=0)).sum(axis=1)
        chosen[site] = own[int(np.argmin(off))]
    return chosen


def _caption(windows: Windows, shown: int, sites: int) -> str:
    if sites == 1:
        return f"A typical scan; {_in_words(windows)}."
    some = f" {shown} of {sites} sites are shown." if shown < sites else ""
    return f"A typical scan of each site, all in one grey window: {_in_words(windows)}.{some}"


def _in_words(windows: Windows) -> str:
    """Return what is black and white, for a caption."""
    before, after = (f"{_short(low)} to {_short(high)}" for low, high in windows)
    return f"black to white is {before} before, and {after} after"


def _short(value: float) -> str:
    """Return a number with three digits, as people write it."""
    return f"{float(f'{value:.3g}'):,g}".replace("-", "−")


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
    greys = regreyed(preview.axial(preview.after), preview.after_window, window)
    step = max(1, -(-max(greys.shape) // _SMALL))
    ends = [(0, -length % step) for length in greys.shape]
    padded = np.pad(greys, ends)
    rows, columns = (length // step for length in padded.shape)
    blocks = padded.reshape(rows, step, columns, step).mean(axis=(1, 3))
    return encode_png(np.rint(blocks).astype(np.uint8))
