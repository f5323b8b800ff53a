"""Variational inference for a Dirichlet-process Gaussian mixture: a sweep, and the climb of many.

The model, for points x_n that count c_n: stick-breaking weights ``π_t = v_t Π_{s<t} (1 − v_s)``
with ``v_t ~ Beta(1, α)``, truncated at T by ``v_T = 1``; component parameters with the
Normal–Wishart prior ``Λ ~ W(W0, ν0)``, ``μ | Λ ~ N(m0, (κ0 Λ)⁻¹)``. In one channel this is the
Normal–Gamma prior of the paper with ``a = ν/2`` and ``b = W⁻¹/2``.

The approximate posterior has the same families. Given the moments of the points under the
responsibilities r, ``N = Σ c r``, ``x̄ = Σ c r x / N``, ``S = Σ c r (x − x̄)(x − x̄)ᵀ``, its
parameters are

    g1 = 1 + N_t,  g2 = α + Σ_{s>t} N_s                                                 (1)
    κ = κ0 + N,  m = (κ0 m0 + N x̄) / κ,  ν = ν0 + N                                     (2)
    W⁻¹ = W0⁻¹ + S + (κ0 N / κ) (x̄ − m0)(x̄ − m0)ᵀ                                       (3)

and given those, the responsibilities are ``r ∝ ρ`` with

    ln ρ = E ln π + ½ (E ln|Λ| − d ln 2π − d/κ) − ½ ν [(x − m)ᵀ W (x − m) + tr(W B)]     (4)
    E ln|Λ| = Σ_i ψ((ν + 1 − i)/2) + d ln 2 + ln|W|                                      (5)

Right after (4) the lower bound on the evidence is ``Σ_n c_n ln Σ_t ρ_nt`` minus the
Kullback–Leibler divergences of the posterior from the prior: of the sticks (6) and of the
components (7). The bound is thus a function of the moments alone, which is what lets
`climb` extrapolate them safely.

The points are bins: x is the centre of a bin, and B the covariance within it, ``diag(h²/12)`` for
widths h. It adds ``N B`` to S. Without it, components would shrink onto single bins where these are
coarse, because the likelihood of an ever sharper peak on a point is unbounded.

Moments may have leading axes, for several mixtures over the same points; all that follows from them
then has the same axes. Sweeping a few mixtures at once costs little more than sweeping one.

A sweep takes moments to moments and never lowers the bound, but progress is slow where components
overlap. Anderson acceleration looks back at the last few points v and what a sweep did to them,
``f = g(v) − v``, finds the combination of them for which ``‖f‖`` would have been smallest, and
moves to where the sweeps lead from that combination. Because the bound is a function of the moments
alone, such a jump is simply tried: it is accepted if the bound does not fall; otherwise the plain
sweep is taken and the memory cleared. So acceleration can waste a sweep, but never lower the bound.

Two choices make it work here. Jumps are made in coordinates in which every point is valid:
logarithms of the masses, means, and Cholesky factors of the covariances with the logarithm of
their diagonal. And ``‖f‖`` weighs each coordinate by the information that the data hold about it
(masses times inverse variances), so that components that are dying out do not drown the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import special

from ndflow.density import gaussian
from ndflow.values import FloatArray, einsum

_LOG_2 = float(np.log(2.0))
_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Prior:
    """The prior of the mixture, for data of zero mean.

    Attributes
    ----------
    concentration : α.
    strength : κ0, how many points the prior mean is worth.
    dof : ν0.
    scale : W0⁻¹, (d, d).
    """

    concentration: float
    strength: float
    dof: float
    scale: FloatArray

    @cached_property
    def log_det_scale(self) -> float:
        """``ln |W0⁻¹|``."""
        return float(gaussian.log_det(self.scale[np.newaxis])[0])

    @cached_property
    def log_gamma(self) -> float:
        """``Σ_i ln Γ((ν0 + 1 − i)/2)``."""
        return float(special.gammaln(self.halves(np.array([self.dof]))).sum())

    @cached_property
    def _steps(self) -> FloatArray:
        return np.arange(len(self.scale), dtype=np.float64)[:, np.newaxis] / 2

    def halves(self, dof: FloatArray) -> FloatArray:
        """``(ν + 1 − i)/2`` for i = 1 … d, (…, d, T)."""
        return 0.5 * dof[..., np.newaxis, :] - self._steps


class Data(NamedTuple):
    """Points x, (n, d), their counts, (n,), and the covariance B within a bin, (d, d)."""

    x: FloatArray
    counts: FloatArray
    within: FloatArray


class Moments(NamedTuple):
    """The moments of the data under the responsibilities: all that the posterior depends on.

    mass (…, T) is N, mean (…, T, d) is x̄, scatter (…, T, d, d) is S.
    """

    mass: FloatArray
    mean: FloatArray
    scatter: FloatArray


class Posterior(NamedTuple):
    """Parameters of the approximate posterior, and its divergence from the prior."""

    log_weights: FloatArray  # E ln π, (…, T)
    mean: FloatArray  # m, (…, T, d)
    strength: FloatArray  # κ, (…, T)
    precision: FloatArray  # E Λ = ν W, (…, T, d, d)
    log_det: FloatArray  # E ln|Λ|, (…, T)
    sticks: FloatArray  # E v, (…, T − 1)
    divergence: FloatArray  # sum of (6) and (7), (…)

    def weights(self) -> FloatArray:
        """Return the expected weights E π of a single mixture, which sum to 1."""
        rest = np.concatenate([[1.0], np.cumprod(1.0 - self.sticks)])
        weights: FloatArray = np.concatenate([self.sticks, [1.0]]) * rest
        return weights

    def log_joint(self, data: Data) -> tuple[FloatArray, FloatArray]:
        """Return ``ln ρ`` of equation (4), (…, T, n), and what moments need of the points."""
        d = data.x.shape[1]
        terms, basis = gaussian.quadratic_at(-0.5 * self.precision, self.mean, data.x)
        smear = gaussian.trace(gaussian.product(self.precision, data.within[np.newaxis]))
        level = 0.5 * (self.log_det - d * _LOG_2PI - d / self.strength - smear)
        terms += (self.log_weights + level)[..., np.newaxis]
        return terms, basis


def posterior(prior: Prior, moments: Moments) -> Posterior:
    """Return the posterior given the moments: equations (1) to (3) and (5) to (7)."""
    mass, mean, scatter = moments
    *several, count, d = mean.shape
    kappa = mass + prior.strength
    dof = mass + prior.dof
    # All digammas and log gammas in one call, because a call costs more than a number.
    g1 = mass[..., :-1] + 1.0
    later = np.add.accumulate(mass[..., :0:-1], axis=-1)[..., ::-1]
    g2 = later + prior.concentration
    halves = prior.halves(dof).reshape(*several, d * count)
    arguments = np.concatenate((g1, g2, g1 + g2, halves), axis=-1)
    psis, log_gammas = special.psi(arguments), special.gammaln(arguments)
    cut = 3 * (count - 1)
    three = (*several, 3, count - 1)
    both = psis[..., :cut].reshape(three), log_gammas[..., :cut].reshape(three)
    log_weights, sticks, of_sticks = _sticks(prior.concentration, (g1, g2), *both)
    psi = np.add.reduce(psis[..., cut:].reshape(*several, d, count), axis=-2)
    share = (mass / kappa)[..., np.newaxis]
    m = share * mean
    # (κ0 N / κ) x̄ x̄ᵀ = κ0 m x̄ᵀ, and the divergence of the means needs κ0 m mᵀ.
    pulled = gaussian.outer(prior.strength * m, mean)
    scale = scatter + prior.scale
    scale += pulled
    log_det_scale = gaussian.log_det(scale)
    precision = dof[..., np.newaxis, np.newaxis] * gaussian.inverse(scale)
    pulled *= share[..., np.newaxis]
    pulled += prior.scale
    held = gaussian.trace(gaussian.product(precision, pulled))
    of_components = 0.5 * (
        prior.dof * (_sum(log_det_scale) - count * prior.log_det_scale)
        - 2.0 * (_sum(log_gammas[..., cut:]) - count * prior.log_gamma)
        + _sum(mass * psi)
        + d * (_sum(prior.strength / kappa - dof + np.log(kappa / prior.strength)) - count)
        + _sum(held)
    )  # (7)
    log_det, divergence = psi + d * _LOG_2 - log_det_scale, of_sticks + of_components
    return Posterior(log_weights, m, kappa, precision, log_det, sticks, divergence)


def _sum(numbers: FloatArray) -> FloatArray:
    """Return ``numbers.sum(axis=-1)``, in half the time if the numbers are few."""
    result: FloatArray = np.add.reduce(numbers, axis=-1)
    return result


def _sticks(
    alpha: float, parameters: tuple[FloatArray, FloatArray], psi: FloatArray, log_gamma: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E ln π, E v, and the divergence (6).

    `parameters` are g1 and g2; `psi` and `log_gamma` are taken at g1, g2 and g1 + g2.
    """
    g1, g2 = parameters
    log_v, log_rest = psi[..., 0, :] - psi[..., 2, :], psi[..., 1, :] - psi[..., 2, :]
    *several, count = g1.shape
    log_weights = np.zeros((*several, count + 1))
    log_weights[..., :-1] = log_v
    log_weights[..., 1:] += np.add.accumulate(log_rest, axis=-1)
    log_beta = log_gamma[..., 0, :] + log_gamma[..., 1, :] - log_gamma[..., 2, :]
    terms = (1.0 - g1) * log_v + (alpha - g2) * log_rest + log_beta
    divergence = -count * np.log(alpha) - _sum(terms)  # (6)
    return log_weights, g1 / (g1 + g2), divergence


