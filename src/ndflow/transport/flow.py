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

Means move in straight lines, and covariances along the geodesic between Gaussians: with
``T = Σ0^{-½} (Σ0^{½} Σ1 Σ0^{½})^{½} Σ0^{-½}`` and ``G = (1−t) I + t T``, it is ``Σ_t = G Σ0 G`` and
``A = (T − I) G⁻¹``. In one channel σ moves linearly. (In the paper Λ moves linearly. In one channel
that gives the same map, see `ndflow.transport.quantile_map`, with a far larger integration error.)
The integrator is Runge–Kutta of order 4 with equal steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ndflow.density import GaussianMixture, gaussian, stack
from ndflow.errors import InvalidValueError
from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray, einsum, whole

_BLOCK = 4096  # points at a time, so that arrays over components stay in the cache
_FARTHEST = 1e100  # beyond, squares overflow: points move along with the last one that is followed
_MAX_STEPS = 10_000  # all of them are kept in memory


class _Stage(NamedTuple):
    """The components at one time, as coefficients of `gaussian.monomials` of ``x − c``.

    c is the middle of the flow, so that squares of points are not much larger than variances.
    """

    log_densities: FloatArray  # ln π_k N_k, up to a constant, (K, F)
    fields: FloatArray  # u_k, (K, d, 1 + d)
    scores: FloatArray  # s_k, (K, d, 1 + d)
    growths: FloatArray  # tr A_k + s_k · u_k, (K, F)


@dataclass(frozen=True, eq=False)
class Flow(IntensityMap):
    """The flow from one mixture to another with the same weights, component by component.

    Attributes
    ----------
    source, target : the two ends, for example `Match.source` and `Match.matched`.
    steps : the number of Runge–Kutta steps.

    Raises
    ------
    InvalidValueError : ends with different weights or channels.

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

    def __post_init__(self) -> None:
        """Check that the two ends fit together."""
        alike = np.array_equal(self.source.weights, self.target.weights)
        if not alike or self.source.channels != self.target.channels:
            raise InvalidValueError("source and target need the same weights and channels")
        self._set(steps=whole(self.steps, "steps", 1, _MAX_STEPS))

    @property
    def channels(self) -> int:
        """The number d of channels."""
        return self.source.channels

    def inverse(self) -> Flow:
        """Return the flow of the reversed path."""
        return Flow(self.target, self.source, self.steps)

    @cached_property
    def _middle(self) -> FloatArray:
        return 0.5 * (self.source.mean() + self.target.mean())

    @cached_property
    def _transport(self) -> FloatArray:
        """T of each component; exactly the identity for those that keep their shape."""
        start, end = self.source.covariances, self.target.covariances
        same = (start == end).all(axis=(1, 2), keepdims=True)
        return np.where(same, np.eye(self.channels), gaussian.monge(start, end))

    def _components(self, t: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return μ, Λ, μ̇ and A of equation (1) at time t."""
        source, target = self.source, self.target
        drift = target.means - source.means
        identity = np.eye(self.channels)
        back = gaussian.inverse((1 - t) * identity + t * self._transport)  # G⁻¹
        precisions = gaussian.product(gaussian.product(back, source.precisions), back)
        strain = gaussian.product(self._transport - identity, back)
        return source.means + t * drift, gaussian.symmetric(precisions), drift, strain

    def _stage(self, t: float) -> _Stage:
        means, precisions, drift, strain = self._components(t)
        centred = means - self._middle
        pull = einsum("kij,kj->ki", precisions, centred)  # s_k = Λ_k μ_k − Λ_k x
        still = drift - einsum("kij,kj->ki", strain, centred)  # u_k = still + A_k x
        with np.errstate(divide="ignore"):
            level = np.log(self.source.weights) + 0.5 * gaussian.log_det(precisions)
        return _Stage(
            log_densities=gaussian.coefficients(
                level - 0.5 * gaussian.inner(centred, pull), pull, -0.5 * precisions
            ),
            fields=np.concatenate([still[..., np.newaxis], strain], axis=2),
            scores=np.concatenate([pull[..., np.newaxis], -precisions], axis=2),
            growths=gaussian.coefficients(
                gaussian.trace(strain) + gaussian.inner(pull, still),
                einsum("kij,ki->kj", strain, pull) - einsum("kij,kj->ki", precisions, still),
                -gaussian.product(precisions, strain),
            ),
        )

    @cached_property
    def _stages(self) -> list[_Stage]:
        """The components at the beginning, middle and end of each step."""
        return [self._stage(i / (2 * self.steps)) for i in range(2 * self.steps + 1)]

    def _mapped(self, x: FloatArray) -> FloatArray:
        near = np.clip(x - self._middle, -_FARTHEST, _FARTHEST)
        return self._carried(near, _velocity) + (x - near)

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        near = np.clip(x - self._middle, -_FARTHEST, _FARTHEST)
        start = np.column_stack([near, np.zeros(len(x))])
        end = self._carried(start, _velocity_and_divergence)
        return end[:, :-1] + (x - near), end[:, -1]

    def _carried(
        self, start: FloatArray, field: Callable[[_Stage, FloatArray], FloatArray]
    ) -> FloatArray:
        """Integrate states (n, …) from time 0 to 1, block by block."""
        end = np.empty_like(start)
        h = 1 / self.steps
        stages = self._stages
        for place in range(0, len(start), _BLOCK):
            block = slice(place, place + _BLOCK)
            y = start[block]
            for first, middle, last in zip(stages[:-1:2], stages[1::2], stages[2::2], strict=True):
                k1 = field(first, y)
                k2 = field(middle, y + 0.5 * h * k1)
                k3 = field(middle, y + 0.5 * h * k2)
                k4 = field(last, y + h * k3)
                y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            end[block] = y
        return end


