"""Newton's method: the last few steps to a minimum.

It needs second derivatives, and a starting point that is close. A quasi-Newton search would creep
the rest of the way, and where it stops would depend on rounding. Directions of negative curvature
are treated as if the curvature were positive, so that every step descends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ndflow.transport.lbfgs import Minimum
from ndflow.values import FloatArray, einsum

__all__ = ["settle"]

_ARMIJO = 1e-4  # share of the predicted decrease that a step must achieve
_FLATTEST = 1e-9  # smallest curvature that is divided by
_LONGEST = 0.5  # largest change of a coordinate: the parabola is no good further away
_SHORTEST = 1e-8  # smallest fraction of a step that is tried
_NEGLIGIBLE = 1e-14  # predicted decrease after which one more step is the last


def settle(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    hessian: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    *,
    accepted: Callable[[FloatArray], None],
    iterations: int,
) -> Minimum:
    """Minimise a function from a point near the minimum.

    Parameters
    ----------
    function : returns the value and the gradient at a point; coordinates should be of order one.
    hessian : returns the matrix of second derivatives.
    start, accepted, iterations : as for `ndflow.transport.lbfgs.minimise`.
    """
    x = start
    value, gradient = function(x)
    for iteration in range(iterations):
        curvatures, axes = np.linalg.eigh(hessian(x))
        slopes = einsum("ij,i->j", axes, gradient)
        bends = np.maximum(np.abs(curvatures), _FLATTEST)
        step = -einsum("ij,j->i", axes, slopes / bends)
        predicted = float((slopes * slopes / bends).sum())
        is_last = predicted <= _NEGLIGIBLE and curvatures[0] > 0
        t = min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-300))
        while True:
            there = x + t * step
            new_value, new_gradient = function(there)
            if is_last or new_value <= value - _ARMIJO * t * predicted:
                break
            t /= 2
            if t < _SHORTEST:
                return Minimum(x, iteration, converged=False)
        x, value, gradient = there, new_value, new_gradient
        accepted(x)
        if is_last:
            return Minimum(x, iteration + 1, converged=True)
    return Minimum(x, iterations, converged=False)
