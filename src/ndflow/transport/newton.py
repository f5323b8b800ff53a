"""Newton's method: the last steps to a minimum, where they are few and exact.

It needs second derivatives, and a start that is close: a quasi-Newton search creeps the rest of the
way, and where it stops depends on rounding. A direction in which the function bends down is walked
as if it bent up as much, so that every step descends.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ndflow.transport.lbfgs import Minimum
from ndflow.values import FloatArray, einsum

__all__ = ["settle"]

_ENOUGH = 1e-4  # share of what a step promises that it must keep
_FLATTEST = 1e-9  # curvature
_LONGEST = 0.5  # of a step, in any coordinate: further away the parabola holds no longer
_SHORTEST = 1e-8  # share of a step
_NOTHING = 1e-14  # left to gain: after one more step nothing is left at all


def settle(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    hessian: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    *,
    accepted: Callable[[FloatArray], None],
    iterations: int,
) -> Minimum:
    """Minimise a function, given with its gradient and its matrix of second derivatives.

    Parameters as for `minimise` of `ndflow.transport.lbfgs`; coordinates should be of order one.
    """
    x = start
    value, gradient = function(x)
    for iteration in range(iterations):
        curvatures, axes = np.linalg.eigh(hessian(x))
        slopes = einsum("ij,i->j", axes, gradient)
        bends = np.maximum(np.abs(curvatures), _FLATTEST)
        step = -einsum("ij,j->i", axes, slopes / bends)
        promise = float((slopes * slopes / bends).sum())
        at_the_end = promise <= _NOTHING and curvatures[0] > 0
        t = min(1.0, _LONGEST / max(float(np.abs(step).max()), 1e-300))
        while True:
            there = x + t * step
            new_value, new_gradient = function(there)
            if at_the_end or new_value <= value - _ENOUGH * t * promise:
                break
            t /= 2
            if t < _SHORTEST:
                return Minimum(x, iteration, converged=False)
        x, value, gradient = there, new_value, new_gradient
        accepted(x)
        if at_the_end:
            return Minimum(x, iteration + 1, converged=True)
    return Minimum(x, iterations, converged=False)
