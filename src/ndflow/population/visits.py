"""Straight lines that bring the visits of one person together.

The gain of a scan is arbitrary. Its mean and standard deviation depend on how much there is of each
tissue, so that z-scoring takes atrophy for gain. The places of the peaks of its density do not.
With the densities q_v of the visits, blurred a little, lines ``a_v + b_v z`` of z-scored
intensities minimise

    Σ_v ∫ (√q_v − m)²,    m = mean of √q_v over the visits,    Σ_v a_v = Σ_v ln b_v = 0.        (1)

This is the Hellinger distance from their mean; between densities themselves, much WM would count
for more than where the little CSF is. Where a visit goes through the map of its site after its
line, densities are compared there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.transport import Affine
from ndflow.values import FloatArray, einsum

_BLUR, _STEP = 0.15, 0.05  # of densities, in their sd; chosen by experiments/visit_study.py
_LEVELS = np.concatenate([[0.0], QUANTILE_LEVELS, [1.0]])
_LEAST = 1e-6  # density that is added, so that roots are smooth, and curvature
_MOVE, _MOST = 1e-3, 0.2  # of a line: for a difference quotient, and in one step
_TOLERANCE, _STEPS = 1e-5, 30


def lines_of_visits(
    scans: Sequence[FloatArray], ways: Sequence[Callable[[FloatArray], FloatArray]]
) -> list[Affine]:
    """Return the line of each visit of a person, which replaces z-scoring.

    Parameters
    ----------
    scans : the quantiles of each visit, at `QUANTILE_LEVELS`, z-scored.
    ways : where these go from there: the map of the site of each.

    Examples
    --------
    >>> z = np.linspace(-2.0, 2.0, 199)
    >>> one, two = lines_of_visits([z, 0.9 * z + 0.1], [np.asarray, np.asarray])
    >>> np.allclose(one(z), two(0.9 * z + 0.1), atol=1e-2)
    True
    """
    whole = [np.concatenate([[2 * z[0] - z[1]], z, [2 * z[-1] - z[-2]]]) for z in scans]
    moved = np.array([way(z) for way, z in zip(ways, whole, strict=True)])
    sd = float(moved.std())
    step = _STEP * sd
    edges = np.arange(moved.min() - sd, moved.max() + sd, step)
    reach = np.arange(-4 * _BLUR, 4 * _BLUR + _STEP / 2, _STEP) / _BLUR
    kernel = np.exp(-0.5 * reach**2)
    kernel /= kernel.sum()

    def root(visit: int, line: FloatArray) -> FloatArray:
        y = ways[visit](line[0] + np.exp(line[1]) * whole[visit])
        below = np.interp(edges, y, _LEVELS)
        density = np.pad(np.diff(below) / _STEP, kernel.size // 2)
        near = np.lib.stride_tricks.sliding_window_view(density, kernel.size)
        return np.sqrt(einsum("xk,k->x", near, kernel) + _LEAST)

    lines = np.zeros((len(scans), 2))  # a, ln b
    for _ in range(_STEPS):
        roots = np.array([root(visit, line) for visit, line in enumerate(lines)])
        mean, before = roots.mean(axis=0), lines.copy()
        for visit, line in enumerate(before):
            slopes = np.array(
                [
                    (root(visit, line + move) - root(visit, line - move)) / (2 * _MOVE)
                    for move in _MOVE * np.eye(2)
                ]
            )
            square = einsum("ix,jx->ij", slopes, slopes) + _LEAST * np.eye(2)
            better = np.linalg.solve(square, einsum("ix,x->i", slopes, mean - roots[visit]))
            lines[visit] += np.clip(better, -_MOST, _MOST)
        lines -= lines.mean(axis=0)
        if np.abs(lines - before).max() < _TOLERANCE:
            break
    return [Affine(np.exp([[b]]), np.array([a])) for a, b in lines]


def pooled_quantiles(visits: Sequence[FloatArray]) -> FloatArray:
    """Return the quantiles of the mean of some densities, given those of each.

    Examples
    --------
    >>> one, two = np.linspace(0.0, 1.0, 199), np.linspace(2.0, 3.0, 199)
    >>> pooled_quantiles([one, two])[[49, 149]].round(1)
    array([0.5, 2.5])
    """
    x = np.sort(np.concatenate(visits))
    count = QUANTILE_LEVELS.size
    levels = ((np.arange(x.size) + 0.5) / len(visits) + 0.5) / (count + 1)
    return np.interp(QUANTILE_LEVELS, levels, x)
