"""Climbing the bound: sweeps, and extrapolation of where they lead.

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

from typing import NamedTuple

import numpy as np

from ndflow.density import gaussian
from ndflow.density.variational import Data, Moments, Prior, expectation, posterior
from ndflow.values import FloatArray, einsum

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
