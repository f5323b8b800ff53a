"""GaussianMixture: the density of a scan's intensities.

``q(x) = Σ_k π_k N(x; μ_k, Λ_k⁻¹)`` with weights π, means μ and precisions Λ, in any number of
channels. Posteriors ``r_k ∝ π_k N_k`` go through log-sum-exp, because plain ones are 0/0 a few
dozen standard deviations out.

With one channel there is a distribution function F, and a *normal score* ``z(x) = Φ⁻¹(F(x))``.
The score is computed from whichever tail is lighter, and from logarithms where that underflows,
so it keeps its relative precision hundreds of standard deviations out; for one Gaussian it is a
straight line, which is why Newton's method inverts it in few steps. Quantiles, and the exact map
from one mixture to another, are inversions of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.density import gaussian
from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, Value, einsum, points, positive, real_array

__all__ = ["MAX_COMPONENTS", "GaussianMixture", "stack"]

MAX_COMPONENTS = 100_000  # far beyond any fit; a file that claims more is damaged or hostile
_UNDERFLOW = 1e-300  # below this a tail probability is taken from its logarithm
_NEWTON_STEPS = 200
_ROUNDING = 4e-16  # of a normal score, relative: what its own sum over components is uncertain by
_GUIDES, _LANDMARKS = 16, np.linspace(-4.0, 4.0, 9)  # components, points in their sds
_EXTREME = 1e300  # of precisions and variances, which are squared on the way


@dataclass(frozen=True, eq=False)
class GaussianMixture(Value):
    """A mixture of K Gaussians in d channels.

    Attributes
    ----------
    weights : (K,), non-negative, summing to 1.
    means : (K, d), or (K,) for one channel.
    precisions : (K, d, d), symmetric positive definite, or (K,) for one channel.
    """

    weights: FloatArray
    means: FloatArray
    precisions: FloatArray

    def __post_init__(self) -> None:
        """Validate, and give one-channel parameters their trailing axes."""
        weights = real_array(self.weights, "weights", None)
        count = weights.size
        if not 1 <= count <= MAX_COMPONENTS:
            raise InvalidValueError(
                f"weights must name between 1 and {MAX_COMPONENTS} components, not {count}"
            )
        means = real_array(self.means, "means", count, None)
        d = means.shape[1]
        precisions = real_array(self.precisions, "precisions", count, d, d)
        if d == 0:
            raise InvalidValueError("means must have at least one channel")
        if (weights < 0).any():
            raise InvalidValueError("weights must not be negative")
        with np.errstate(over="ignore"):
            total = weights.sum()
        if not abs(total - 1) <= 1e-9:
            raise InvalidValueError(f"weights must sum to 1, but sum to {total:.12g}")
        if not (np.abs(precisions) < _EXTREME).all():
            raise InvalidValueError(f"precisions must be less than {_EXTREME:g}")
        even = real_array(gaussian.symmetric(precisions), "precisions", count, d, d)
        if np.abs(even - precisions).max() > 1e-9 * np.abs(precisions).max():
            raise InvalidValueError("precisions must be symmetric")
        precisions = even
        try:
            gaussian.cholesky(precisions)
            with np.errstate(over="ignore"):
                spread = gaussian.inverse(precisions)
            if not (np.abs(spread) < _EXTREME).all():
                raise np.linalg.LinAlgError
        except np.linalg.LinAlgError:
            raise InvalidValueError(
                "precisions must be positive definite (a variance is zero, negative or infinite)"
            ) from None
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "precisions", precisions)

    @property
    def components(self) -> int:
        """The number K of components."""
        return self.weights.size

    @property
    def channels(self) -> int:
        """The number d of channels."""
        return int(self.means.shape[1])

    @cached_property
    def covariances(self) -> FloatArray:
        """The inverses of the precisions, (K, d, d)."""
        return real_array(gaussian.inverse(self.precisions), "covariances", *self.precisions.shape)

    @cached_property
    def _sds(self) -> FloatArray:
        """Standard deviations of a one-channel mixture, (K, 1)."""
        if self.channels != 1:
            raise InvalidValueError(
                f"distribution functions need one channel, but this mixture has {self.channels}"
            )
        sds: FloatArray = np.sqrt(self.covariances[:, :, 0])
        return sds

    # Densities, in any number of channels.

    def _joint(self, x: FloatArray) -> FloatArray:
        """``ln π_k + ln N_k(x)``, (K, n)."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        terms = gaussian.log_pdf(x, self.means, self.precisions)
        terms += log_weights[:, np.newaxis]
        return terms

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Return the log density at each point."""
        flat, shape = points(x, self.channels)
        return gaussian.log_sum_exp(self._joint(flat)).reshape(shape)

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Return the density at each point."""
        result: FloatArray = np.exp(self.logpdf(x))
        return result

    def responsibilities(self, x: ArrayLike) -> FloatArray:
        """Return the posterior of each component at each point, with a last axis of length K."""
        flat, shape = points(x, self.channels)
        return gaussian.softmax(self._joint(flat)).T.reshape(*shape, self.components)

    def score(self, x: ArrayLike) -> FloatArray:
        """Return the gradient of the log density, in the shape of `x`."""
        flat, _ = points(x, self.channels)
        pull = -gaussian.times(self.precisions, gaussian.displacements(flat, self.means))
        result = einsum("kn,kni->ni", gaussian.softmax(self._joint(flat)), pull)
        return result.reshape(np.shape(x))

    def mean(self) -> FloatArray:
        """Return the mean, (d,)."""
        return einsum("k,ki->i", self.weights, self.means)

    def covariance(self) -> FloatArray:
        """Return the covariance, (d, d): within components plus between them."""
        between = gaussian.outer(self.means - self.mean())
        return einsum("k,kij->ij", self.weights, self.covariances + between)

    def sample(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Draw `size` points, (size, d), with the caller's generator."""
        which = generator.choice(self.components, size=size, p=self.weights / self.weights.sum())
        noise = generator.standard_normal((size, self.channels))
        factors = gaussian.cholesky(self.covariances)
        return self.means[which] + einsum("nij,nj->ni", factors[which], noise)

    # Mixtures from mixtures.

    def transformed(self, matrix: ArrayLike, offset: ArrayLike) -> GaussianMixture:
        """Return the density of ``y = M x + b`` where x has this density.

        For one channel, `matrix` and `offset` may be numbers.
        """
        d = self.channels
        m = real_array(matrix, "matrix", d, d)
        b = real_array(offset, "offset", d)
        try:
            back = np.linalg.inv(m)
        except np.linalg.LinAlgError:
            raise InvalidValueError("matrix must be invertible") from None
        precisions = einsum("ji,kjl,lm->kim", back, self.precisions, back)
        return GaussianMixture(
            weights=self.weights,
            means=einsum("ij,kj->ki", m, self.means) + b,
            precisions=gaussian.symmetric(precisions),
        )

    def pruned(self, threshold: float) -> GaussianMixture:
        """Return the mixture without components lighter than `threshold`, weights renormalised."""
        keep = self.weights >= positive(threshold, "threshold", zero=True)
        if not keep.any():
            raise InvalidValueError(
                f"no component reaches the weight {threshold}; choose a lower threshold"
            )
        weights = self.weights[keep]
        return GaussianMixture(weights / weights.sum(), self.means[keep], self.precisions[keep])

    # Distribution functions, in one channel.

    def _standardised(self, x: FloatArray) -> FloatArray:
        result: FloatArray = (x - self.means) / self._sds
        return result

    def cdf(self, x: ArrayLike) -> FloatArray:
        """Return the distribution function F at each point."""
        flat, shape = points(x, 1)
        return self._tail(self._standardised(flat[:, 0])).reshape(shape)

    def logcdf(self, x: ArrayLike) -> FloatArray:
        """Return ``ln F`` at each point, precise far into the lower tail."""
        flat, shape = points(x, 1)
        return self._log_tail(self._standardised(flat[:, 0])).reshape(shape)

    def logsf(self, x: ArrayLike) -> FloatArray:
        """Return ``ln (1 − F)`` at each point, precise far into the upper tail."""
        flat, shape = points(x, 1)
        return self._log_tail(-self._standardised(flat[:, 0])).reshape(shape)

    def quantile(self, probability: ArrayLike) -> FloatArray:
        """Return the points below which the given shares of the mass lie."""
        p = np.asarray(probability, dtype=np.float64)
        if not ((p >= 0) & (p <= 1)).all():
            raise InvalidValueError("probability must lie between 0 and 1")
        return self.from_normal_score(special.ndtri(p))

    def normal_score(self, x: ArrayLike) -> FloatArray:
        """Return ``Φ⁻¹(F(x))``, in the shape of `x`."""
        flat, _ = points(x, 1)
        return self._score_of(self._standardised(flat[:, 0])).reshape(np.shape(x))

    def from_normal_score(self, z: ArrayLike) -> FloatArray:
        """Return the points whose normal score is `z`: the inverse of `normal_score`.

        Newton's method, kept inside a bracket: a mixture's quantile lies between the smallest and
        the largest of its components' quantiles.
        """
        want = np.asarray(z, dtype=np.float64)
        goal = want.ravel()
        result = goal.copy()
        todo = np.flatnonzero(np.isfinite(goal))
        candidates = self.means + self._sds * goal[todo]
        low, high = candidates.min(axis=0), candidates.max(axis=0)
        # A guess between landmarks of the heaviest components saves half of Newton's steps.
        heavy = np.argsort(-self.weights, kind="stable")[:_GUIDES]
        grid = np.sort((self.means[heavy] + self._sds[heavy] * _LANDMARKS).ravel())
        guess = np.interp(goal[todo], self._score_of(self._standardised(grid)), grid)
        x = np.clip(guess, low, high)
        moved = np.full(x.shape, np.inf)
        for _ in range(_NEWTON_STEPS):
            t = self._standardised(x)
            reached = self._score_of(t)
            miss = reached - goal[todo]
            low, high = np.where(miss < 0, x, low), np.where(miss > 0, x, high)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                step = miss / np.exp(self._log_score_slope(t, reached))
            guess = x - step
            # Newton must stay in the bracket and halve its steps, or it may go round in circles.
            # (Comparisons are False for NaN, as they should be.)
            newton = (guess >= low) & (guess <= high) & (np.abs(step) <= 0.5 * moved)
            guess = np.where(newton, guess, 0.5 * (low + high))
            there = np.abs(miss) <= _ROUNDING * np.abs(goal[todo])
            guess = np.where(there, x, guess)
            result[todo] = guess
            moved = np.abs(guess - x)
            done = (moved <= 2e-16 * np.abs(x)) | there | (high <= low)
            done |= newton & (moved <= 1e-15 * (np.abs(x) + self._sds.min()))
            if done.all():
                break
            todo = todo[~done]
            x, low, high, moved = (part[~done] for part in (guess, low, high, moved))
        return result.reshape(want.shape)

    def _tail(self, t: FloatArray) -> FloatArray:
        return einsum("k,kn->n", self.weights, special.ndtr(t))

    def _log_tail(self, t: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return gaussian.log_sum_exp(special.log_ndtr(t) + np.log(self.weights)[:, np.newaxis])

    def _score_of(self, t: FloatArray) -> FloatArray:
        below, above = self._tail(t), self._tail(-t)
        z: FloatArray = np.where(below <= above, special.ndtri(below), -special.ndtri(above))
        far = np.flatnonzero(np.minimum(below, above) < _UNDERFLOW)
        if far.size:
            sign = np.where(below[far] <= above[far], 1.0, -1.0)
            z[far] = sign * special.ndtri_exp(self._log_tail(sign * t[:, far]))
        return z

    def _log_score_slope(self, t: FloatArray, z: FloatArray) -> FloatArray:
        """``ln dz/dx = ln q(x) − ln φ(z)``, given the standardised points."""
        with np.errstate(divide="ignore"):
            scale = np.log(self.weights[:, np.newaxis] / self._sds)
        slope: FloatArray = gaussian.log_sum_exp(scale - 0.5 * t * t) + 0.5 * z * z
        return slope


def stack(mixtures: Sequence[GaussianMixture], weights: ArrayLike | None = None) -> GaussianMixture:
    """Return the mixture of mixtures, ``Σ_i w_i q_i``: exactly their average density.

    Parameters
    ----------
    mixtures : at least one, all with the same channels.
    weights : one non-negative number a mixture, equal by default; scaled to sum to 1.
    """
    if not mixtures:
        raise InvalidValueError("mixtures must hold at least one mixture to stack")
    if len({m.channels for m in mixtures}) != 1:
        raise InvalidValueError("mixtures must all have the same number of channels")
    shares = real_array(
        np.ones(len(mixtures)) if weights is None else weights, "weights", len(mixtures)
    )
    if (shares < 0).any() or shares.sum() == 0:
        raise InvalidValueError("weights must not be negative, nor all zero")
    together = np.concatenate(
        [s * m.weights for s, m in zip(shares / shares.sum(), mixtures, strict=True)]
    )
    return GaussianMixture(
        together / together.sum(),
        np.concatenate([m.means for m in mixtures]),
        np.concatenate([m.precisions for m in mixtures]),
    )
