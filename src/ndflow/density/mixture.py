"""GaussianMixture: the density of a scan's intensities.

``q(x) = Σ_k π_k N(x; μ_k, Λ_k⁻¹)`` with weights π, means μ and precisions Λ, in any number of
channels. Posteriors ``r_k ∝ π_k N_k`` are computed by log-sum-exp, because the plain quotient is
0/0 a few dozen standard deviations out.

With one channel there is a distribution function F, and a *normal score* ``z(x) = Φ⁻¹(F(x))``,
whose inverse gives quantiles (`ndflow.density.normal_score`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.density import gaussian
from ndflow.density.normal_score import NormalScores
from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, Value, einsum, points, positive, real_array

__all__ = ["MAX_COMPONENTS", "MAX_STORED", "GaussianMixture", "stack"]

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
        try:
            gaussian.cholesky(even)
            with np.errstate(over="ignore"):
                spread = gaussian.inverse(even)
            if not (np.abs(spread) < _EXTREME).all():
                raise np.linalg.LinAlgError
        except np.linalg.LinAlgError:
            raise InvalidValueError(
                "precisions must be positive definite (a variance is zero, negative or infinite)"
            ) from None
        for name, array in (("weights", weights), ("means", means), ("precisions", even)):
            object.__setattr__(self, name, array)

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
            raise InvalidValueError(
                f"distribution functions need one channel, but this mixture has {self.channels}"
            )
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
        result: FloatArray = np.exp(self.logpdf(x))
        return result

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

    def component_densities(self, x: ArrayLike) -> FloatArray:
        """Return the density of each component times its weight.

        Parameters
        ----------
        x : n points, as for `logpdf`.

        Returns
        -------
        (K, n), with one column per point, whatever the shape of `x`; columns sum to the density.

        Examples
        --------
        >>> mixture = GaussianMixture([0.4, 0.6], [0.0, 3.0], [1.0, 4.0])
        >>> mixture.component_densities([0.0, 3.0]).round(3)
        array([[0.16 , 0.002],
               [0.   , 0.479]])
        """
        flat, _ = points(x, self.channels)
        density = np.exp(self.logpdf(flat))
        parts: FloatArray = (self.responsibilities(flat) * density[:, np.newaxis]).T
        return parts

    def score(self, x: ArrayLike) -> FloatArray:
        """Return the gradient of the log density at points, in the shape of `x`."""
        flat, _ = points(x, self.channels)
        pull = -gaussian.times(self.precisions, gaussian.displacements(flat, self.means))
        return einsum("kn,kni->ni", gaussian.softmax(self._joint(flat)), pull).reshape(np.shape(x))

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
        """Return the mixture without components lighter than `threshold`, weights renormalised.

        Raises
        ------
        InvalidValueError : all components are lighter.
        """
        keep = self.weights >= positive(threshold, "threshold", zero=True)
        if not keep.any():
            raise InvalidValueError(
                f"no component reaches the weight {threshold}; choose a lower threshold"
            )
        weights = self.weights[keep]
        return GaussianMixture(weights / weights.sum(), self.means[keep], self.precisions[keep])

    # Distribution functions, in one channel.

    def cdf(self, x: ArrayLike) -> FloatArray:
        """Return the distribution function F at each point, in the shape of `x`."""
        flat, shape = points(x, 1)
        return self._scores.tail(self._scores.standardised(flat[:, 0])).reshape(shape)

    def logcdf(self, x: ArrayLike) -> FloatArray:
        """Return ``ln F`` at each point, accurate far into the lower tail."""
        flat, shape = points(x, 1)
        return self._scores.log_tail(self._scores.standardised(flat[:, 0])).reshape(shape)

    def logsf(self, x: ArrayLike) -> FloatArray:
        """Return ``ln (1 − F)`` at each point, accurate far into the upper tail."""
        flat, shape = points(x, 1)
        return self._scores.log_tail(-self._scores.standardised(flat[:, 0])).reshape(shape)

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

    def normal_score(self, x: ArrayLike) -> FloatArray:
        """Return the normal scores ``Φ⁻¹(F(x))`` of points, in the shape of `x`."""
        flat, _ = points(x, 1)
        return self._scores.score(self._scores.standardised(flat[:, 0])).reshape(np.shape(x))

    def from_normal_score(self, z: ArrayLike) -> FloatArray:
        """Return the points with normal scores `z`, in its shape: the inverse of `normal_score`."""
        want = np.asarray(z, dtype=np.float64)
        return self._scores.inverse(want.ravel()).reshape(want.shape)


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
