"""Matching: moving the components of one mixture until it looks like another.

Means and precisions move, weights stay. What is minimised is a divergence, and a regulariser that
keeps it well-posed. The divergence depends on the units, so it is evaluated in units in which the
target has unit variance in each channel.

Minimised to convergence, the divergence alone is ill-posed: it pays to spread a component that is
in the way over the whole line, where it costs next to nothing. (The fixed number of gradient steps
in the paper hides that.) So components are held back by

    γ Σ_k π_k [½ (μ_k − μ_k0)ᵀ Λ_k0 (μ_k − μ_k0) + ¼ ‖ln M_k‖²],                        (1)

with ``M = L0⁻¹ Λ L0⁻ᵀ`` and ``Λ0 = L0 L0ᵀ``. In one channel the bracket is
``½ ((μ − μ0)/σ0)² + ¼ ln²(λ/λ0)``, which is the same in any units.

The optimiser works in coordinates (z, θ) that are zero at the start and of order one:

    μ = μ0 + L0⁻ᵀ z,    Λ = L0 M L0ᵀ,    M = B Bᵀ,                                      (2)

where B is lower triangular, with ``exp(θ_ii / 2)`` on its diagonal and θ_ij below. In one channel
z is the shift in standard deviations and ``θ = ln(λ/λ0)``.

Components that stay where they are can be chosen by rules (`components_by_rule`):

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
from ndflow.transport.optimise import Minimum, minimise, settle
from ndflow.values import FloatArray, Status, Value, number_of, positive, real_array, short, whole

_MAX_ITERATIONS, _FEW_ITERATIONS = 1000, 50
_NEAR = 1e-6  # once a step gains less, the minimum is close and Newton's method takes over
_NOTHING, _FLAT = 1e-12, 1e-8  # gain of a step and size of the gradient at which a search ends


@dataclass(frozen=True, eq=False)
class Match(Value):
    """The result of `match`.

    Attributes
    ----------
    source : the mixture before matching.
    matched : the mixture after matching, component by component; the weights are the same.
    divergences : (iterations + 1,), the divergence from the target, in units in which the target
        has unit variance.
    status : whether the match converged.

    Examples
    --------
    >>> source = GaussianMixture([1.0], [0.0], [1.0])
    >>> target = GaussianMixture([1.0], [0.5], [1.0])
    >>> result = match(source, target)
    >>> bool(result.divergences[-1] < result.divergences[0])
    True
    """

    source: GaussianMixture
    matched: GaussianMixture
    divergences: FloatArray
    status: Status

    def __post_init__(self) -> None:
        """Validate."""
        self._set(divergences=real_array(self.divergences, "divergences", None))


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
    free = np.ones(source.components, dtype=bool)
    for index in frozen:
        free[whole(index, "each index in frozen", 0, source.components - 1)] = False
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
        divergences=np.array(trace),
        status=Status(converged, taken, message),
    )


def _searched(
    objective: Objective, coarse: Sequence[Objective]
) -> tuple[FloatArray, list[float], bool]:
    """Return the coordinates of the minimum, the divergences on the way, and success."""
    start = objective.start()
    latest, total, _ = objective.in_coordinates(start)
    trace = [latest]
    if coarse:
        ahead = _approached(coarse, start)
        there, least, _ = objective.in_coordinates(ahead)
        if least < total:
            start = ahead
            trace.append(there)

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal latest
        latest, total, gradient = objective.in_coordinates(flat)
        return total, gradient

    def keep(_: FloatArray) -> None:
        trace.append(latest)

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
            value_tolerance=_NEAR,
            gradient_tolerance=_FLAT,
            iterations=_MAX_ITERATIONS,
        ).x
    return start


# ── what is minimised ─────────────────────────────────────────────────────────────────────────────


class Objective:
    """The regularised divergence as a function of the components that are free to move."""

    def __init__(
        self, source: GaussianMixture, free: NDArray[np.bool_], energy: Energy, gamma: float
    ) -> None:
        self._source, self._free, self._energy = source, free, energy
        self._held = gamma * source.weights[free]
        self.means, self.precisions = source.means[free], source.precisions[free]
        self._root = gaussian.cholesky(self.precisions)  # L0
        identity = np.broadcast_to(np.eye(source.channels), self._root.shape)
        self._spread = np.swapaxes(np.linalg.solve(self._root, identity), 1, 2)  # L0⁻ᵀ
        self._spread_t = np.swapaxes(self._spread, 1, 2)
        self._lower = np.tril_indices(source.channels)
        self._diagonal = self._lower[0] == self._lower[1]
        self._shape = (len(self.means), source.channels + len(self._lower[0]))

    @property
    def bends(self) -> bool:
        """Whether Newton's method applies: one channel, and γ > 0, else there may be no minimum."""
        return self._source.channels == 1 and bool(self._held.any())

    def start(self) -> FloatArray:
        """Return the coordinates of the source."""
        return np.zeros(self._shape[0] * self._shape[1])

    def parameters(self, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the means and precisions at coordinates (z, θ), equation (2)."""
        z, b = self._unpacked(flat)
        factor = gaussian.product(self._root, b)
        return self._moved(z), gaussian.product(factor, np.swapaxes(factor, 1, 2))

    def in_coordinates(self, flat: FloatArray) -> tuple[float, float, FloatArray]:
        """Return the divergence, the objective, and the objective's gradient in (z, θ)."""
        z, b = self._unpacked(flat)
        m = gaussian.product(b, np.swapaxes(b, 1, 2))
        m_inverse = gaussian.inverse(m)
        half = gaussian.product(self._spread, m_inverse)
        means, covariances = self._source.means.copy(), self._source.covariances.copy()
        means[self._free] = self._moved(z)
        covariances[self._free] = gaussian.product(half, self._spread_t)
        value, by_mean, by_covariance = self._energy(self._source.weights, means, covariances)
        log_m = gaussian.spectral(np.log, m)
        strain = 0.5 * (z * z).sum(axis=1) + 0.25 * (log_m * log_m).sum(axis=(1, 2))
        held = self._held[:, np.newaxis, np.newaxis]
        # Σ = L0⁻ᵀ M⁻¹ L0⁻¹, so dΣ = −L0⁻ᵀ M⁻¹ dM M⁻¹ L0⁻¹; and d ½‖ln M‖² = tr(M⁻¹ ln M dM).
        half_t = np.swapaxes(half, 1, 2)
        pull = gaussian.product(gaussian.product(half_t, by_covariance[self._free]), half)
        push = 0.5 * held * gaussian.product(m_inverse, log_m)
        back = gaussian.times(self._root, z[:, np.newaxis])[:, 0]
        by_moved = by_mean[self._free] + self._held[:, np.newaxis] * back
        by_z = gaussian.times(self._spread_t, by_moved[:, np.newaxis])[:, 0]
        by_b = 2 * gaussian.product(push - pull, b)
        entries = b[:, self._lower[0], self._lower[1]]
        by_theta = by_b[:, self._lower[0], self._lower[1]]
        by_theta = np.where(self._diagonal, 0.5 * entries * by_theta, by_theta)
        gradient = np.concatenate([by_z, by_theta], axis=1).ravel()
        return value, value + float((self._held * strain).sum()), gradient

    def hessian(self, flat: FloatArray) -> FloatArray:
        """Return the second derivatives of the objective in (z, θ), for one channel.

        They follow from ``μ = μ0 + σ0 z`` and ``v = v0 e^{−θ}``: ``dμ = σ0 dz``, ``dv = −v dθ``,
        ``d²v = v dθ²``.
        """
        free = self._free
        z, b = self._unpacked(flat)
        spread = self._spread[:, 0, 0]
        moved = (spread / b[:, 0, 0]) ** 2
        means, variances = self._source.means[:, 0].copy(), self._source.covariances[:, 0, 0].copy()
        means[free], variances[free] = self._moved(z)[:, 0], moved
        by_variance, *seconds = self._energy.curvature(self._source.weights, means, variances)
        by_means, mixed, by_variances = (second[np.ix_(free, free)] for second in seconds)
        result = np.empty((len(z), 2, len(z), 2))
        result[:, 0, :, 0] = np.outer(spread, spread) * by_means + np.diag(self._held)
        result[:, 0, :, 1] = -np.outer(spread, moved) * mixed
        result[:, 1, :, 0] = result[:, 0, :, 1].T
        result[:, 1, :, 1] = np.outer(moved, moved) * by_variances
        result[:, 1, :, 1] += np.diag(moved * by_variance[free] + 0.5 * self._held)
        return result.reshape(flat.size, flat.size)

    def _unpacked(self, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return z and B."""
        d = self._source.channels
        rows = flat.reshape(self._shape)
        theta = rows[:, d:]
        entries = np.where(self._diagonal, np.exp(0.5 * np.clip(theta, -200.0, 200.0)), theta)
        b = np.zeros((len(rows), d, d))
        b[:, self._lower[0], self._lower[1]] = entries
        return rows[:, :d], b

    def _moved(self, z: FloatArray) -> FloatArray:
        return self.means + gaussian.times(self._spread, z[:, np.newaxis])[:, 0]


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
            raise InvalidValueError(f"no component {text}; write 0 to {mixture.components - 1}")
        return np.asarray(np.arange(mixture.components) == int(text))
    weighty = _WEIGHT.fullmatch(text)
    if weighty and 0 <= number_of(weighty[2]) <= 1:
        limit = number_of(weighty[2])
        return mixture.weights < limit if weighty[1] == "<" else mixture.weights > limit
    low, colon, high = text.partition(":")
    begin = number_of(low) if low.strip() else -math.inf
    end = number_of(high) if high.strip() else math.inf
    if colon and text != ":" and begin <= end:
        return np.asarray((means >= begin) & (means <= end))
    raise InvalidValueError(f"the rule {short(rule)} is not understood; write {_FORMS}")