def expectation(data: Data, q: Posterior) -> tuple[FloatArray, Moments]:
    """Return the bound at this posterior, and the moments under its responsibilities (4).

    Sums are taken about the posterior means, which are close to the new means: sums of squares
    about a distant origin would lose digits.
    """
    terms, basis = q.log_joint(data)
    top = np.maximum.reduce(terms, axis=-2)
    terms -= top[..., np.newaxis, :]
    np.exp(terms, out=terms)
    norm = np.add.reduce(terms, axis=-2)
    top += np.log(norm)
    bound = _sum(data.counts * top) - q.divergence
    terms *= (data.counts / norm)[..., np.newaxis, :]
    sums = gaussian.weighted_moments(terms, basis, q.mean)
    return bound, _centred(data, *sums, q.mean)


def moments_under(data: Data, responsibilities: FloatArray, about: FloatArray) -> Moments:
    """Return the moments under responsibilities (T, n); `about` are points near the means."""
    basis = gaussian.moment_basis(data.x, about)
    weighted = gaussian.weighted_moments(responsibilities * data.counts, basis, about)
    return _centred(data, *weighted, about)


def _centred(
    data: Data, mass: FloatArray, first: FloatArray, second: FloatArray, about: FloatArray
) -> Moments:
    shift = first / np.maximum(mass, 1e-300)[..., np.newaxis]
    scatter = second + mass[..., np.newaxis, np.newaxis] * (data.within - gaussian.outer(shift))
    return Moments(mass, about + shift, scatter)


