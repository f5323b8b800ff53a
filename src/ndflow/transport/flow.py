"""Flow: the mass-conserving map along which one mixture becomes another.

Let the components move along a path from ``N(μ_k0, Σ_k0)`` at time 0 to ``N(μ_k1, Σ_k1)`` at
time 1, with fixed weights. Each is carried by an affine velocity field

    u_k(x) = μ̇_k + A_k (x − μ_k),    A Σ + Σ Aᵀ = Σ̇,                                    (1)

and the mixture by their average under the posteriors r_k of the components at x,

    u = Σ_k r_k u_k,    ∇·u = Σ_k r_k [tr A_k + (s_k − s̄)·u_k],                          (2)

with scores ``s_k = −Λ_k (x − μ_k)`` and ``s̄ = Σ_k r_k s_k``: then ``∂_t q + ∇·(q u) = 0`` holds
for each component and so for the sum. The map takes x along ``ẋ = u(x, t)`` from 0 to 1; its
log-Jacobian is the integral of ``∇·u`` on the way. The way back is the flow of the reversed
path, so the inverse of a flow is the flow with its ends exchanged.

Means move in straight lines. There are two paths for the covariances:

- ``sigma``, the geodesic between Gaussians: with ``T = Σ0^{-½} (Σ0^{½} Σ1 Σ0^{½})^{½} Σ0^{-½}`` and
  ``G = (1−t) I + t T``, it is ``Σ_t = G Σ0 G`` and ``A = (T − I) G⁻¹``. In one channel σ moves
  linearly.
- ``precision``, the path of the paper: Λ moves linearly, and ``A = −½ Σ Λ̇``.

In one channel both give the same map, see `ndflow.transport.quantile_map`; the first has a far
smaller integration error. The integrator is Runge–Kutta of order 4 with equal steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density import GaussianMixture, gaussian
from ndflow.errors import InvalidValueError
from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray, instance, points, short, whole

__all__ = ["Flow"]

_BLOCK = 4096  # points at a time, so that arrays over components stay in the cache
_MAX_STEPS = 10_000  # all of them are kept in memory


class _Stage(NamedTuple):
    """The components at one time: means, precisions, and equation (1)."""

    means: FloatArray
    precisions: FloatArray
    level: FloatArray  # ln π + ½ ln|Λ|, (K, 1)
    drift: FloatArray  # μ̇, (K, d)
    strain: FloatArray  # A, (K, d, d)
    growth: FloatArray  # tr A, (K, 1)


@dataclass(frozen=True, eq=False, repr=False)
class Flow(IntensityMap):
    """The flow from one mixture to another with the same weights, component by component.

    Attributes
    ----------
    source, target : the two ends, for example `Match.source` and `Match.matched`.
    steps : the number of Runge–Kutta steps.
    path : ``"sigma"``, or ``"precision"`` for the path of the paper.

    Raises
    ------
    InvalidValueError : ends with different weights or channels, or an unknown path.

    Examples
    --------
    >>> source = GaussianMixture([1.0], [0.0], [1.0])
    >>> target = GaussianMixture([1.0], [5.0], [0.25])
    >>> flow = Flow(source, target)
    >>> flow([-1.0, 0.0, 1.0]).round(6)
    array([3., 5., 7.])
    >>> flow.inverse()(7.0).round(6)
    np.float64(1.0)
    """

    source: GaussianMixture
    target: GaussianMixture
    steps: int = 100
    path: str = "sigma"

    def __post_init__(self) -> None:
        """Check that the two ends fit together."""
        instance(self.source, "source", GaussianMixture)
        instance(self.target, "target", GaussianMixture)
        if self.source.means.shape != self.target.means.shape:
            raise InvalidValueError(
                f"source and target must have the same components and channels, "
                f"not {self.source.means.shape} and {self.target.means.shape}"
            )
        if not np.array_equal(self.source.weights, self.target.weights):
            raise InvalidValueError(
                "source and target must have the same weights; match them first"
            )
        if not isinstance(self.path, str) or self.path not in ("sigma", "precision"):
            raise InvalidValueError(f"path must be 'sigma' or 'precision', not {short(self.path)}")
        object.__setattr__(self, "steps", whole(self.steps, "steps", 1, _MAX_STEPS))

    def __repr__(self) -> str:
        """Return the number of components, the number of steps and the path."""
        components = self.source.components
        return f"Flow(components={components}, steps={self.steps}, path={self.path!r})"

    @property
    def channels(self) -> int:
        """The number d of channels."""
        return self.source.channels

    def inverse(self) -> Flow:
        """Return the flow of the reversed path."""
        return Flow(self.target, self.source, self.steps, self.path)

    def mixture(self, t: float) -> GaussianMixture:
        """Return the density at time t, from 0 at the source to 1 at the target."""
        stage = self._stage(t)
        return GaussianMixture(self.source.weights, stage.means, stage.precisions)

    def velocity(self, t: float, x: ArrayLike) -> FloatArray:
        """Return u at time t, in the shape of `x`."""
        flat, _ = points(x, self.channels)
        return _velocity(self._stage(t), flat).reshape(np.shape(x))

    def divergence(self, t: float, x: ArrayLike) -> FloatArray:
        """Return ``∇·u`` at time t, one number per point."""
        flat, shape = points(x, self.channels)
        return _velocity_and_divergence(self._stage(t), flat)[1].reshape(shape)

    @cached_property
    def _transport(self) -> FloatArray:
        return gaussian.monge(self.source.covariances, self.target.covariances)

    def _stage(self, t: float) -> _Stage:
        source, target = self.source, self.target
        drift = target.means - source.means
        if self.path == "sigma":
            identity = np.eye(self.channels)
            back = gaussian.inverse((1 - t) * identity + t * self._transport)  # G⁻¹
            precisions = gaussian.product(gaussian.product(back, source.precisions), back)
            strain = gaussian.product(self._transport - identity, back)
        else:
            change = target.precisions - source.precisions
            precisions = source.precisions + t * change
            strain = -0.5 * gaussian.product(gaussian.inverse(precisions), change)
        with np.errstate(divide="ignore"):
            level = np.log(source.weights) + 0.5 * gaussian.log_det(precisions)
        return _Stage(
            means=source.means + t * drift,
            precisions=gaussian.symmetric(precisions),
            level=level[:, np.newaxis],
            drift=drift,
            strain=strain,
            growth=gaussian.trace(strain)[:, np.newaxis],
        )

    @cached_property
    def _stages(self) -> list[_Stage]:
        """The components at the beginning, middle and end of each step."""
        return [self._stage(i / (2 * self.steps)) for i in range(2 * self.steps + 1)]

    def _mapped(self, x: FloatArray) -> FloatArray:
        return self._carried(x, _velocity)

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        def field(stage: _Stage, state: FloatArray) -> FloatArray:
            return np.column_stack(_velocity_and_divergence(stage, state[:, :-1]))

        end = self._carried(np.column_stack([x, np.zeros(len(x))]), field)
        return end[:, :-1], end[:, -1]

    def _carried(
        self, start: FloatArray, field: Callable[[_Stage, FloatArray], FloatArray]
    ) -> FloatArray:
        """Integrate states (n, …) from time 0 to 1, block by block."""
        end = np.empty_like(start)
        h = 1 / self.steps
        for block in _blocks(len(start)):
            y = start[block]
            for first, middle, last in self._steps():
                k1 = field(first, y)
                k2 = field(middle, y + 0.5 * h * k1)
                k3 = field(middle, y + 0.5 * h * k2)
                k4 = field(last, y + h * k3)
                y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            end[block] = y
        return end

    def _steps(self) -> list[tuple[_Stage, _Stage, _Stage]]:
        stages = self._stages
        return list(zip(stages[:-1:2], stages[1::2], stages[2::2], strict=True))


def _velocity(stage: _Stage, x: FloatArray) -> FloatArray:
    vectors = gaussian.displacements(x, stage.means)
    r = _posteriors(stage, vectors)
    fields = gaussian.times(stage.strain, vectors) + stage.drift[:, np.newaxis]
    return gaussian.average(r, fields)


def _velocity_and_divergence(stage: _Stage, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    vectors = gaussian.displacements(x, stage.means)
    r = _posteriors(stage, vectors)
    fields = gaussian.times(stage.strain, vectors) + stage.drift[:, np.newaxis]
    scores = -gaussian.times(stage.precisions, vectors)
    excess = scores - gaussian.average(r, scores)
    growth = stage.growth + gaussian.inner(excess, fields)
    return gaussian.average(r, fields), (r * growth).sum(axis=0)


def _posteriors(stage: _Stage, vectors: FloatArray) -> FloatArray:
    terms = gaussian.quadratic(stage.precisions, vectors)
    terms *= -0.5
    terms += stage.level
    return gaussian.softmax(terms)


def _blocks(count: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, count, _BLOCK)]
