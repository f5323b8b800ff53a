"""Sparing: a map that follows the healthy part of a scan and takes lesions along unharmed.

Let the components of a set be lesions, with mass m. The others are aligned and matched to the
target alone; two things then remain to be said.

*What the lesion was before.* The healthy part lacks the tissue that the lesion replaced. Matched as
it is, it would be stretched to make up for that: with 6 % of the brain turned from white matter
into lesion, by 5 % of the contrast of grey and white. So the mass of a lesion is counted, during
the match, to the tissue whose peak is nearest: the mode x* of the healthy density, where it is
divided among the components by their responsibilities. That is an assumption (a bright lesion on T1
was white matter), and histograms hold nothing better.

*Where the lesion goes.* No density says how far from its tissue it belongs. It keeps the contrast
that it has, in units of the contrasts in the healthy part: with f the map of that part and c its
median (a quartile or decile, where the median is within half a standard deviation of x*), the
lesion's components move along the straight line

    f(x*) + s (x − x*),    s = (f(x*) − f(c)) / (x* − c).                                      (1)

The components, healthy ones as matched and lesions along (1), with the weights that the scan has,
are the end of a flow like any other: an increasing map with an inverse, which takes the density of
the scan to theirs, lesions included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.transport import Affine, Match, QuantileMap, align, match
from ndflow.values import whole

__all__ = ["LesionPreservingMatch", "match_preserving_lesions", "without_components"]

_PLACES = np.arange(-512, 513) / 64  # where modes are looked for, in standard deviations
_LEVELS = (0.5, 0.25, 0.75, 0.1, 0.9)  # of c, the first that is away from x*
_TISSUE = 0.1  # of the highest mode; lower ones are vessels and the like


class LesionPreservingMatch(NamedTuple):
    """An alignment and the match that followed, as `ndflow.transport.along` takes them.

    Attributes
    ----------
    affine : the alignment of the healthy part.
    match : the whole scan before and after. The divergences are those of the healthy part.
    """

    affine: Affine
    match: Match


def without_components(mixture: GaussianMixture, indices: Sequence[int]) -> GaussianMixture:
    """Return the mixture of the other components, weights renormalised."""
    keep = _others(mixture, indices)
    weights = mixture.weights[keep]
    if not weights.sum() > 0:
        raise InvalidValueError("indices must leave at least one component with some weight")
    if keep.all():
        return mixture
    return GaussianMixture(weights / weights.sum(), mixture.means[keep], mixture.precisions[keep])


def match_preserving_lesions(
    mixture: GaussianMixture,
    target: GaussianMixture,
    lesions: Sequence[int],
    *,
    objective: str = "l2",
    regularisation: float = 1e-3,
) -> LesionPreservingMatch:
    """Align and match the healthy part of a scan, and take its lesions along.

    Without lesions this is the alignment and match of the whole scan.

    Parameters
    ----------
    mixture, target : densities of one channel.
    lesions : indices of the components that are lesions, see `ndflow.population.lesion_detection`.
    objective, regularisation : see `match`.
    """
    if mixture.channels != 1:
        raise InvalidValueError(f"lesions are spared in one channel, not in {mixture.channels}")
    keep = _others(mixture, lesions)
    healthy = without_components(mixture, lesions) if keep.all() else _counted_back(mixture, keep)
    affine = align(healthy, target)
    aligned = healthy.transformed(affine.matrix, affine.offset)
    matched = match(aligned, target, objective=objective, regularisation=regularisation)
    if keep.all():
        return LesionPreservingMatch(affine, matched)
    before = mixture.transformed(affine.matrix, affine.offset)
    means, precisions = before.means.copy(), before.precisions.copy()
    means[keep], precisions[keep] = matched.matched.means, matched.matched.precisions
    inner = QuantileMap(aligned, matched.matched)
    for k in np.flatnonzero(~keep):
        peak, place, slope = _line(inner, float(before.means[k, 0]))
        means[k] = place + slope * (means[k] - peak)  # equation (1)
        precisions[k] /= slope**2
    after = GaussianMixture(before.weights, means, precisions)
    return LesionPreservingMatch(
        affine, Match(before, after, matched.divergences, matched.objectives, matched.status)
    )


def _others(mixture: GaussianMixture, indices: Sequence[int]) -> NDArray[np.bool_]:
    keep = np.ones(mixture.components, dtype=bool)
    for index in indices:
        keep[whole(index, "each index of a lesion", 0, mixture.components - 1)] = False
    return keep


def _counted_back(mixture: GaussianMixture, keep: NDArray[np.bool_]) -> GaussianMixture:
    """Return the healthy part, with the mass of each lesion counted to the tissue next to it."""
    lost = np.flatnonzero(~keep).tolist()
    healthy = without_components(mixture, lost)
    weights = mixture.weights[keep]
    for k in lost:
        peak = _peak(healthy, float(mixture.means[k, 0]))
        weights = weights + mixture.weights[k] * healthy.responsibilities(peak)
    return GaussianMixture(weights / weights.sum(), healthy.means, healthy.precisions)


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
    """Return the mode next to a lesion, among those that are tissues and not mere bumps."""
    centre, sd = density.mean()[0], np.sqrt(density.covariance()[0, 0])
    means = density.means[:, 0]  # a component may be narrower than a step, or very far out
    ends = (means.min() - sd, means.max() + sd)
    x = np.unique(np.concatenate([centre + sd * _PLACES, means, ends]))
    height = density.pdf(x)
    inside = height[1:-1]
    mode = (inside >= height[:-2]) & (inside > height[2:]) & (inside >= _TISSUE * height.max())
    modes = x[1:-1][mode]
    return float(modes[np.abs(modes - lesion).argmin()])