# ── sweeps, and extrapolation of where they lead ──────────────────────────────────────────────────

_MEMORY = 8
_PATIENCE = 3  # steps in a row that must gain little
_TINY_MASS = 1e-8
_TINY_VARIANCE = 1e-6  # of data with unit variance


class Climb(NamedTuple):
    """The moments reached, the bound at each step, and whether the last steps gained little."""

    moments: Moments
    bounds: list[float]
    converged: bool


def sweep(data: Data, prior: Prior, moments: Moments) -> tuple[float, Moments]:
    """Return the bound at `moments`, and the moments after one sweep."""
    bound, after = expectation(data, posterior(prior, moments))
    return float(bound), after


def climb(data: Data, prior: Prior, start: Moments, tolerance: float, sweeps: int) -> Climb:
    """Climb until three steps in a row gain less than `tolerance` nats each, or sweeps run out."""
    here, v = start, _coordinates(start)
    bound, after = sweep(data, prior, here)
    bounds, used, idle = [bound], 1, 0
    memory: list[tuple[FloatArray, FloatArray]] = []
    while used < sweeps:
        v_after = _coordinates(after)
        memory = [*memory[-_MEMORY:], (v, v_after - v)]
        level = -np.inf
        if len(memory) > 1:
            v_jump = _extrapolated(memory, _information(after))
            jump = _moments(v_jump, after, data)
            level, beyond = sweep(data, prior, jump)
            used += 1
        if level >= bound:
            here, v, after = jump, v_jump, beyond
        else:
            here, v = after, v_after
            level, after = sweep(data, prior, here)
            used += 1
            memory = memory[-1:]
        gain, bound = level - bound, level
        bounds.append(bound)
        if gain >= tolerance:
            idle = 0
            continue
        idle += 1
        memory = []  # a jump may stall where a plain sweep would not: try one
        if idle == _PATIENCE:
            return Climb(here, bounds, converged=True)
    return Climb(here, bounds, converged=False)


