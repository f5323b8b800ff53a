"""HealthyDensities: what the training scans look like as a whole, and how alike they are.

Lesions can only be told from healthy tissue in a scan whose healthy part looks like that of the
training scans. Another scanner or protocol, more noise, or a mask that includes the skull change
the whole density, and what then exceeds the healthy ceiling is no lesion. So the aligned density of
a scan is compared with those of the training scans, by the mass that two densities share,

    overlap(p, q) = ∫ min(p, q) = 1 − ½ ∫ |p − q|,                                             (1)

here between histograms with bins of an eighth of a standard deviation: it is the share of voxels
that need not change their bin. A scan is compared with the *most similar* training scan, not with
the average, because a reference may represent several scanners, and the average is none of them.

How much overlap is enough is learned by leaving out one training scan after the other: the least
overlap that any of them has with the most similar of the others, but at most `_SURE`. A healthy
scan of the same kind has less with a probability of about 1/(n + 1), for n training scans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.transport import Affine, align
from ndflow.values import FloatArray, Value, instance, plural, real, real_array

__all__ = ["HealthyDensities"]

_EDGES = np.arange(-32, 33) / 8  # of the bins, in standard deviations; two more bins are open
_DIGITS = 5  # of a share: enough for overlaps, and short in files
_SURE = 0.95  # overlap that is always enough: estimates of the same density differ by this much
_UNKNOWN = 0.9  # overlap with the average that is enough where the training scans are not known
_KEPT = 64  # scans, so that references of thousands of scans stay small


@dataclass(frozen=True, eq=False, repr=False)
class HealthyDensities(Value):
    """The aligned histograms of the training scans, and how alike they are.

    Attributes
    ----------
    edges : (b,), increasing intensities between the bins, in the space of the reference.
    shares : (n, b + 1), the share of the voxels of each scan in each bin. Of more than 64 scans, 64
        are kept, chosen so that every other scan is close to one of them.
    least : the least overlap that any training scan has with the most similar of the others, see
        equation (1) of the module; at most 0.95.

    Examples
    --------
    >>> HealthyDensities([0.0], [[0.5, 0.5], [0.4, 0.6]], least=0.9)
    HealthyDensities(2 scans, least=0.9)
    """

    edges: FloatArray
    shares: FloatArray
    least: float

    def __post_init__(self) -> None:
        """Validate."""
        edges = real_array(self.edges, "edges", None)
        if not edges.size or not (np.diff(edges) > 0).all():
            raise InvalidValueError("edges must be one or more increasing numbers")
        shares = real_array(self.shares, "shares", None, edges.size + 1)
        if not shares.size or (shares < 0).any() or (shares > 1).any():
            raise InvalidValueError("shares must hold at least one scan, and lie between 0 and 1")
        least = real(self.least, "least")
        if not 0 <= least <= 1:
            raise InvalidValueError(f"least must lie between 0 and 1, not {least:g}")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "least", least)

    def __repr__(self) -> str:
        """Return the number of scans and the least overlap."""
        return f"HealthyDensities({plural(len(self.shares), 'scan')}, least={self.least:.3g})"

    @classmethod
    def learn(cls, aligned: Sequence[GaussianMixture]) -> HealthyDensities:
        """Return those of training scans, which are aligned with their reference, in any order.

        Examples
        --------
        >>> scans = [GaussianMixture([1.0], [mean], [1.0]) for mean in (0.0, 0.1, 0.4)]
        >>> HealthyDensities.learn(scans)
        HealthyDensities(3 scans, least=0.881)
        """
        every = np.unique([_shares(own, _EDGES).round(_DIGITS) for own in aligned], axis=0)
        kept = _spread(every)
        shares = every[kept]
        least = _SURE
        for i, own in enumerate(every):
            others = every[kept[kept != i]]
            least = min(least, _largest_overlap(own, others) if len(others) else _SURE)
        return cls(_EDGES, shares, least)

    @classmethod
    def of_average(cls, reference: GaussianMixture) -> HealthyDensities:
        """Return a stand-in where only the average of the training scans is known.

        What differs from the average by more than a tenth is not trusted, so for some healthy scans
        too the answer will be that they are not like the training scans.
        """
        instance(reference, "reference", GaussianMixture)
        edges = align(reference).inverse()(_EDGES)
        return cls(edges, _shares(reference, edges)[None], _UNKNOWN)

    def overlap(self, aligned: GaussianMixture) -> float:
        """Return the overlap of a scan, aligned like the training scans, with the most similar."""
        return _largest_overlap(_shares(aligned, self.edges), self.shares)

    def transformed(self, affine: Affine) -> HealthyDensities:
        """Return the same in other units, which increase with these."""
        return HealthyDensities(affine(self.edges), self.shares, self.least)


def _shares(mixture: GaussianMixture, edges: FloatArray) -> FloatArray:
    """Return the mass of a density in each bin."""
    result: FloatArray = np.diff(np.concatenate([[0.0], mixture.cdf(edges), [1.0]]))
    return np.clip(result, 0.0, 1.0)


def _largest_overlap(own: FloatArray, others: FloatArray) -> float:
    """Return the largest overlap of a histogram with one of several, equation (1)."""
    return float(np.minimum(own, others).sum(axis=1).max())


def _spread(shares: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return which scans to keep: each next one is the least similar to those before it."""
    kept = [0]
    nearest = np.minimum(shares[0], shares).sum(axis=1)
    while len(kept) < min(_KEPT, len(shares)):
        nearest[kept] = np.inf
        kept.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, np.minimum(shares[kept[-1]], shares).sum(axis=1))
    return np.sort(kept)
