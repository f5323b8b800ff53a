"""Overlay: an alignment that rests on the peaks two densities share, and ignores what one lacks.

Of all affine maps, the one of the least L2 divergence from the reference p,

    min_{t, b} ½‖q_tb‖² + ½‖p‖² − ⟨q_tb, p⟩,    q_tb the density of e^t x + b,                 (1)

where the alignment of moments starts the search. With the gradients of
`ndflow.transport.divergence`, that in t is ``Σ ∂_μ e^t μ + 2 Σ ∂_Σ Σ_tb``, and that in b ``Σ ∂_μ``.

Mass far from all of p enters (1) with almost no gradient: a lesion of a few per cent, or twice as
much fluid, hardly moves the map, whereas it does move mean and variance. (Statistics knows the
idea as the robust estimator L2E.) Densities that share no peaks have no overlay: it would smear one
of them over the whole line. Where (1) leads very far from the alignment of moments, further than
any lesion would, it stays at that.

It is for comparing scans. Scans are *normalised* from the
alignment of moments, which always exists, and is the paper's.
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
_WIDEST, _FURTHEST = np.log(4), 2.0  # from the moments: a factor, and standard deviations


def robust_align(mixture: GaussianMixture, reference: GaussianMixture) -> Affine:
    """Return the affine map that lays a density on a reference; both of one channel."""
    if mixture.channels != 1:
        raise InvalidValueError(f"mixture must have one channel, not {mixture.channels}")
    units = align(reference)  # where it has unit spread, so that tolerances mean something
    laid = _in_unit_spread(mixture, reference.transformed(units.matrix, units.offset))
    back = units.inverse()
    return Affine(back.matrix * laid.matrix, back(laid.offset))


def _in_unit_spread(mixture: GaussianMixture, reference: GaussianMixture) -> Affine:
    start = align(mixture, reference)
    own = mixture.transformed(start.matrix, start.offset)
    centre = reference.mean()  # about which it is scaled: then t and b hardly interact
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
