"""GaussianMixture: the density of a scan's intensities.

``q(x) = Σ_k π_k N(x; μ_k, Λ_k⁻¹)`` with weights π, means μ and precisions Λ, in any number of
channels. Posteriors ``r_k ∝ π_k N_k`` are computed by log-sum-exp, because the plain quotient is
0/0 a few dozen standard deviations out.

With one channel there is a distribution function F, and a *normal score* ``z(x) = Φ⁻¹(F(x))``,
whose inverse gives quantiles. The score is computed from whichever tail is lighter, and from
logarithms where that underflows, so it keeps its relative precision hundreds of standard deviations
out. For a single Gaussian it is a straight line, which is why Newton's method inverts it in few
steps. Quantiles, and the exact map from one mixture to another, are computed by inverting it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.density import gaussian
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, Value, einsum, points, real_array

# ── normal scores ─────────────────────────────────────────────────────────────────────────────────

_UNDERFLOW = 1e-300  # below this a tail probability is taken from its logarithm
_NEWTON_STEPS = 200
_ROUNDING = 4e-16  # relative rounding error of a normal score, from its sum over components
_GUIDES, _OFFSETS = 16, np.linspace(-4.0, 4.0, 9)  # heaviest components; points, in their sds


class NormalScores(NamedTuple):
    """The distribution function of a mixture in one channel, and its inverse.

    Attributes
    ----------
    weights : (K,), of the components.
    means, sds : (K, 1), of the components.
    """

    weights: FloatArray
    means: FloatArray
    sds: FloatArray

    def standardised(self, x: FloatArray) -> FloatArray:
        """Return points (n,) in units of each component, (K, n)."""
        return (x - self.means) / self.sds

    def tail(self, t: FloatArray) -> FloatArray:
        """Return F at standardised points; at ``-t``, ``1 − F``."""
        return einsum("k,kn->n", self.weights, special.ndtr(t))

    def log_tail(self, t: FloatArray) -> FloatArray:
        """Return ``ln F`` at standardised points; at ``-t``, ``ln (1 − F)``."""
        with np.errstate(divide="ignore"):
            return gaussian.log_sum_exp(special.log_ndtr(t) + np.log(self.weights)[:, np.newaxis])

    def score(self, t: FloatArray) -> FloatArray:
        """Return the normal scores of standardised points."""
        below, above = self.tail(t), self.tail(-t)
        z: FloatArray = np.where(below <= above, special.ndtri(below), -special.ndtri(above))
        far = np.flatnonzero(np.minimum(below, above) < _UNDERFLOW)
        if far.size:
            sign = np.where(below[far] <= above[far], 1.0, -1.0)
            z[far] = sign * special.ndtri_exp(self.log_tail(sign * t[:, far]))
        return z

    def inverse(self, goal: FloatArray) -> FloatArray:
        """Return the points (n,) with normal scores `goal`, (n,).

        Newton's method, kept inside a bracket: a quantile of the mixture lies between the smallest
        and the largest of the components' quantiles.
        """
        result = goal.copy()
        todo = np.flatnonzero(np.isfinite(goal))
        candidates = self.means + self.sds * goal[todo]
        low, high = candidates.min(axis=0), candidates.max(axis=0)
        # A guess interpolated between points of the heaviest components saves half of the steps.
        heavy = np.argsort(-self.weights, kind="stable")[:_GUIDES]
        grid = np.sort((self.means[heavy] + self.sds[heavy] * _OFFSETS).ravel())
        guess = np.interp(goal[todo], self.score(self.standardised(grid)), grid)
        x = np.clip(guess, low, high)
        moved = np.full(x.shape, np.inf)
        for _ in range(_NEWTON_STEPS):
            t = self.standardised(x)
            reached = self.score(t)
            miss = reached - goal[todo]
            low, high = np.where(miss < 0, x, low), np.where(miss > 0, x, high)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                step = miss / np.exp(self._log_slope(t, reached))
            guess = x - step
            # A step must stay in the bracket and be at most half the last one, or Newton's method
            # may go round in circles; else bisect. (Comparisons are False for NaN, as needed.)
            newton = (guess >= low) & (guess <= high) & (np.abs(step) <= 0.5 * moved)
            guess = np.where(newton, guess, 0.5 * (low + high))
            there = np.abs(miss) <= _ROUNDING * np.abs(goal[todo])
            guess = np.where(there, x, guess)
            result[todo] = guess
            moved = np.abs(guess - x)
            done = (moved <= 2e-16 * np.abs(x)) | there | (high <= low)
            done |= newton & (moved <= 1e-15 * (np.abs(x) + self.sds.min()))
            if done.all():
                break
            todo = todo[~done]
            x, low, high, moved = (part[~done] for part in (guess, low, high, moved))
        return result

    def _log_slope(self, t: FloatArray, z: FloatArray) -> FloatArray:
        """``ln dz/dx = ln q(x) − ln φ(z)``, given the standardised points."""
        with np.errstate(divide="ignore"):
            scale = np.log(self.weights[:, np.newaxis] / self.sds)
        return gaussian.log_sum_exp(scale - 0.5 * t * t) + 0.5 * z * z


# ── mixture ───────────────────────────────────────────────────────────────────────────────────────

MAX_COMPONENTS = 100_000  # in memory; averages of very many scans, before they are fitted again
MAX_STORED = 512  # in a file: matching takes memory with their square, 6 GB for 10,000
_EXTREME = 1e300  # bound of precisions and variances, so that products with them are finite


@dataclass(frozen=True, eq=False, repr=False)
class GaussianMixture(Value):
    """A mixture of K Gaussians in d channels.

    It may have any number of components in memory, but at most 512 in a file: no fit has more.

    Attributes
    ----------
    weights : (K,), non-negative, summing to 1.
    means : (K, d); may be given as (K,) for one channel.
    precisions : (K, d, d), symmetric positive definite; may be given as (K,) for one channel.

    Raises
    ------
    InvalidValueError : parameters that do not describe a density.

    Examples
    --------
    >>> mixture = GaussianMixture(weights=[0.4, 0.6], means=[0.0, 3.0], precisions=[1.0, 4.0])
    >>> mixture
    GaussianMixture(components=2, channels=1)
    >>> mixture.mean()
    array([1.8])
    >>> mixture.cdf([-10.0, 1.5, 20.0]).round(3)
    array([0.   , 0.374, 1.   ])
    >>> mixture.quantile([0.25, 0.5, 0.75]).round(3)
    array([0.319, 2.524, 3.106])
    """

    _most: ClassVar[Mapping[str, int]] = {"weights": MAX_STORED}
    weights: FloatArray
    means: FloatArray
    precisions: FloatArray

    def __post_init__(self) -> None:
        """Validate, and give one-channel parameters their trailing axes."""
        weights = real_array(self.weights, "weights", None)
        count = weights.size
        if not 1 <= count <= MAX_COMPONENTS:
            raise InvalidValueError(f"weights must be 1 to {MAX_COMPONENTS}, not {count}")
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
        try:
            gaussian.cholesky(even)
            with np.errstate(over="ignore"):
                spread = gaussian.inverse(even)
            if not (np.abs(spread) < _EXTREME).all():
                raise np.linalg.LinAlgError
        except np.linalg.LinAlgError:
            raise InvalidValueError("precisions must be positive definite and finite") from None
        self._set(weights=weights, means=means, precisions=even)

    def __repr__(self) -> str:
        """Return the numbers of components and channels."""
        return f"GaussianMixture(components={self.components}, channels={self.channels})"

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
    def _scores(self) -> NormalScores:
        """The distribution function of a one-channel mixture."""
        if self.channels != 1:
            raise InvalidValueError(f"needs one channel, but this mixture has {self.channels}")
        return NormalScores(self.weights, self.means, np.sqrt(self.covariances[:, :, 0]))

    # Densities, in any number of channels.

    def _joint(self, x: FloatArray) -> FloatArray:
        """``ln π_k + ln N_k(x)``, (K, n)."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        terms = gaussian.log_pdf(x, self.means, self.precisions)
        terms += log_weights[:, np.newaxis]
        return terms

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Return the logarithm of the density.

        Parameters
        ----------
        x : points: an array of any shape for one channel; for several, they are its last axis.

        Returns
        -------
        One number per point: in the shape of `x`, without the axis of the channels.
        """
        flat, shape = points(x, self.channels)
        return gaussian.log_sum_exp(self._joint(flat)).reshape(shape)

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Return the density, one number per point.

        Parameters
        ----------
        x : points, as for `logpdf`.
        """
        return np.exp(self.logpdf(x))

    def responsibilities(self, x: ArrayLike) -> FloatArray:
        """Return the posterior probability of each component at each point.

        Parameters
        ----------
        x : points, as for `logpdf`.

        Returns
        -------
        In the shape of one number per point, with a last axis of length K that sums to 1.
        """
        flat, shape = points(x, self.channels)
        return gaussian.softmax(self._joint(flat)).T.reshape(*shape, self.components)

    def mean(self) -> FloatArray:
        """Return the mean, (d,)."""
        return einsum("k,ki->i", self.weights, self.means)

    def covariance(self) -> FloatArray:
        """Return the covariance, (d, d): that within components plus that between them."""
        between = gaussian.outer(self.means - self.mean())
        return einsum("k,kij->ij", self.weights, self.covariances + between)

    def sample(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Draw random points, (size, d), with the generator of the caller."""
        which = generator.choice(self.components, size=size, p=self.weights / self.weights.sum())
        noise = generator.standard_normal((size, self.channels))
        factors = gaussian.cholesky(self.covariances)
        return self.means[which] + einsum("nij,nj->ni", factors[which], noise)

    # Mixtures from mixtures.

    def transformed(self, matrix: ArrayLike, offset: ArrayLike) -> GaussianMixture:
        """Return the density of ``y = M x + b`` where x has this density.

        Parameters
        ----------
        matrix : M, (d, d), invertible; may be a number for one channel.
        offset : b, (d,); may be a number for one channel.

        Examples
        --------
        >>> GaussianMixture([1.0], [3.0], [4.0]).transformed(2.0, 1.0).mean()
        array([7.])
        """
        d = self.channels
        m = real_array(matrix, "matrix", d, d)
        b = real_array(offset, "offset", d)
        back = np.linalg.inv(m)
        precisions = einsum("ji,kjl,lm->kim", back, self.precisions, back)
        means = einsum("ij,kj->ki", m, self.means) + b
        return GaussianMixture(self.weights, means, gaussian.symmetric(precisions))

    # Distribution functions, in one channel.

    def cdf(self, x: ArrayLike) -> FloatArray:
        """Return the distribution function F at each point, in the shape of `x`."""
        flat, shape = points(x, 1)
        return self._scores.tail(self._scores.standardised(flat[:, 0])).reshape(shape)

    def quantile(self, probability: ArrayLike) -> FloatArray:
        """Return quantiles: the points below which given shares of the mass lie.

        Parameters
        ----------
        probability : numbers from 0 to 1, in any shape; the quantiles of 0 and 1 are infinite.
        """
        p = np.asarray(probability, dtype=np.float64)
        if not ((p >= 0) & (p <= 1)).all():
            raise InvalidValueError("probability must lie between 0 and 1")
        return self.from_normal_score(special.ndtri(p))

    @cached_property
    def aligned_quantiles(self) -> FloatArray:
        """The quantiles at `QUANTILE_LEVELS` of the z-scored density."""
        sd = np.sqrt(self.covariance()[0, 0])
        return np.asarray((self.quantile(QUANTILE_LEVELS) - self.mean()[0]) / sd)

    def normal_score(self, x: ArrayLike) -> FloatArray:
        """Return the normal scores ``Φ⁻¹(F(x))`` of points, in the shape of `x`."""
        flat, _ = points(x, 1)
        return self._scores.score(self._scores.standardised(flat[:, 0])).reshape(np.shape(x))

    def from_normal_score(self, z: ArrayLike) -> FloatArray:
        """Return the points with normal scores `z`, in its shape: the inverse of `normal_score`."""
        want = np.asarray(z, dtype=np.float64)
        return self._scores.inverse(want.ravel()).reshape(want.shape)


def checked_weights(weights: ArrayLike | None, count: int) -> FloatArray:
    """Return the weights of `count` things, equal by default."""
    given = real_array(np.ones(count) if weights is None else weights, "weights", count)
    with np.errstate(over="ignore"):
        total = given.sum()
    if (given < 0).any() or not 0 < total < np.inf:
        raise InvalidValueError(
            "weights must be one or more, not negative, nor all zero, with a finite sum"
        )
    return given


def stack(mixtures: Sequence[GaussianMixture], weights: ArrayLike | None = None) -> GaussianMixture:
    """Return the mixture of mixtures, ``Σ_i w_i q_i``: exactly their average density.

    Parameters
    ----------
    mixtures : one or more, all with the same number of channels.
    weights : one non-negative number per mixture, scaled to sum to 1; equal by default.

    Returns
    -------
    A mixture of all their components.

    Raises
    ------
    InvalidValueError : no mixtures, different numbers of channels, or weights that are negative or
        all zero.

    Examples
    --------
    >>> one = GaussianMixture([1.0], [0.0], [1.0])
    >>> two = GaussianMixture([0.5, 0.5], [1.0, 2.0], [1.0, 1.0])
    >>> stack([one, two], weights=[3.0, 1.0]).weights
    array([0.75 , 0.125, 0.125])
    """
    if len({m.channels for m in mixtures}) != 1:
        raise InvalidValueError("mixtures must be one or more, with the same number of channels")
    given = checked_weights(weights, len(mixtures))
    shares = given / given.sum()
    together = np.concatenate([s * m.weights for s, m in zip(shares, mixtures, strict=True)])
    means = np.concatenate([m.means for m in mixtures])
    precisions = np.concatenate([m.precisions for m in mixtures])
    return GaussianMixture(together / together.sum(), means, precisions)


# ── projections ───────────────────────────────────────────────────────────────────────────────────


def projected(mixture: GaussianMixture, direction: ArrayLike) -> GaussianMixture:
    """Return the density of ``w · x`` where x has the density of `mixture`.

    Parameters
    ----------
    mixture : a density of d channels.
    direction : w, (d,), not zero.

    Examples
    --------
    >>> round_one = GaussianMixture([1.0], [[1.0, 2.0]], [np.eye(2)])
    >>> projected(round_one, [3.0, 4.0]).mean()
    array([11.])
    """
    w = real_array(direction, "direction", mixture.channels)
    variances = einsum("i,kij,j->k", w, mixture.covariances, w)
    return GaussianMixture(mixture.weights, einsum("ki,i->k", mixture.means, w), 1 / variances)


def marginal(mixture: GaussianMixture, channel: int) -> GaussianMixture:
    """Return the density of one channel.

    Parameters
    ----------
    mixture : a density of d channels.
    channel : its index.

    Examples
    --------
    >>> both = GaussianMixture([1.0], [[1.0, 2.0]], [np.eye(2)])
    >>> marginal(both, 1).mean()
    array([2.])
    """
    if mixture.channels == 1:
        return mixture
    return projected(mixture, np.eye(mixture.channels)[channel])
