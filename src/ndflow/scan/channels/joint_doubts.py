"""What is doubtful about a joint map, channel by channel; see `ndflow.scan.match_doubts`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ndflow.density import QUANTILE_LEVELS, GaussianMixture
from ndflow.doubt import Doubt
from ndflow.scan.match_doubts import distance_doubts
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray

__all__ = ["joint_doubts"]

_SAMPLE = 20_000  # voxels
_SHORTCOMING = (
    "a joint map may give up a little in one channel for the others: compare with the result "
    "without --joint"
)


def joint_doubts(
    rows: FloatArray, imap: IntensityMap, targets: Sequence[GaussianMixture]
) -> list[tuple[Doubt, ...]]:
    """Return for each channel what is doubtful about its distance from the target.

    Parameters
    ----------
    rows : the voxels that count, (n, d).
    imap : the joint map.
    targets : the density of each channel of the target, in the units of the result.
    """
    sample = rows[:: max(1, len(rows) // _SAMPLE)]
    found = []
    for before, after, target in zip(sample.T, imap(sample).T, targets, strict=True):
        wanted = target.quantile(QUANTILE_LEVELS)
        mean, sd = float(target.mean()[0]), float(np.sqrt(target.covariance()[0, 0]))
        aligned = mean + sd * (before - before.mean()) / before.std()
        left, plain = (
            float(np.abs(np.quantile(one, QUANTILE_LEVELS) - wanted).mean()) / sd
            for one in (after, aligned)
        )
        found.append(tuple(distance_doubts(left, plain, _SHORTCOMING)))
    return found