def _velocity(stage: _Stage, x: FloatArray) -> FloatArray:
    """Return u at points (n, d)."""
    basis = gaussian.monomials(x)
    r = gaussian.softmax(einsum("kf,fn->kn", stage.log_densities, basis))
    return _linear(r, stage.fields, basis)


def _velocity_and_divergence(stage: _Stage, state: FloatArray) -> FloatArray:
    """Return u and ∇·u at points (n, d), or (n, d + 1) with the log-Jacobian so far."""
    d = stage.fields.shape[1]
    basis = gaussian.monomials(state[:, :d])
    r = gaussian.softmax(einsum("kf,fn->kn", stage.log_densities, basis))
    u, score = (_linear(r, field, basis) for field in (stage.fields, stage.scores))
    growth = einsum("fn,fn->n", einsum("kn,kf->fn", r, stage.growths), basis)
    return np.column_stack([u, growth - gaussian.inner(score, u)])


def _linear(r: FloatArray, fields: FloatArray, basis: FloatArray) -> FloatArray:
    """Return the average under r of fields ``b_k + A_k x``, (n, d)."""
    mean = einsum("kn,kij->ijn", r, fields)
    return einsum("ijn,jn->ni", mean, basis[: fields.shape[2]])


# ── far from all voxels ───────────────────────────────────────────────────────────────────────────
# Flows that fade out: far from all components, intensities stay where the alignment put them.
#
# The velocity of a flow is the average of the affine velocities of its components under their
# posteriors. Far out, the posterior of the broadest component in that direction is 1, whatever the
# component: what it happens to do near its mean would be extrapolated without end. So both ends of
# a flow are given one more component, of little weight, much broader than all others, which does
# not move. Where there are voxels, it has next to no share; far out it has all of it, so that the
# velocity, which grows linearly at most, vanishes there, and the flow becomes the identity. It is
# still the flow of a density (that of the components and of the broad one), and so it conserves
# mass and is one-to-one everywhere.

_WEIGHT = 1e-3
_WIDTH = 4.0  # standard deviations of the target


def with_far_field(
    source: GaussianMixture, target: GaussianMixture
) -> tuple[GaussianMixture, GaussianMixture]:
    """Return both ends of a flow with the same broad component added to each.

    Parameters
    ----------
    source, target : the ends, with the same weights; the source is aligned with the target.

    Examples
    --------
    >>> one = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    >>> two = GaussianMixture([1.0], [[0.0, 0.0]], [2 * np.eye(2)])
    >>> from ndflow.transport import Flow
    >>> flow = Flow(*with_far_field(one, two))
    >>> flow([[1.0, 0.0], [50.0, 0.0]]).round(2)
    array([[ 0.71,  0.  ],
           [50.  ,  0.  ]])
    """
    variances = _WIDTH**2 * np.diagonal(target.covariance())
    precisions = np.diag(1 / variances)[np.newaxis]
    broad = GaussianMixture(np.ones(1), target.mean()[np.newaxis], precisions)
    shares = (1 - _WEIGHT, _WEIGHT)
    return stack([source, broad], shares), stack([target, broad], shares)
