"""Weights with which a sample has given moments: exponential tilting, or entropy balancing.

With f_i the moments of scan i of n, the weights nearest to uniform with which they have the mean t

    minimise KL(w) = Σ_i w_i log(n w_i)   with   Σ_i w_i = 1,   Σ_i w_i f_i = t.               (1)

They are ``w_i ∝ exp(λ·(f_i − t))``, where λ minimises the dual

    D(λ) = log (1/n) Σ_i exp(λ·(f_i − t)) + r/2 |λ|²,   ∇D = Σ_i w_i f_i − t + rλ,             (2)

for r = 0: convex, with the covariance of f under w as second derivative, so Newton's method finds
it. If t is not within the convex hull of the f_i, there are no such weights, and D falls without
end. If it is, some ``λ·(f_i − t)`` is not negative whatever λ, and D is never less than
``−log n``. So a λ with

    D(λ) < −log n                                                                              (3)

proves that t is outside, and the search ends with either the weights or the proof. With r > 0 there
are always weights. They minimise ``KL(w) + |Σ_i w_i f_i − t|² / 2r``, and leave the imbalance −rλ.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from ndflow.values import FloatArray, einsum

__all__ = ["Tilt", "tilt"]

_PRECISE = 1e-11  # of moments
_ITERATIONS = 200
_FLATTEST = 1e-12  # smallest curvature that is divided by
_ARMIJO, _SHORTEST = 1e-4, 1e-10  # share of the predicted decrease; smallest fraction of a step
_ROUNDING = 1e-14  # of D


class Tilt(NamedTuple):
    """The solution of (2), or how far the search for one has come.

    Attributes
    ----------
    multipliers, value, curvature : λ, D, and its second derivative.
    weights : of the scans.
    status : ``"solved"``; ``"outside"``, if it is proved that there is no solution; or
        ``"stalled"``, which happens where the target is at the very border of the convex hull.
    """

    multipliers: FloatArray
    weights: FloatArray
    value: float
    curvature: FloatArray
    status: Literal["solved", "outside", "stalled"]


def tilt(
    features: FloatArray,
    target: FloatArray,
    relaxation: float = 0.0,
    start: FloatArray | None = None,
) -> Tilt:
    """Return the weights nearest to uniform with which moments have the mean of a target.

    Parameters
    ----------
    features : (n, p), the moments f of each scan, of order 1.
    target : (p,), t.
    relaxation : r; 0 for weights that reach the target.
    start : (p,), the first λ of the search.

    Examples
    --------
    >>> tilt(np.array([[0.0], [1.0]]), np.array([0.25])).weights
    array([0.75, 0.25])
    >>> tilt(np.array([[0.0], [1.0]]), np.array([1.25])).status
    'outside'
    """
    away = features - target
    count, size = away.shape
    ridge = relaxation * np.eye(size)

    def dual(at: FloatArray) -> tuple[float, FloatArray]:
        exponents = einsum("ij,j->i", away, at)
        top = float(exponents.max()) if size else 0.0
        powers = np.exp(exponents - top)
        total = float(powers.sum())
        value = top + math.log(total / count) + relaxation / 2 * float(einsum("i,i->", at, at))
        return value, powers / total

    multipliers = np.zeros(size) if start is None else start
    value, weights = dual(multipliers)
    for _ in range(_ITERATIONS):
        mean = einsum("ij,i->j", away, weights)
        centred = away - mean
        curvature = einsum("i,ij,ik->jk", weights, centred, centred) + ridge
        slope = mean + relaxation * multipliers
        if not size or np.abs(slope).max() <= _PRECISE:
            return Tilt(multipliers, weights, value, curvature, "solved")
        if not relaxation and value < -math.log(count) - _rounding(away, multipliers):  # (3)
            return Tilt(multipliers, weights, value, curvature, "outside")
        bends, axes = np.linalg.eigh(curvature)
        along = einsum("ij,i->j", axes, slope) / np.maximum(bends, _FLATTEST)
        step = -einsum("ij,j->i", axes, along)
        predicted = -float(einsum("i,i->", slope, step))
        length = 1.0
        while length > _SHORTEST:
            there = dual(multipliers + length * step)
            if there[0] <= value - _ARMIJO * length * predicted + _ROUNDING:
                break
            length /= 2
        else:
            break
        multipliers = multipliers + length * step
        value, weights = there
    return Tilt(multipliers, weights, value, curvature, "stalled")


def _rounding(away: FloatArray, multipliers: FloatArray) -> float:
    """Return how much of D may be due to rounding."""
    return _ROUNDING * (1 + float(np.abs(multipliers).sum() * np.abs(away).max()))
