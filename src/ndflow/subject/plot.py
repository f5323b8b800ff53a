"""A figure of one scan: its histogram, its intensity map, and the histogram of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ndflow.density import GaussianMixture, Histogram
from ndflow.density.binning import QUANTILE_LEVELS, midpoint_edges
from ndflow.evaluation.distribution import empirical_distribution
from ndflow.figures.curves import DensityCurves, FitCurves, MapCurves, scan_figure
from ndflow.figures.joint import JointVoxels, joint_figure
from ndflow.transport import DETERMINED_RANGE, IntensityMap, align

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_POINTS = 160


def plot_result(
    histogram: Histogram,
    mixture: GaussianMixture,
    imap: IntensityMap,
    target: GaussianMixture,
    bands: Mapping[str, tuple[float, float]],
) -> Figure:
    """Draw a scan from its histogram alone: that of the result follows from the map.

    Parameters
    ----------
    histogram, mixture : of the scan.
    imap, target : its map, and the density that the map leads to.
    bands : see `FitCurves`.
    """
    levels, counts = histogram.values[:, 0], histogram.counts
    before = empirical_distribution(levels, counts)
    after = empirical_distribution(imap(levels), counts)
    low, high = mixture.quantile(DETERMINED_RANGE).tolist()
    x = np.linspace(low, high, _POINTS)
    components = mixture.responsibilities(x).T * mixture.pdf(x)
    map_y, log_slope = imap.with_log_det_jacobian(x)
    y = np.linspace(map_y[0], map_y[-1], _POINTS)
    # What the alignment alone would do: from the scan's mean and sd to the target's.
    mean, sd = float(target.mean()[0]), float(np.sqrt(target.covariance()[0, 0]))
    shown = before.density(midpoint_edges(x)), after.density(midpoint_edges(y))
    quantiles = after.quantile(QUANTILE_LEVELS), target.quantile(QUANTILE_LEVELS)
    return scan_figure(
        DensityCurves(x, shown[0], components.sum(axis=0), components),
        MapCurves(x, map_y, np.exp(log_slope), mean + sd * align(mixture)(x)),
        FitCurves(y, shown[1], np.exp(target.logpdf(y)), *quantiles, bands),
    )


# ── several channels ──────────────────────────────────────────────────────────────────────────────

_SAMPLE = 40_000


def plot_channels(
    own: GaussianMixture, imap: IntensityMap, target: GaussianMixture, names: Sequence[str]
) -> Figure:
    """Draw the joint densities of all pairs of channels before and after.

    Parameters
    ----------
    own : the joint density of the subject.
    imap : their map.
    target : the joint density that they were brought to, in the units of the result.
    names : of the channels.
    """
    generator = np.random.default_rng(0)
    voxels = own.sample(_SAMPLE, generator)
    before, after = (np.sqrt(np.diagonal(one.covariance())) for one in (own, target))
    mapped, log_det = imap.with_log_det_jacobian(voxels)
    start, end = (voxels - own.mean()) / before, (mapped - target.mean()) / after
    growth = log_det + np.log(before / after).sum()
    goal = (target.sample(_SAMPLE, generator) - target.mean()) / after
    return joint_figure(JointVoxels([f"{name} (sd)" for name in names], start, end, growth, goal))
