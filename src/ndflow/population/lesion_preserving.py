"""Matching the healthy part of a scan, and preserving the contrast of its lesions.

Some components of a scan are lesions, with a total mass m. The others alone are aligned and matched
to the target; two questions then remain.

*What was there before the lesion?* The healthy part lacks the tissue that the lesion replaced.
Matched as it is, it would be stretched to make up for that: if 6 % of the brain turned from WM into
lesion, by 5 % of the contrast between GM and WM. So, during the match, the mass of a lesion is
added to the tissue with the nearest peak: at the mode x* of the healthy density, it is divided
among the components according to their responsibilities. That is an assumption (that a bright
lesion on T1w was WM), and histograms offer nothing better.

*Where does the lesion go?* No density determines how far from its tissue it belongs. It keeps its
contrast, in units of the contrasts in the healthy part: with f the map of that part and c its
median (or a quartile or decile, if the median is within half a standard deviation of x*), the
components of the lesion move along the straight line

    f(x*) + s (x − x*),    s = (f(x*) − f(c)) / (x* − c).                                      (1)

The components, healthy ones as matched and lesions along (1), with the weights of the scan, are the
end of a flow like any other: an increasing map with an inverse, which takes the density of the scan
to theirs, lesions included.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.transport import AlignedMatch, Match, QuantileMap, align_and_match
from ndflow.values import whole

__all__ = ["healed", "match_preserving_lesions", "without_components"]

_GRID = np.arange(-512, 513) / 64  # on which modes are searched for, in standard deviations
_LEVELS = (0.5, 0.25, 0.75, 0.1, 0.9)  # quantiles for c, of which the first away from x* is used
_TISSUE = 0.1  # of the height of the highest mode; lower ones are vessels and the like


def without_components(mixture: GaussianMixture, indices: Sequence[int]) -> GaussianMixture:
    """Return the mixture without some of its components, weights renormalised.

    Parameters
    ----------
    mixture : the density.
    indices : the components to leave out.

    Raises
    ------
    InvalidValueError : an index that does not exist, or no weight would be left.

    Examples
    --------
    >>> mixture = GaussianMixture([0.2, 0.6, 0.2], [0.0, 1.0, 5.0], [1.0, 1.0, 1.0])
    >>> without_components(mixture, [2]).weights
    array([0.25, 0.75])
    """
    keep = _others(mixture, indices)
    weights = mixture.weights[keep]
    if not weights.sum() > 0:
        raise InvalidValueError("indices must leave at least one component with some weight")
    if keep.all():
        return mixture
    return GaussianMixture(weights / weights.sum(), mixture.means[keep], mixture.precisions[keep])


def healed(mixture: GaussianMixture, lesions: Sequence[int]) -> GaussianMixture:
    """Return the healthy part of a scan, with the mass of each lesion added to the nearest tissue.

    Parameters
    ----------
    mixture : the density, of one channel.
    lesions : indices of the components that are lesions.

    Examples
    --------
    >>> scan = GaussianMixture([0.5, 0.4, 0.1], [0.0, 5.0, 8.0], [1.0, 1.0, 1.0])
    >>> healed(scan, [2]).weights.round(3)
    array([0.5, 0.5])
    """
    keep = _others(mixture, lesions)
    healthy = without_components(mixture, lesions)
    if keep.all():
        return healthy
    weights = mixture.weights[keep]
    for k in np.flatnonzero(~keep):
        peak = _peak(healthy, float(mixture.means[k, 0]))
        weights = weights + mixture.weights[k] * healthy.responsibilities(peak)
    return GaussianMixture(weights / weights.sum(), healthy.means, healthy.precisions)


def match_preserving_lesions(
    mixture: GaussianMixture,
    target: GaussianMixture,
    lesions: Sequence[int],
    *,
    objective: str = "l2",
    regularisation: float = 1e-3,
) -> AlignedMatch:
    """Align and match the healthy part of a scan, preserving the contrast of its lesions.

    Without lesions this is the alignment and match of the whole scan.

    Parameters
    ----------
    mixture, target : densities of one channel.
    lesions : indices of the components that are lesions, see `find_lesions`.
    objective, regularisation : see `ndflow.match`.

    Returns
    -------
    The alignment and the match, for `ndflow.transport.flow_map`.

    Raises
    ------
    InvalidValueError : several channels, or an index that does not exist.

    Examples
    --------
    >>> target = GaussianMixture([0.2, 0.5, 0.3], [-1.6, 0.0, 1.1], [8.0, 9.0, 25.0])
    >>> means, precisions = [-1.6, 0.0, 1.1, 3.0], [8.0, 9.0, 25.0, 20.0]
    >>> scan = GaussianMixture([0.2, 0.5, 0.25, 0.05], means, precisions)
    >>> spared = match_preserving_lesions(scan, target, [3])
    >>> spared.match.matched.means[:, 0].round(1) + 0.0
    array([-1.6,  0. ,  1.1,  3. ])
    """
    if mixture.channels != 1:
        raise InvalidValueError(f"mixture must have one channel, not {mixture.channels}")
    keep = _others(mixture, lesions)
    healthy = healed(mixture, lesions)
    affine, matched = align_and_match(
        healthy, target, objective=objective, regularisation=regularisation
    )
    if keep.all():
        return AlignedMatch(affine, matched)
    before = mixture.transformed(affine.matrix, affine.offset)
    means, precisions = before.means.copy(), before.precisions.copy()
    means[keep], precisions[keep] = matched.matched.means, matched.matched.precisions
    inner = QuantileMap(matched.source, matched.matched)
    for k in np.flatnonzero(~keep):
        peak, place, slope = _line(inner, float(before.means[k, 0]))
        means[k] = place + slope * (means[k] - peak)  # equation (1)
        precisions[k] /= slope**2
    after = GaussianMixture(before.weights, means, precisions)
    return AlignedMatch(
        affine, Match(before, after, matched.divergences, matched.objectives, matched.status)
    )


def _others(mixture: GaussianMixture, indices: Sequence[int]) -> NDArray[np.bool_]:
    keep = np.ones(mixture.components, dtype=bool)
    for index in indices:
        keep[whole(index, "each index of a lesion", 0, mixture.components - 1)] = False
    return keep


def _line(inner: QuantileMap, lesion: float) -> tuple[float, float, float]:
    """Return x*, f(x*) and s of equation (1)."""
    peak = _peak(inner.source, lesion)
    places = inner.source.quantile(_LEVELS)
    away = np.abs(places - peak)
    near = away < 0.5 * np.sqrt(inner.source.covariance()[0, 0])
    across = float(places[away.argmax() if near.all() else near.argmin()])
    place, other = inner(np.array([peak, across])).tolist()
    return peak, place, (place - other) / (peak - across)


def _peak(density: GaussianMixture, lesion: float) -> float:
    """Return the mode nearest to a lesion, among those high enough to be tissues."""
    centre, sd = density.mean()[0], np.sqrt(density.covariance()[0, 0])
    means = density.means[:, 0]  # components may be narrower than the grid, or beyond it
    ends = (means.min() - sd, means.max() + sd)
    x = np.unique(np.concatenate([centre + sd * _GRID, means, ends]))
    height = density.pdf(x)
    inside = height[1:-1]
    mode = (inside >= height[:-2]) & (inside > height[2:]) & (inside >= _TISSUE * height.max())
    modes = x[1:-1][mode]
    return float(modes[np.abs(modes - lesion).argmin()])
