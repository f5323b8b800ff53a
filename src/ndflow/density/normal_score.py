"""Normal scores of a one-channel mixture: ``z(x) = Φ⁻¹(F(x))`` with its distribution function F.

The score is computed from whichever tail is lighter, and from logarithms where that underflows, so
it keeps its relative precision hundreds of standard deviations out. For a single Gaussian it is a
straight line, which is why Newton's method inverts it in few steps. Quantiles, and the exact map
from one mixture to another, are computed by inverting it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from ndflow.density import gaussian
from ndflow.values import FloatArray, einsum

__all__ = ["NormalScores"]

_UNDERFLOW = 1e-300  # below this a tail probability is taken from its logarithm
_NEWTON_STEPS = 200
_ROUNDING = 4e-16  # relative rounding error of a normal score, from its sum over components
_GUIDES, _OFFSETS = 16, np.linspace(-4.0, 4.0, 9)  # heaviest components; points, in their sds


class NormalScores(NamedTuple):
    """The distribution function of a mixture in one channel, and its inverse.

    Attributes
    ----------
    weights : (K,), of the components.
    means, sds : (K, 1), of the components.
    """

    weights: FloatArray
    means: FloatArray
    sds: FloatArray

    def standardised(self, x: FloatArray) -> FloatArray:
        """Return points (n,) in units of each component, (K, n)."""
        result: FloatArray = (x - self.means) / self.sds
        return result

    def tail(self, t: FloatArray) -> FloatArray:
        """Return F at standardised points; at ``-t``, ``1 − F``."""
        return einsum("k,kn->n", self.weights, special.ndtr(t))

    def log_tail(self, t: FloatArray) -> FloatArray:
        """Return ``ln F`` at standardised points; at ``-t``, ``ln (1 − F)``."""
        with np.errstate(divide="ignore"):
            return gaussian.log_sum_exp(special.log_ndtr(t) + np.log(self.weights)[:, np.newaxis])

    def score(self, t: FloatArray) -> FloatArray:
        """Return the normal scores of standardised points."""
        below, above = self.tail(t), self.tail(-t)
        z: FloatArray = np.where(below <= above, special.ndtri(below), -special.ndtri(above))
        far = np.flatnonzero(np.minimum(below, above) < _UNDERFLOW)
        if far.size:
            sign = np.where(below[far] <= above[far], 1.0, -1.0)
            z[far] = sign * special.ndtri_exp(self.log_tail(sign * t[:, far]))
        return z

    def inverse(self, goal: FloatArray) -> FloatArray:
        """Return the points (n,) with normal scores `goal`, (n,).

        Newton's method, kept inside a bracket: a quantile of the mixture lies between the smallest
        and the largest of the components' quantiles.
        """
        result = goal.copy()
        todo = np.flatnonzero(np.isfinite(goal))
        candidates = self.means + self.sds * goal[todo]
        low, high = candidates.min(axis=0), candidates.max(axis=0)
        # A guess interpolated between points of the heaviest components saves half of the steps.
        heavy = np.argsort(-self.weights, kind="stable")[:_GUIDES]
        grid = np.sort((self.means[heavy] + self.sds[heavy] * _OFFSETS).ravel())
        guess = np.interp(goal[todo], self.score(self.standardised(grid)), grid)
        x = np.clip(guess, low, high)
        moved = np.full(x.shape, np.inf)
        for _ in range(_NEWTON_STEPS):
            t = self.standardised(x)
            reached = self.score(t)
            miss = reached - goal[todo]
            low, high = np.where(miss < 0, x, low), np.where(miss > 0, x, high)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                step = miss / np.exp(self._log_slope(t, reached))
            guess = x - step
            # A step must stay in the bracket and be at most half the last one, or Newton's method
            # may go round in circles; else bisect. (Comparisons are False for NaN, as needed.)
            newton = (guess >= low) & (guess <= high) & (np.abs(step) <= 0.5 * moved)
            guess = np.where(newton, guess, 0.5 * (low + high))
            there = np.abs(miss) <= _ROUNDING * np.abs(goal[todo])
            guess = np.where(there, x, guess)
            result[todo] = guess
            moved = np.abs(guess - x)
            done = (moved <= 2e-16 * np.abs(x)) | there | (high <= low)
            done |= newton & (moved <= 1e-15 * (np.abs(x) + self.sds.min()))
            if done.all():
                break
            todo = todo[~done]
            x, low, high, moved = (part[~done] for part in (guess, low, high, moved))
        return result

    def _log_slope(self, t: FloatArray, z: FloatArray) -> FloatArray:
        """``ln dz/dx = ln q(x) − ln φ(z)``, given the standardised points."""
        with np.errstate(divide="ignore"):
            scale = np.log(self.weights[:, np.newaxis] / self.sds)
        slope: FloatArray = gaussian.log_sum_exp(scale - 0.5 * t * t) + 0.5 * z * z
        return slope