def _extrapolated(
    memory: list[tuple[FloatArray, FloatArray]], information: FloatArray
) -> FloatArray:
    points = np.array([v for v, _ in memory])
    moves = np.array([f for _, f in memory])
    d_moves = moves[1:] - moves[:-1]
    weighted = d_moves * information
    gram = einsum("in,jn->ij", weighted, d_moves)
    diagonal = gram.reshape(-1)[:: len(gram) + 1]
    diagonal += 1e-8 * np.add.reduce(diagonal) + 1e-300
    shares = np.linalg.solve(gram, einsum("in,n->i", weighted, moves[-1]))
    d_moves += points[1:] - points[:-1]
    jump: FloatArray = points[-1] + moves[-1] - einsum("i,in->n", shares, d_moves)
    return jump


def _coordinates(moments: Moments) -> FloatArray:
    mass = moments.mass + _TINY_MASS
    covariances = moments.scatter / mass[:, np.newaxis, np.newaxis]
    gaussian.diagonals(covariances)[:] += _TINY_VARIANCE
    factors = gaussian.cholesky(covariances)
    diagonals = gaussian.diagonals(factors)
    np.log(diagonals, out=diagonals)
    return np.concatenate((np.log(mass), moments.mean.ravel(), factors.ravel()))


def _moments(v: FloatArray, like: Moments, data: Data) -> Moments:
    """The inverse of `_coordinates`, with masses scaled to sum to the total count."""
    components, d = like.mean.shape
    means_end = components * (1 + d)
    mass = np.maximum(np.exp(np.minimum(v[:components], 50.0)) - _TINY_MASS, 0.0)
    mass *= np.add.reduce(data.counts) / np.add.reduce(mass)
    lower = v[means_end:].reshape(components, d, d).copy()
    diagonals = gaussian.diagonals(lower)
    np.exp(np.minimum(np.maximum(diagonals, -25.0), 25.0), out=diagonals)
    scatter = gaussian.product(lower, np.swapaxes(lower, 1, 2))
    scatter *= mass[:, np.newaxis, np.newaxis]
    return Moments(mass, v[components:means_end].reshape(components, d), scatter)


def _information(moments: Moments) -> FloatArray:
    """Return the approximate Fisher information of the data about each coordinate."""
    mass = moments.mass + 1e-3
    column = mass[:, np.newaxis]
    means = column / (gaussian.diagonals(moments.scatter) / column + _TINY_VARIANCE)
    factors = means[:, :, np.newaxis].repeat(means.shape[1], axis=2)
    gaussian.diagonals(factors)[:] = 2 * column
    return np.concatenate((mass, means.ravel(), factors.ravel()))
