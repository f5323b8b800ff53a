"""Robust alignment: on the peaks that two densities share, ignoring what one of them lacks.

Of all affine maps, it is the one with the smallest L2 divergence from the reference p,

    min_{t, b} ½‖q_tb‖² + ½‖p‖² − ⟨q_tb, p⟩,    q_tb the density of e^t x + b,                 (1)

where the search starts from the alignment of moments. In terms of the gradients of
`ndflow.transport.divergence`, that in t is ``Σ ∂_μ e^t μ + 2 Σ ∂_Σ Σ_tb``, and that in b ``Σ ∂_μ``.

Mass far from all of p enters (1) with almost no gradient: a lesion of a few per cent, or twice as
much CSF, hardly moves the map, whereas it does move mean and variance. (In statistics the idea is
known as the robust estimator L2E.) Densities that share no peaks cannot be aligned in this way: (1)
would smear one of them over the whole line. Where it leads very far from the alignment of moments,
further than any lesion would, that alignment is used instead.

This is for comparing scans. *Normalisation* starts from the alignment of moments, which always
exists and is that of the paper.
"""

from __future__ import annotations

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.transport import Affine, align
from ndflow.transport.divergence import Energy
from ndflow.transport.lbfgs import minimise
from ndflow.values import FloatArray

__all__ = ["robust_align"]

_FLAT, _NOTHING, _ITERATIONS = 1e-9, 1e-14, 200
_WIDEST, _FURTHEST = np.log(4), 2.0  # limits from the moments: log factor, standard deviations


def robust_align(mixture: GaussianMixture, reference: GaussianMixture) -> Affine:
    """Return the affine map that aligns a density with a reference; both have one channel."""
    if mixture.channels != 1:
        raise InvalidValueError(f"mixture must have one channel, not {mixture.channels}")
    units = align(reference)  # to unit variance, so that tolerances are meaningful
    aligned = _align_to_standardised(mixture, reference.transformed(units.matrix, units.offset))
    back = units.inverse()
    return Affine(back.matrix * aligned.matrix, back(aligned.offset))


def _align_to_standardised(mixture: GaussianMixture, reference: GaussianMixture) -> Affine:
    start = align(mixture, reference)
    own = mixture.transformed(start.matrix, start.offset)
    centre = reference.mean()  # scaling about it makes t and b nearly independent
    energy = Energy(reference, "l2")

    def evaluate(at: FloatArray) -> tuple[float, FloatArray]:
        scale = np.exp(at[0])
        arms, covariances = scale * (own.means - centre), scale**2 * own.covariances
        value, by_mean, by_covariance = energy(own.weights, centre + arms + at[1], covariances)
        by_scale = (by_mean * arms).sum() + 2 * (by_covariance * covariances).sum()
        return value, np.array([by_scale, by_mean.sum()])

    end = minimise(
        evaluate,
        np.zeros(2),
        accepted=lambda _: None,
        value_tolerance=_NOTHING,
        gradient_tolerance=_FLAT,
        iterations=_ITERATIONS,
    ).x
    scale, spread = np.exp(end[0]), np.sqrt(reference.covariance()[0, 0])
    if abs(end[0]) > _WIDEST or abs(end[1]) > _FURTHEST * spread:
        return start
    return Affine(scale * start.matrix, scale * (start.offset - centre) + centre + end[1:])
