"""Matching: moving the components of one mixture until it looks like another.

Means and precisions move, weights stay. `ndflow.transport.objective` describes what is minimised.
The divergence depends on the units, so it is evaluated in units in which the target has unit
variance in each channel.

Choosing components by rules that users write, for example those to freeze.

| rule                         | chooses                                                      |
|------------------------------|--------------------------------------------------------------|
| ``3``                        | the component with this index, counted from 0                |
| ``weight<0.02``              | components with less than this share of the voxels           |
| ``weight>0.3``               | components with more than this share of the voxels           |
| ``900:1200``, ``:50``, ``1200:`` | components whose mean lies in this range, ends included  |

Intensities are in the units of the mixture. Several rules choose the components that at least one
of them chooses. A weight or a range may choose nothing, because scans differ; an index that does
not exist is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture, gaussian
from ndflow.errors import InvalidValueError
from ndflow.transport.divergence import Energy
from ndflow.transport.objective import Objective
from ndflow.transport.optimise import Minimum, minimise, settle
from ndflow.values import FloatArray, Status, Value, positive, real_array, short, whole

_MAX_ITERATIONS, _FEW_ITERATIONS = 1000, 50
_NEAR = 1e-6  # once a step gains less, the minimum is close and Newton's method takes over
_NOTHING, _FLAT = 1e-12, 1e-8  # gain of a step and size of the gradient at which a search ends


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
        self._set(
            divergences=real_array(self.divergences, "divergences", None),
            objectives=real_array(self.objectives, "objectives", None),
        )

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

    Returns
    -------
    The source, the matched mixture, the divergences along the way and the status.

    Raises
    ------
    InvalidValueError : an option out of its range.

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
    gamma = positive(regularisation, "regularisation", zero=True)
    free = _free(source, frozen)
    centre, scale = target.mean(), np.sqrt(np.diagonal(target.covariance()))
    shrink, shift = np.diag(1 / scale), -centre / scale
    near = source.transformed(shrink, shift)
    widths = [positive(blur, "each of blurs") for blur in blurs]
    goal = target.transformed(shrink, shift)
    coarse = [Objective(near, free, Energy(goal, objective, blur), gamma) for blur in widths]
    minimised = Objective(near, free, Energy(goal, objective), gamma)
    end, trace, converged = _searched(minimised, coarse)
    moved, reshaped = minimised.parameters(end)
    means, precisions = source.means.copy(), source.precisions.copy()
    means[free] = moved * scale + centre
    precisions[free] = gaussian.symmetric(reshaped / np.outer(scale, scale))
    taken = len(trace) - 1
    message = f"converged after {taken} iterations"
    if not converged:
        message = f"stopped after {taken} iterations; try a larger regularisation"
    return Match(
        source=source,
        matched=GaussianMixture(source.weights, means, precisions),
        divergences=np.array([value for value, _ in trace]),
        objectives=np.array([total for _, total in trace]),
        status=Status(converged, taken, message),
    )


def _free(source: GaussianMixture, frozen: Sequence[int]) -> NDArray[np.bool_]:
    free = np.ones(source.components, dtype=bool)
    for index in frozen:
        whole(index, "each index in frozen", 0, source.components - 1)
        free[index] = False
    return free


def _searched(
    objective: Objective, coarse: Sequence[Objective]
) -> tuple[FloatArray, list[tuple[float, float]], bool]:
    """Return the coordinates of the minimum, the divergences and totals on the way, and success."""
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
    return end.x, trace, end.converged


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


# ── components that stay where they are ───────────────────────────────────────────────────────────

_INDEX = re.compile(r"\d{1,9}", re.ASCII)
_WEIGHT = re.compile(r"weight\s*([<>])([^<>=]*)")
_FORMS = (
    "an index (3), a weight from 0 to 1 (weight<0.02 or weight>0.3), or a range with the lower end "
    "first (900:1200, :50 or 1200:)"
)


def components_by_rule(mixture: GaussianMixture, rules: Iterable[str]) -> tuple[int, ...]:
    """Return the indices of the components that at least one of the rules chooses, in order.

    Parameters
    ----------
    mixture : a density of one channel.
    rules : strings such as ``"3"``, ``"weight<0.02"`` or ``"900:1200"``.

    Raises
    ------
    InvalidValueError : a rule that is not understood, or an index that does not exist.

    Examples
    --------
    >>> mixture = GaussianMixture([0.3, 0.69, 0.01], [300.0, 900.0, 1500.0], [1e-3] * 3)
    >>> components_by_rule(mixture, ["weight<0.02", ":500"])
    (0, 2)
    """
    if isinstance(rules, str):
        raise InvalidValueError(f"rules must be a list of strings, not one string ({short(rules)})")
    picked = np.zeros(mixture.components, dtype=bool)
    for rule in rules:
        picked |= _follow(mixture, rule)
    return tuple(np.flatnonzero(picked).tolist())


def check_rules(rules: Iterable[str]) -> None:
    """Raise InvalidValueError for rules that are not understood, before any mixture is known.

    Examples
    --------
    >>> check_rules(["weight<0.02", "900:1200"])
    >>> check_rules(["weight=0.02"])
    Traceback (most recent call last):
    ...
    ndflow.errors.InvalidValueError: the rule 'weight=0.02' is not understood; ...
    """
    anything = GaussianMixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    for rule in rules:
        if not _INDEX.fullmatch(rule.strip()):
            _follow(anything, rule)


def _follow(mixture: GaussianMixture, rule: str) -> NDArray[np.bool_]:
    """Return which components a rule chooses."""
    text = rule.strip()
    means = mixture.means[:, 0]
    if _INDEX.fullmatch(text):
        if int(text) >= mixture.components:
            raise InvalidValueError(
                f"the rule {short(rule)} names a component that does not exist; "
                f"write an index from 0 to {mixture.components - 1}"
            )
        return np.asarray(np.arange(mixture.components) == int(text))
    weighty = _WEIGHT.fullmatch(text)
    if weighty and 0 <= _number(weighty[2]) <= 1:
        limit = _number(weighty[2])
        return mixture.weights < limit if weighty[1] == "<" else mixture.weights > limit
    low, colon, high = text.partition(":")
    begin = _number(low) if low.strip() else -math.inf
    end = _number(high) if high.strip() else math.inf
    if colon and text != ":" and begin <= end:
        return np.asarray((means >= begin) & (means <= end))
    raise InvalidValueError(f"the rule {short(rule)} is not understood; write {_FORMS}")


def _number(text: str) -> float:
    """Return a finite number, or NaN, which satisfies no condition."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan
