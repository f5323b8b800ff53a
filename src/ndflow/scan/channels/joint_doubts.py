"""What is doubtful about a joint map, channel by channel; see `ndflow.scan.match_doubts`.

The slope of a channel is ``∂y_i/∂x_i``, with the other channels as they are. Where voxels have to
change places with others so that channels depend on each other as in the target, it may even be
negative: of two voxels that differ in this channel only, the brighter one becomes the darker one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ndflow.density import QUANTILE_LEVELS, GaussianMixture
from ndflow.doubt import Doubt
from ndflow.scan.match_doubts import distance_doubts, slope_doubts
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray

__all__ = ["joint_doubts"]

_SAMPLE, _SLOPES = 20_000, 5000  # voxels to measure distances and slopes at
_STEP = 1e-3  # standard deviations, of a difference that stands for a slope
_REVERSED = 1e-3  # of the voxels: 1 ml of a brain
_COMPARE = "compare with the result without --joint"
_SHORTCOMING = f"a joint map may give up a little in one channel for the others: {_COMPARE}"


def joint_doubts(
    rows: FloatArray, imap: IntensityMap, targets: Sequence[GaussianMixture]
) -> list[tuple[Doubt, ...]]:
    """Return what is doubtful about each channel: its distance from the target, and its slopes.

    Parameters
    ----------
    rows : the voxels that count, (n, d).
    imap : the joint map.
    targets : the density of each channel of the target, in the units of the result.
    """
    sample = _thinned(rows, _SAMPLE)
    mapped, slopes = imap(sample), _slopes(_thinned(rows, _SLOPES), imap)
    found = []
    for place, target in enumerate(targets):
        before, after = sample[:, place], mapped[:, place]
        wanted = target.quantile(QUANTILE_LEVELS)
        mean, sd = float(target.mean()[0]), float(np.sqrt(target.covariance()[0, 0]))
        stretch = sd / float(before.std())
        aligned = mean + stretch * (before - before.mean())
        left, plain = (
            float(np.abs(np.quantile(one, QUANTILE_LEVELS) - wanted).mean()) / sd
            for one in (after, aligned)
        )
        at = _thinned(rows, _SLOPES)[:, place]
        found.append(
            (
                *distance_doubts(left, plain, _SHORTCOMING),
                *_slope_doubts(at, slopes[:, place] / stretch),
            )
        )
    return found


def _thinned(rows: FloatArray, most: int) -> FloatArray:
    return rows[:: max(1, len(rows) // most)]


def _slopes(x: FloatArray, imap: IntensityMap) -> FloatArray:
    """Return the slope of each channel at some voxels, (n, d)."""
    y = imap(x)
    steps = _STEP * x.std(axis=0)
    columns = [
        (imap(x + step * unit)[:, place] - y[:, place]) / step
        for place, (step, unit) in enumerate(zip(steps, np.eye(x.shape[1]), strict=True))
    ]
    return np.stack(columns, axis=1)


def _slope_doubts(at: FloatArray, slopes: FloatArray) -> list[Doubt]:
    found = slope_doubts(at, np.abs(slopes), np.full(len(at), 1 / len(at)))
    share = float((slopes < 0).mean())
    if share > _REVERSED:
        text = (
            f"The joint map reverses the contrast of {share:.1%} of the voxels: with the other "
            f"channels the same, brighter ones become darker."
        )
        found.append(Doubt("reversed contrast", text, f"look at the result, and {_COMPARE}"))
    return found
