"""``affine``: the mean and the standard deviation of the density, and nothing else."""

from __future__ import annotations

from ndflow.density import GaussianMixture
from ndflow.methods.base import Method
from ndflow.methods.matching import Matching
from ndflow.methods.model import DensityModel
from ndflow.methods.solution import Divergence, Solution
from ndflow.transport import align, divergence

__all__ = ["METHODS", "AffineAlignment"]


class AffineAlignment(Method):
    """Align the mean and the standard deviation of the density."""

    name = "affine"
    uses = frozenset({"objective"})
    only_aligns = True

    def solve(self, source: DensityModel, target: DensityModel, matching: Matching) -> Solution:
        """Return the alignment."""
        affine = align(source.mixture, target.mixture)
        aligned = source.mixture.transformed(affine.matrix, affine.offset)
        apart = _divergence(aligned, target.mixture, matching.objective)
        return Solution(
            affine,
            affine,
            "aligned, not matched",
            divergence=Divergence(matching.objective, apart, apart),
        )

    def description(self, matching: Matching) -> str:
        """Return what it does to scans."""
        return "aligned by the mean and standard deviation of their densities alone"


def _divergence(source: GaussianMixture, target: GaussianMixture, objective: str) -> float:
    """Return the divergence where the target has unit variance, as `match` does."""
    there = align(target)
    one, two = (m.transformed(there.matrix, there.offset) for m in (source, target))
    return divergence(one, two, objective)


METHODS = (AffineAlignment(),)
