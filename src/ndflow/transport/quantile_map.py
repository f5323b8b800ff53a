"""The exact map between two densities of one channel.

On a line, a map that preserves order and mass is determined by the densities at its two ends:
``f = F1⁻¹ ∘ F0``, whatever path a flow takes between them. So no differential equation has to be
integrated; and this map is what the Runge–Kutta integrator is tested against. It is computed from
normal scores, ``z1⁻¹(z0(x))`` with ``z = Φ⁻¹ ∘ F``, which are accurate far out in the tails. Its
log-Jacobian is ``ln q0(x) − ln q1(f(x))``.

In a gap without any mass a distribution function is flat to the last digit, and so is the map, or
it jumps; neither can be undone. `without_gaps` gives both densities a trace of mass everywhere.

`LinearTails` continues a map beyond the range where the data determine it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture, stack
from ndflow.errors import InvalidValueError
from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray, real

_TRACE = 1e-6  # share of the mass that bridges gaps: a voxel or two of a brain
_GRID = 257  # places at which gaps are looked for, besides those between components


@dataclass(frozen=True, eq=False)
class QuantileMap(IntensityMap):
    """The increasing map that takes the density `source` to the density `target`, in one channel.

    Across a gap of some 16 standard deviations without any mass, both distribution functions are
    flat to the last digit, and nothing determines where in the gap of the target a point belongs:
    there the map is constant. A `Flow` is not, nor is the map between densities `without_gaps`.

    Attributes
    ----------
    source, target : densities of one channel.

    Examples
    --------
    >>> source = GaussianMixture([1.0], [0.0], [1.0])
    >>> target = GaussianMixture([1.0], [5.0], [0.25])
    >>> QuantileMap(source, target)([-1.0, 0.0, 1.0]).round(6)
    array([3., 5., 7.])
    """

    source: GaussianMixture
    target: GaussianMixture

    def __post_init__(self) -> None:
        """Check that both densities have one channel."""
        if not self.source.channels == self.target.channels == 1:
            raise InvalidValueError("source and target must have one channel; use a Flow")

    channels = 1

    def inverse(self) -> QuantileMap:
        """Return the map from target to source."""
        return QuantileMap(self.target, self.source)

    def _mapped(self, x: FloatArray) -> FloatArray:
        if self.source == self.target:
            return x.copy()
        return self.target.from_normal_score(self.source.normal_score(x))

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        y = self._mapped(x)
        return y, self.source.logpdf(x) - self.target.logpdf(y)


def without_gaps(
    source: GaussianMixture, target: GaussianMixture, between: tuple[float, float]
) -> tuple[GaussianMixture, GaussianMixture]:
    """Return two densities of one channel, each with a trace of mass where either has a gap.

    Parameters
    ----------
    source, target : the densities.
    between : two quantiles; gaps outside them do not count.

    Returns
    -------
    source, target : as they were, if neither has a gap. Otherwise each has one component more, with
        a millionth of the mass spread over the whole range, so that the map from one to the
        other rises everywhere, and bridges a gap that both have in a nearly straight line.

    Examples
    --------
    >>> apart = GaussianMixture([0.5, 0.5], [0.0, 100.0], [1.0, 1.0])
    >>> close = GaussianMixture([0.5, 0.5], [0.0, 2.0], [1.0, 1.0])
    >>> without_gaps(close, close, (0.01, 0.99))
    (GaussianMixture(components=2, channels=1), GaussianMixture(components=2, channels=1))
    >>> imap = QuantileMap(*without_gaps(apart, apart.transformed(2.0, 0.0), (0.01, 0.99)))
    >>> imap([0.0, 25.0, 75.0, 100.0]).round(2)
    array([  0.,  50., 150., 200.])
    """
    ranges = [mixture.quantile(between) for mixture in (source, target)]
    pairs = list(zip((source, target), ranges, strict=True))
    if not any(_has_gap(mixture, *ends) for mixture, ends in pairs):
        return source, target
    bridged = []
    for mixture, (low, high) in pairs:
        reach = 0.5 * (high - low)
        trace = GaussianMixture(np.ones(1), np.array([low + reach]), np.array([reach**-2]))
        bridged.append(stack([mixture, trace], [1 - _TRACE, _TRACE]))
    return bridged[0], bridged[1]


def _has_gap(mixture: GaussianMixture, low: float, high: float) -> bool:
    """Return whether there is a place in a range that has less than a trace of the mass."""
    order = np.argsort(mixture.means[:, 0], kind="stable")
    means, sds = mixture.means[order, 0], np.sqrt(mixture.covariances[order, 0, 0])
    # Between two neighbours the density is least at about the same distance from both, in sds.
    dips = (means[:-1] * sds[1:] + means[1:] * sds[:-1]) / (sds[:-1] + sds[1:])
    places = np.clip(np.concatenate([np.linspace(low, high, _GRID), dips]), low, high)
    return bool((mixture.logpdf(places) < np.log(_TRACE / (high - low))).any())


@dataclass(frozen=True, eq=False)
class LinearTails(IntensityMap):
    """An increasing map of one channel, continued in straight lines outside a range.

    Attributes
    ----------
    inner : the map within the range.
    low, high : the range; beyond each end the map continues with the slope that it has there.

    Examples
    --------
    >>> inner = QuantileMap(
    ...     GaussianMixture([1.0], [0.0], [1.0]), GaussianMixture([1.0], [5.0], [0.25])
    ... )
    >>> LinearTails(inner, -3.0, 3.0)([1.0, 50.0]).round(6)
    array([  7., 105.])
    """

    inner: IntensityMap
    low: float
    high: float

    def __post_init__(self) -> None:
        """Validate the range."""
        self._set(low=real(self.low, "low"), high=real(self.high, "high"))
        if self.inner.channels != 1:
            raise InvalidValueError(f"inner must have one channel, not {self.inner.channels}")
        if not self.low < self.high:
            raise InvalidValueError(f"low must be less than high, not {self.low} and {self.high}")

    channels = 1

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The two ends of the range, the points they map to, and the log-slopes there."""
        ends = np.array([self.low, self.high])
        return ends, *self.inner.with_log_det_jacobian(ends)

    def inverse(self) -> LinearTails:
        """Return the inverse map, continued in straight lines outside the image of the range."""
        low, high = self._ends[1].tolist()
        return LinearTails(self.inner.inverse(), low, high)

    def _mapped(self, x: FloatArray) -> FloatArray:
        y, outside = self._tails(x)
        y[~outside] = self.inner._mapped(x[~outside])
        return y

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        y, outside = self._tails(x)
        low, high = self._ends[2]
        log_det = np.where(x[:, 0] < self.low, low, high)
        y[~outside], log_det[~outside] = self.inner._with_log_det(x[~outside])
        return y, log_det

    def _tails(self, x: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the values of the straight lines, and where they apply."""
        _, images, log_slopes = self._ends
        below, above = x < self.low, x > self.high
        y: FloatArray = np.where(
            below,
            images[0] + np.exp(log_slopes[0]) * (x - self.low),
            images[1] + np.exp(log_slopes[1]) * (x - self.high),
        )
        return y, (below | above)[:, 0]
