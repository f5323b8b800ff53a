"""The divergence of two mixtures, in closed form, with gradients.

Both divergences have the same form. For a kernel k of two points, and
``⟨q, p⟩ = Σ_k Σ_m π_k τ_m E k(X_k, Y_m)`` over pairs of components,

    D(q, p) = ½ ⟨q, q⟩ + ½ ⟨p, p⟩ − ⟨q, p⟩.                                                   (1)

- *L2*, the one of the paper: ``½ ∫ (q − p)²``, for any number of channels. Between Gaussians the
  kernel is ``N(μ − ν; 0, Σ + Ω⁻¹)``.
- *Cramér*: ``∫ (F_q − F_p)²``, for one channel. It is half the energy distance, whose kernel is
  ``−|x − y|``; between Gaussians, with δ the difference of means and v the sum of variances,
  that is ``−A(δ, v)``, ``A = √(2v/π) e^{−δ²/2v} + δ erf(δ/√(2v))``, ``∂_δ A = erf(δ/√(2v))``,
  ``∂_v A = N(δ; 0, v)``.

Both kernels of one channel obey the heat equation ``∂_v k = ½ ∂_δ² k``, so that all their second
derivatives are derivatives in δ: ``k_δδ = 2 k_v``, ``k_δv = ½ k_δδδ``, ``k_vv = ¼ k_δδδδ``.

L2 compares densities, and is nearly blind to tails with little mass; Cramér compares distribution
functions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from ndflow.density import GaussianMixture, gaussian
from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray

_Three = tuple[FloatArray, FloatArray, FloatArray]
_Kernel = Callable[[FloatArray, FloatArray], _Three]


def divergence(source: GaussianMixture, target: GaussianMixture, objective: str = "l2") -> float:
    """Return the divergence of two mixtures: zero if they are equal, positive otherwise.

    Parameters
    ----------
    source, target : densities with the same channels.
    objective : ``"l2"``, or ``"cramer"`` with one channel.

    Raises
    ------
    InvalidValueError : an unknown objective, or numbers of channels that do not fit.

    Examples
    --------
    >>> one = GaussianMixture([1.0], [0.0], [1.0])
    >>> two = GaussianMixture([1.0], [1.0], [1.0])
    >>> divergence(one, one)
    0.0
    >>> round(divergence(one, two), 4), round(divergence(one, two, "cramer"), 4)
    (0.0624, 0.2709)
    """
    energy = Energy(target, objective)
    value, _, _ = energy(source.weights, source.means, source.covariances)
    return max(0.0, value)  # rounding can leave −1e-18


class Energy:
    """The divergence from a fixed target, as a function of means and covariances.

    With a `blur`, both densities are convolved with an isotropic Gaussian of this standard
    deviation first, which adds its variance to each of their components. What is far apart then
    attracts each other, and what is small is overlooked.
    """

    def __init__(self, target: GaussianMixture, objective: str, blur: float = 0.0) -> None:
        if objective not in _KERNELS:
            raise InvalidValueError(f"objective must be {' or '.join(_KERNELS)}, not {objective!r}")
        if objective == "cramer" and target.channels != 1:
            raise InvalidValueError(f"objective 'cramer' needs one channel, not {target.channels}")
        self._kernel, self._seconds = _KERNELS[objective]
        self._target = target
        self._blur = 2 * blur**2 * np.eye(target.channels)  # of a pair of components
        own, _, _ = self._pairs(target.means, target.covariances, target.means, target.covariances)
        self._constant = 0.5 * float((np.outer(target.weights, target.weights) * own).sum())

    def __call__(
        self, weights: FloatArray, means: FloatArray, covariances: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return (1) and its gradients in the means and covariances."""
        target = self._target
        if means.shape[1] != target.channels:
            raise InvalidValueError(f"source has {means.shape[1]} channels, not {target.channels}")
        count = len(weights)
        others = np.concatenate([means, target.means])
        spreads = np.concatenate([covariances, target.covariances])
        values, by_shift, by_sum = self._pairs(means, covariances, others, spreads)
        pairs = np.outer(weights, np.concatenate([weights, -target.weights]))
        energies = pairs * values
        value = 0.5 * energies[:, :count].sum() + energies[:, count:].sum() + self._constant
        by_mean = (pairs[..., np.newaxis] * by_shift).sum(axis=1)
        by_covariance = (pairs[..., np.newaxis, np.newaxis] * by_sum).sum(axis=1)
        return float(value), by_mean, by_covariance

    def curvature(
        self, weights: FloatArray, means: FloatArray, variances: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the first derivatives of (1) in the variances, (K,), and all second derivatives.

        The latter are those in means and means, in means and variances, and in variances and
        variances, each (K, K). For one channel; `means` and `variances` are (K,).
        """
        target = self._target
        shift = means[:, np.newaxis] - np.concatenate([means, target.means[:, 0]])
        total = variances[:, np.newaxis] + np.concatenate([variances, target.covariances[:, 0, 0]])
        pairs = np.outer(weights, np.concatenate([weights, -target.weights]))
        seconds = [pairs * second for second in self._seconds(shift, total)]
        # A pair depends on both of its components: on the difference of their means, so with
        # opposite signs, and on the sum of their variances, so with equal ones.
        signs = (-1.0, 1.0, 1.0)
        one, two, three = (
            np.diag(second.sum(axis=1)) + sign * second[:, : len(weights)]
            for second, sign in zip(seconds, signs, strict=True)
        )
        return 0.5 * seconds[0].sum(axis=1), one, two, three

    def _pairs(
        self,
        means: FloatArray,
        covariances: FloatArray,
        other_means: FloatArray,
        other_covariances: FloatArray,
    ) -> _Three:
        shift = means[:, np.newaxis] - other_means[np.newaxis]
        total = covariances[:, np.newaxis] + other_covariances[np.newaxis]
        if self._blur.any():
            total += self._blur
        return self._kernel(shift, total)


def _cramer(shift: FloatArray, variances: FloatArray) -> _Three:
    spread = np.sqrt(2 * variances[..., 0])
    ratio = shift / spread
    sign = special.erf(ratio)
    bell = np.exp(-ratio * ratio) / np.sqrt(np.pi)
    value = -(spread * bell + shift * sign)[..., 0]
    return value, -sign, -(bell / spread)[..., np.newaxis]


def _l2_seconds(shift: FloatArray, variance: FloatArray) -> _Three:
    """Return the second derivatives of the kernel of one channel, in δδ, δv and vv."""
    bell, u, w = _bell(shift, variance)
    square = u * u
    return (
        bell * (square - w),
        0.5 * bell * u * (3 * w - square),
        0.25 * bell * (square * (square - 6 * w) + 3 * w * w),
    )


def _cramer_seconds(shift: FloatArray, variance: FloatArray) -> _Three:
    bell, u, w = _bell(shift, variance)
    return -2 * bell, bell * u, -0.5 * bell * (u * u - w)


def _bell(shift: FloatArray, variance: FloatArray) -> _Three:
    """Return ``N(δ; 0, v)``, ``δ/v`` and ``1/v``."""
    w = 1 / variance
    u = shift * w
    return np.exp(-0.5 * shift * u) * np.sqrt(w / (2 * np.pi)), u, w


_KERNELS: dict[str, tuple[_Kernel, _Kernel]] = {  # and their second derivatives
    "l2": (gaussian.kernel, _l2_seconds),
    "cramer": (_cramer, _cramer_seconds),
}
