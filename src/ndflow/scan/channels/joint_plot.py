"""A figure of several channels that were mapped together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ndflow.density import GaussianMixture, Histogram, trimmed
from ndflow.errors import InvalidValueError
from ndflow.figures.joint_densities import JointVoxels, joint_figure
from ndflow.scan.plot import check_figures
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_joint", "plot_joint_density"]

_SAMPLE = 40_000


def plot_joint(
    cells: Histogram | None,
    imap: IntensityMap,
    target: GaussianMixture | None,
    names: Sequence[str],
) -> Figure:
    """Draw the joint densities of all pairs of channels before and after.

    Parameters
    ----------
    cells : the joint histogram of the voxels that counted.
    imap : their map.
    target : the joint density that they were brought to, in the units of the result.
    names : of the channels.
    """
    check_figures()
    if cells is None or target is None:
        raise InvalidValueError("there is no histogram to draw: no density was estimated")
    generator = np.random.default_rng(0)
    used = trimmed(cells)
    return _drawn(used, _sample(used, generator), imap, target, names, generator)


def plot_joint_density(
    mixture: GaussianMixture, imap: IntensityMap, target: GaussianMixture, names: Sequence[str]
) -> Figure:
    """Draw the same, where only the density is known that was estimated from the voxels.

    Parameters
    ----------
    mixture : the joint density.
    imap, target, names : as for `plot_joint`.
    """
    check_figures()
    generator = np.random.default_rng(0)
    points = mixture.sample(_SAMPLE, generator)
    return _drawn(mixture, points, imap, target, names, generator)


def _drawn(
    own: Histogram | GaussianMixture,
    voxels: FloatArray,
    imap: IntensityMap,
    target: GaussianMixture,
    names: Sequence[str],
    generator: np.random.Generator,
) -> Figure:
    before, after = (np.sqrt(np.diagonal(one.covariance())) for one in (own, target))
    mapped, log_det = imap.with_log_det_jacobian(voxels)
    return joint_figure(
        JointVoxels(
            names=[f"{name} (sd)" for name in names],
            before=(voxels - own.mean()) / before,
            after=(mapped - target.mean()) / after,
            log_det=log_det + np.log(before / after).sum(),
            target=(target.sample(_SAMPLE, generator) - target.mean()) / after,
        )
    )


def _sample(cells: Histogram, generator: np.random.Generator) -> FloatArray:
    """Return points with the density of a joint histogram, spread evenly over its cells."""
    below = np.cumsum(cells.counts) / cells.total
    which = np.searchsorted(below, (np.arange(_SAMPLE) + 0.5) / _SAMPLE)
    within = generator.uniform(-0.5, 0.5, size=(_SAMPLE, cells.channels))
    points: FloatArray = cells.values[np.minimum(which, len(below) - 1)] + within * cells.widths
    return points
