"""How well maps recover the truth of a simulated world of several channels.

All maps bring scans to the same reference, so everything is measured in its scale, in standard
deviations of its canonical intensities, channel by channel.

- *spread*: voxels of the same canonical intensities, shown by each of the scanners and then mapped,
  should have the same values. The root mean square difference from their mean over scans; the
  voxels are those of the reference.
- *error*: the root mean square difference of the same values from the truth, which the reference
  shows.
- *tissues*: the quartiles of CSF, GM and WM in the mapped scans, without noise and bias field,
  minus the true ones; the standard deviation over scans, as a root mean square over the nine.
- *lesion*: the contrast of lesions with WM in FLAIR, relative to the true contrast; the root mean
  square of how far that is from 1. `kept` is its mean: below 1, lesions fade.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ndflow.demo.channels.channel_worlds import CHANNELS, ChannelScan, ChannelWorld
from ndflow.metrics.tissue_quartiles import weighted_quantile
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray

__all__ = ["ChannelScores", "channel_scores"]

_QUARTILES = (0.25, 0.5, 0.75)
_POINTS = 4000  # voxels of the reference
_FLAIR, _WM = CHANNELS.index("FLAIR"), 2


class ChannelScores(NamedTuple):
    """How well maps recover the truth; 0 is perfect, except for `kept`. See the module.

    Attributes
    ----------
    spread, error, tissues : of each channel.
    lesion, kept : the error of the contrast of lesions in FLAIR, and how much of it is kept.
    """

    spread: tuple[float, ...]
    error: tuple[float, ...]
    tissues: tuple[float, ...]
    lesion: float
    kept: float


def channel_scores(world: ChannelWorld, maps: Sequence[IntensityMap]) -> ChannelScores:
    """Return how well maps recover the truth of a world.

    Parameters
    ----------
    world : a reference, and scans.
    maps : the map that normalises each scan, in their order. The intensities of the reference, and
        so those to reach, are those of its scanner.
    """
    home = world.reference[0].scanner
    truth = np.concatenate([scan.canonical for scan in world.reference])
    truth = truth[:: max(1, len(truth) // _POINTS)]
    sd = home.shown(truth).std(axis=0)
    goal = home.shown(truth) / sd
    pairs = list(zip(world.scans, maps, strict=True))
    shown = np.array([own(scan.scanner.shown(truth)) for scan, own in pairs]) / sd
    off = np.array([_off(scan, own, home.shown(scan.canonical)) / sd for scan, own in pairs])
    contrasts = np.array(
        [
            _contrast(scan, own(scan.values)) / _contrast(scan, home.shown(scan.canonical))
            for scan, own in pairs
            if scan.lesion.any()
        ]
    )
    return ChannelScores(
        _root_mean_square(shown - shown.mean(axis=0)),
        _root_mean_square(shown - goal),
        _root_mean_square(off.std(axis=0, ddof=1)),
        float(np.sqrt(((contrasts - 1) ** 2).mean())),
        float(contrasts.mean()),
    )


def _root_mean_square(values: FloatArray) -> tuple[float, ...]:
    """Return the root mean square of each channel, over all axes but the last."""
    rows = values.reshape(-1, values.shape[-1])
    return tuple(np.sqrt((rows**2).mean(axis=0)).tolist())


def _off(scan: ChannelScan, own: IntensityMap, truth: FloatArray) -> FloatArray:
    """Return how far the quartiles of tissues, (3, 3, d), are from the true ones."""
    mapped = own(scan.scanner.shown(scan.canonical))
    return _quartiles(scan, mapped) - _quartiles(scan, truth)


def _quartiles(scan: ChannelScan, values: FloatArray) -> FloatArray:
    """Return the quartiles of CSF, GM and WM outside lesions in each channel, (3, 3, d)."""
    healthy = ~scan.lesion
    return np.array(
        [
            [weighted_quantile(column[healthy], share[healthy], _QUARTILES) for column in values.T]
            for share in scan.tissues.T
        ]
    ).swapaxes(1, 2)


def _contrast(scan: ChannelScan, values: FloatArray) -> float:
    """Return the contrast of the lesion with WM in FLAIR, by medians."""
    flair, healthy = values[:, _FLAIR], ~scan.lesion
    wm = weighted_quantile(flair[healthy], scan.tissues[healthy, _WM], [0.5])[0]
    return float(np.median(flair[scan.lesion]) - wm)
