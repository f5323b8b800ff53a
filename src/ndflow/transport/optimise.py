"""Minimising a smooth function of a few dozen parameters: L-BFGS, and Newton's method.

Why not scipy's: it hands vectors of twenty numbers to multithreaded BLAS, which then spends up to
forty times as much processor time waiting as computing, and sums in an order that depends on the
number of threads. This one sums in a fixed order and never accepts a step that goes up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ndflow.values import FloatArray, einsum

_MEMORY = 20
_ARMIJO = 1e-4  # share of the decrease predicted by the slope that a step must achieve
_SMALLEST_STEP = 1e-12


class Minimum(NamedTuple):
    """The point reached, and whether nothing was left to gain."""

    x: FloatArray
    converged: bool


def minimise(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    *,
    value_tolerance: float,
    gradient_tolerance: float = 1e-8,
    iterations: int = 1000,
    accepted: Callable[[FloatArray], None] = lambda _: None,
) -> Minimum:
    """Minimise a function.

    Parameters
    ----------
    function : returns the value and the gradient at a point.
    start : the point to start from, (n,).
    value_tolerance, gradient_tolerance : the search has converged when a step gains no more than
        the former, or no entry of the gradient exceeds the latter.
    iterations : the most iterations.
    accepted : called after each iteration with the new point, at which `function` was evaluated
        last.
    """
    x = start
    value, gradient = function(x)
    memory: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=_MEMORY)
    for _ in range(iterations):
        if np.abs(gradient).max(initial=0.0) <= gradient_tolerance:
            return Minimum(x, converged=True)
        direction = -_by_inverse_hessian(gradient, memory)
        found = _line_search(function, x, value, gradient, direction, first=not memory)
        if found is None:
            if not memory:
                return Minimum(x, converged=True)
            memory.clear()  # the curvature was misleading: retry along the gradient
            continue
        moved, new_value, new_gradient = found
        step, change = moved - x, new_gradient - gradient
        curvature = float((step * change).sum())
        if curvature > 1e-12 * float((change * change).sum()):
            memory.append((step, change, curvature))
        gain = value - new_value
        x, value, gradient = moved, new_value, new_gradient
        accepted(x)
        if gain <= value_tolerance:
            return Minimum(x, converged=True)
    return Minimum(x, converged=False)


def _by_inverse_hessian(
    gradient: FloatArray, memory: deque[tuple[FloatArray, FloatArray, float]]
) -> FloatArray:
    """Return the product of the approximate inverse Hessian with a vector: two-loop recursion."""
    result = gradient
    shares = []
    for step, change, curvature in reversed(memory):
        share = float(np.add.reduce(step * result)) / curvature
        shares.append(share)
        result = result - share * change
    if memory:
        _, change, curvature = memory[-1]
        result = result * (curvature / float((change * change).sum()))
    for (step, change, curvature), share in zip(memory, reversed(shares), strict=True):
        result = result + (share - float(np.add.reduce(change * result)) / curvature) * step
    return result


def _line_search(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    x: FloatArray,
    value: float,
    gradient: FloatArray,
    direction: FloatArray,
    *,
    first: bool,
) -> tuple[FloatArray, float, FloatArray] | None:
    """Find a step with sufficient decrease, by quadratic interpolation; None if there is none.

    The first step, for which no curvature is known, has a length of at most one.
    """
    slope = float((gradient * direction).sum())
    if not slope < 0:
        return None
    length = float(np.sqrt((direction * direction).sum()))
    t = min(1.0, 1.0 / length) if first else min(1.0, 10.0 / length)
    while t * length > _SMALLEST_STEP:
        there = x + t * direction
        new_value, new_gradient = function(there)
        if new_value <= value + _ARMIJO * t * slope:
            return there, new_value, new_gradient
        excess = new_value - value - t * slope
        parabola = -0.5 * slope * t * t / excess if np.isfinite(excess) else 0.0
        t = float(np.clip(parabola, 0.1 * t, 0.5 * t))
    return None


# ── Newton's method ───────────────────────────────────────────────────────────────────────────────
# Newton's method: the last few steps to a minimum.
#
# It needs second derivatives, and a starting point that is close. A quasi-Newton search would creep
# the rest of the way, and where it stops would depend on rounding. Directions of negative curvature
# are treated as if the curvature were positive, so that every step descends.

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
    start, accepted, iterations : as for `minimise`.
    """
    x = start
    value, gradient = function(x)
    for _ in range(iterations):
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
                return Minimum(x, converged=False)
        x, value, gradient = there, new_value, new_gradient
        accepted(x)
        if is_last:
            return Minimum(x, converged=True)
    return Minimum(x, converged=False)
