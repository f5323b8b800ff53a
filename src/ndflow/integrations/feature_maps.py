"""From the features of a table to a target density, one by one or jointly.

On a line, the map that takes one density to another and keeps the order of values is unique,
``f = F1⁻¹ ∘ F0`` (`ndflow.transport.quantile_map`). Without a regularisation, a feature is taken
all the way to the target along it. With one, components of its density are held back, as those of
scans are (`ndflow.transport.match`).

A joint map has three stages: each feature to the marginal of the target, an affine map that gives
them the covariance of the target, and the joint map of `ndflow.transport.joint` for what these two
leave. Without the second, features that are nearly copies of each other, as tables have them, would
be left to the flow, which cannot take them far enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ndflow.density import GaussianMixture, Histogram, fit, histogram
from ndflow.density.projections import marginal
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.transport import (
    Affine,
    Chain,
    Channelwise,
    IntensityMap,
    QuantileMap,
    Tabulated,
    align,
    tabulate,
)
from ndflow.transport.joint.joint_map import REGULARISATION, joint_map
from ndflow.transport.normalising_map import DETERMINED_RANGE, normalising_map
from ndflow.transport.quantile_map import without_gaps
from ndflow.values import FloatArray

__all__ = ["FeatureFitting", "feature_density", "line_map", "together_map"]

_EVIDENCE = 1e4  # observations that a feature is worth at most
_EXTREME = 1e100  # values between its inverse and it can be squared
_ROUNDING = 1e-14  # relative span of a constant feature
_TABLE = 1e-6  # error of the map of a feature, in standard deviations of the target


@dataclass(frozen=True)
class FeatureFitting:
    """How densities of features are estimated; see `ndflow.fit`.

    Attributes
    ----------
    truncation, concentration : of the Dirichlet process.
    """

    truncation: int
    concentration: float

    def mixture(self, data: Histogram, evidence: float = _EVIDENCE) -> GaussianMixture:
        """Return the density of data that are worth so many observations at most."""
        fitted = fit(
            data,
            truncation=self.truncation,
            concentration=self.concentration,
            effective_count=evidence,
        )
        return fitted.mixture


def feature_density(
    column: FloatArray, counts: FloatArray, fitting: FeatureFitting
) -> GaussianMixture | None:
    """Return the density of a feature, or None if it is constant.

    Parameters
    ----------
    column, counts : (n,), values, and how often each occurs.
    fitting : how to estimate it.

    Raises
    ------
    InvalidValueError : values that are too large or too small to calculate with.
    """
    largest = np.abs(column).max()
    span = float(np.max(0.5 * column) - np.min(0.5 * column))
    if span <= _ROUNDING * largest:
        return None
    if not (span > 1 / _EXTREME and largest < _EXTREME):
        raise InvalidValueError(
            f"X has a feature with values of up to {largest:g} in a range of {2 * span:g}, which "
            f"cannot be squared; scale it first"
        )
    try:
        return fitting.mixture(histogram(column, weights=counts))
    except DegenerateDataError:  # all values are equal but a few that are far away
        mean = np.average(column, weights=counts, keepdims=True)
        variance = np.average((column - mean) ** 2, weights=counts, keepdims=True)
        return GaussianMixture(np.ones(1), mean, 1 / variance)


def line_map(
    column: FloatArray,
    source: GaussianMixture | None,
    goal: GaussianMixture,
    regularisation: float,
) -> IntensityMap:
    """Return the map of one feature; a constant one is shifted to the mean of the target.

    Parameters
    ----------
    column, source : its values and their density, as `feature_density` returns it.
    goal : the target.
    regularisation : how strongly components are held back; 0 for the exact map.
    """
    if source is None:
        return Affine(np.eye(1), goal.mean() - column[0])
    if regularisation > 0:
        held = normalising_map(source, goal, objective="cramer", regularisation=regularisation)
        return _table(held, source, goal)
    return _table(QuantileMap(*without_gaps(source, goal, DETERMINED_RANGE)), source, goal)


def _table(imap: IntensityMap, source: GaussianMixture, goal: GaussianMixture) -> Tabulated:
    """Return a map in a table, which is quicker, and exact on the way back."""
    low, high = source.quantile(DETERMINED_RANGE).tolist()
    return tabulate(imap, low, high, tolerance=_TABLE * float(np.sqrt(goal.covariance()[0, 0])))


def together_map(
    rows: FloatArray,
    counts: FloatArray,
    marginals: Sequence[GaussianMixture],
    goal: GaussianMixture,
    fitting: FeatureFitting,
    regularisation: float,
) -> Chain:
    """Return the map of all features together, in the three stages that the module describes.

    Parameters
    ----------
    rows, counts : (n, d) and (n,), distinct rows, and how often each occurs.
    marginals : the densities of the features.
    goal : the target, of d channels.
    fitting : how to estimate densities on the way.
    regularisation : as for `line_map`; the flow is held back by 0.0003 at least.
    """
    first = Channelwise(
        tuple(
            line_map(column, own, marginal(goal, channel), regularisation)
            for channel, (column, own) in enumerate(zip(rows.T, marginals, strict=True))
        )
    )
    mapped = first(rows)
    affine = _same_moments(mapped, counts, goal)
    aligned = affine(mapped)
    found = joint_map(
        aligned,
        [fitting.mixture(histogram(column, weights=counts)) for column in aligned.T],
        goal,
        weights=counts,
        regularisation=max(regularisation, REGULARISATION),
        concentration=fitting.concentration,
        truncation=fitting.truncation,
    )
    return Chain((first, affine, found.map))


def _same_moments(rows: FloatArray, counts: FloatArray, goal: GaussianMixture) -> Affine:
    """Return the affine map that gives rows the mean and the covariance of a density."""
    mean = np.average(rows, axis=0, weights=counts)
    precision = np.linalg.inv(np.cov(rows.T, aweights=counts, ddof=0))
    own = GaussianMixture(np.ones(1), mean[np.newaxis], precision[np.newaxis])
    return align(own, goal, whiten=True)
