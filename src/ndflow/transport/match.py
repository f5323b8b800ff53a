"""Matching: moving the components of one mixture until it looks like another.

Means and precisions move, weights stay. `ndflow.transport.objective` describes what is minimised.
The divergence depends on the units, so it is evaluated in units in which the target has unit
variance in each channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture, gaussian
from ndflow.errors import InvalidValueError
from ndflow.transport.divergence import Energy
from ndflow.transport.lbfgs import Minimum, minimise
from ndflow.transport.newton import settle
from ndflow.transport.objective import Objective
from ndflow.values import FloatArray, Status, Value, instance, positive, real_array, short, whole

__all__ = ["Match", "match"]

_MAX_ITERATIONS, _FEW_ITERATIONS = 1000, 50
_NEAR = 1e-6  # once a step gains less, the minimum is close and Newton's method takes over
_NOTHING, _FLAT = 1e-12, 1e-8  # gain of a step and size of the gradient at which a search ends
_MAX_STEPS = 1_000_000
_SHORTEST = 1e-12  # rate below which gradient descent has reached the bottom


@dataclass(frozen=True, eq=False, repr=False)
class Match(Value):
    """The result of `match`.

    Attributes
    ----------
    source : the mixture before matching.
    matched : the mixture after matching, component by component; the weights are the same.
    divergences : (iterations + 1,), the divergence from the target, in units in which the target
        has unit variance.
    objectives : (iterations + 1,), the divergence plus the regulariser. It never rises.
    status : whether the match converged.

    Examples
    --------
    >>> source = GaussianMixture([1.0], [0.0], [1.0])
    >>> target = GaussianMixture([1.0], [0.5], [1.0])
    >>> result = match(source, target)
    >>> result
    Match(components=1, converged=True)
    >>> bool(result.divergences[-1] < result.divergences[0])
    True
    """

    source: GaussianMixture
    matched: GaussianMixture
    divergences: FloatArray
    objectives: FloatArray
    status: Status

    def __post_init__(self) -> None:
        """Validate."""
        instance(self.source, "source", GaussianMixture)
        instance(self.matched, "matched", GaussianMixture)
        instance(self.status, "status", Status)
        for name in ("divergences", "objectives"):
            object.__setattr__(self, name, real_array(getattr(self, name), name, None))

    def __repr__(self) -> str:
        """Return the number of components, and how the match ended."""
        return f"Match(components={self.source.components}, converged={self.status.converged})"


def match(
    source: GaussianMixture,
    target: GaussianMixture,
    *,
    objective: str = "l2",
    regularisation: float = 1e-3,
    frozen: Sequence[int] = (),
    blurs: Sequence[float] = (),
    optimiser: str = "lbfgs",
    steps: int = 200,
    rate: float = 1.0,
) -> Match:
    """Move the components of `source` towards `target`.

    Parameters
    ----------
    source : the mixture to move; align it with the target first, see `align`.
    target : the mixture that it should look like, with the same channels.
    objective : the divergence to minimise: ``"l2"``, as in the paper and by default, whatever the
        presets of commands use; or ``"cramer"`` (one channel only), which also sees light tails.
    regularisation : γ, how strongly components are held back; sensible values are 1e-3 to 1e-2.
    frozen : indices of components that stay exactly where they are.
    blurs : match coarsely first, both densities blurred by these standard deviations, in units in
        which the target has unit variance, one after the other: with several channels, components
        would otherwise be caught by the nearest peak.
    optimiser : ``"lbfgs"``, or ``"descent"`` for plain gradient descent as in the paper.
    steps, rate : the number of gradient steps and the initial step size, for ``"descent"`` only.

    Returns
    -------
    The source, the matched mixture, the divergences along the way and the status.

    Raises
    ------
    InvalidValueError : an option out of its range, or mixtures with different channels.

    Examples
    --------
    >>> source = GaussianMixture([0.5, 0.5], [-1.2, 0.9], [4.0, 4.0])
    >>> target = GaussianMixture([0.5, 0.5], [-1.0, 1.0], [4.0, 4.0])
    >>> match(source, target).matched.means.round(2)
    array([[-1.],
           [ 1.]])
    >>> match(source, target, frozen=[0]).matched.means[0]
    array([-1.2])
    """
    if source.channels != target.channels:
        raise InvalidValueError(
            f"source has {source.channels} channels, but target {target.channels}"
        )
    if optimiser not in ("lbfgs", "descent"):
        raise InvalidValueError(f"optimiser must be 'lbfgs' or 'descent', not {short(optimiser)}")
    whole(steps, "steps", 1, _MAX_STEPS)
    positive(rate, "rate")
    gamma = positive(regularisation, "regularisation", zero=True)
    free = _free(source, frozen)
    centre, scale = target.mean(), np.sqrt(np.diagonal(target.covariance()))
    shrink, shift = np.diag(1 / scale), -centre / scale
    near = source.transformed(shrink, shift)
    widths = [positive(blur, "each of blurs") for blur in blurs]
    goal = target.transformed(shrink, shift)
    coarse = [Objective(near, free, Energy(goal, objective, blur), gamma) for blur in widths]
    minimised = Objective(near, free, Energy(goal, objective), gamma)
    if not free.any():
        end = _nothing(minimised)
    elif optimiser == "lbfgs":
        end = _lbfgs(minimised, coarse)
    else:
        end = _descent(minimised, steps, rate)
    means, precisions = source.means.copy(), source.precisions.copy()
    means[free] = end.means * scale + centre
    precisions[free] = gaussian.symmetric(end.precisions / np.outer(scale, scale))
    return Match(
        source=source,
        matched=GaussianMixture(source.weights, means, precisions),
        divergences=np.array([value for value, _ in end.trace]),
        objectives=np.array([total for _, total in end.trace]),
        status=end.status,
    )


def _free(source: GaussianMixture, frozen: Sequence[int]) -> NDArray[np.bool_]:
    free = np.ones(source.components, dtype=bool)
    for index in frozen:
        whole(index, "each index in frozen", 0, source.components - 1)
        free[index] = False
    return free


class _End(NamedTuple):
    means: FloatArray  # of the free components
    precisions: FloatArray
    trace: list[tuple[float, float]]
    status: Status


def _nothing(objective: Objective) -> _End:
    trace = [objective.in_coordinates(objective.start())[:2]]
    status = Status(True, 0, "nothing to move: all components are frozen")
    return _End(objective.means, objective.precisions, trace, status)


def _lbfgs(objective: Objective, coarse: Sequence[Objective]) -> _End:
    start = objective.start()
    latest = objective.in_coordinates(start)[:2]
    trace = [latest]
    if coarse:
        ahead = _approached(coarse, start)
        there = objective.in_coordinates(ahead)[:2]
        if there[1] < latest[1]:
            start, latest = ahead, there
            trace.append(there)

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal latest
        value, total, gradient = objective.in_coordinates(flat)
        latest = value, total
        return total, gradient

    def keep(_: FloatArray) -> None:
        value, total = latest
        trace.append((value, min(total, trace[-1][1])))  # rounding may lift the last step

    def search(begin: FloatArray, tolerance: float) -> Minimum:
        return minimise(
            evaluate,
            begin,
            accepted=keep,
            value_tolerance=tolerance,
            gradient_tolerance=_FLAT,
            iterations=_MAX_ITERATIONS,
        )

    if objective.bends:
        near = search(start, _NEAR)
        end = settle(evaluate, objective.hessian, near.x, accepted=keep, iterations=_FEW_ITERATIONS)
        if not end.converged:
            end = search(end.x, _NOTHING)
    else:
        end = search(start, _NOTHING)
    taken = len(trace) - 1
    message = f"converged after {taken} iterations"
    if not end.converged:
        message = f"stopped after {taken} iterations; try a larger regularisation"
    return _End(*objective.parameters(end.x), trace, Status(end.converged, taken, message))


def _approached(coarse: Sequence[Objective], start: FloatArray) -> FloatArray:
    """Return where blurred densities match; each search starts where the last one ended."""
    for objective in coarse:

        def evaluate(flat: FloatArray, at: Objective = objective) -> tuple[float, FloatArray]:
            return at.in_coordinates(flat)[1:]

        start = minimise(
            evaluate,
            start,
            accepted=lambda _: None,
            value_tolerance=_NEAR,
            gradient_tolerance=_FLAT,
            iterations=_MAX_ITERATIONS,
        ).x
    return start


def _descent(objective: Objective, steps: int, rate: float) -> _End:
    """Take plain gradient steps on means and precisions, halving those that would go up."""
    means, precisions = objective.means, objective.precisions
    value, total, by_mean, by_precision = objective.in_parameters(means, precisions)
    trace = [(value, total)]
    for _ in range(steps):
        while rate > _SHORTEST:
            new_means = means - rate * by_mean
            new_precisions = precisions - rate * by_precision
            if np.linalg.eigvalsh(new_precisions).min(initial=np.inf) > 0:
                there = objective.in_parameters(new_means, new_precisions)
                if there[1] <= total:
                    break
            rate /= 2
        else:
            break
        means, precisions = new_means, new_precisions
        value, total, by_mean, by_precision = there
        trace.append((value, total))
    taken = len(trace) - 1
    ended = rate <= _SHORTEST
    message = f"took {taken} gradient steps" + (" and reached a minimum" if ended else "")
    return _End(means, precisions, trace, Status(ended, taken, message))
