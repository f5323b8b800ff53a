"""Tissues: what fluid, grey and white matter look like each, and how much there is of them.

The density of a scan is ``Σ_g s_g q_g``, with the proportions s of its tissues g and their
densities q_g. Scanners change the densities; people differ in the proportions. A target with
proportions of its own, ``Σ_g s_g p_g``, lets the map correct the former only.

The p_g of a population are averages over scans in one space. Aligning the moments of whole scans
would not bring them there: those depend on the proportions, and a scan with much fluid would have
all its tissues too bright. So each scan is aligned by the moments that it would have with the mean
proportions of the population, ``Σ_g s̄_g q_g``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density import GaussianMixture, fit, stack
from ndflow.errors import InvalidValueError
from ndflow.population.averaging import Density, mean_density
from ndflow.population.pushforward import Pushforward
from ndflow.transport import Affine, IntensityMap, align
from ndflow.values import FloatArray, Value, einsum, instance, real_array

__all__ = ["TISSUES", "TissueModel", "Tissues", "tissue_model", "tissues_from_components"]

TISSUES = ("CSF", "GM", "WM")  # in the order of all arrays, that of their brightness in T1w images

_ROUND = 1e-9
_USUAL = 0.03  # by which proportions differ from person to person, where nothing else is known
_FEWEST = 3  # scans that tell how proportions vary
_SHRINKAGE = 0.1  # of the covariance of proportions, towards what is usual


@dataclass(frozen=True, eq=False)
class Tissues(Value):
    """The tissues of one scan.

    Attributes
    ----------
    densities : one a tissue, in the order of `TISSUES`, in the units of the scan.
    proportions : (3,), positive; they sum to 1.
    """

    densities: tuple[GaussianMixture, ...]
    proportions: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        object.__setattr__(self, "densities", _densities(self.densities))
        object.__setattr__(self, "proportions", _proportions(self.proportions, "proportions"))

    def transformed(self, affine: Affine) -> Tissues:
        """Return the same tissues in other units."""
        return Tissues(_moved(self.densities, affine), self.proportions)


@dataclass(frozen=True, eq=False)
class TissueModel(Value):
    """The tissues of a population, in the space of its reference.

    Attributes
    ----------
    densities : one a tissue, in the order of `TISSUES`.
    mean, covariance : (3,) and (3, 3), of the proportions over people.
    source : where it comes from: ``"maps"`` of tissues, or the ``"components"`` of a reference.
    """

    densities: tuple[GaussianMixture, ...]
    mean: FloatArray
    covariance: FloatArray
    source: str = "maps"

    def __post_init__(self) -> None:
        """Validate."""
        object.__setattr__(self, "densities", _densities(self.densities))
        object.__setattr__(self, "mean", _proportions(self.mean, "mean"))
        covariance = real_array(self.covariance, "covariance", 3, 3)
        if np.linalg.eigvalsh(covariance)[0] < -_ROUND or np.abs(covariance.sum(axis=1)).max() > (
            _ROUND
        ):
            raise InvalidValueError(
                "covariance must be that of proportions: not negative, with rows that sum to 0"
            )
        object.__setattr__(self, "covariance", covariance)
        if self.source not in ("maps", "components"):
            raise InvalidValueError(f"source must be 'maps' or 'components', not {self.source!r}")

    def target(self, proportions: ArrayLike) -> GaussianMixture:
        """Return the density of somebody with these proportions."""
        return stack(self.densities, _proportions(proportions, "proportions"))

    def transformed(self, affine: Affine) -> TissueModel:
        """Return the same model in other units."""
        return TissueModel(_moved(self.densities, affine), self.mean, self.covariance, self.source)


def tissue_model(
    scans: Sequence[Tissues],
    ways: Callable[[int], IntensityMap] | None = None,
    *,
    weights: ArrayLike | None = None,
    effective_count: float = 1e4,
) -> TissueModel:
    """Return the tissues of a population.

    Parameters
    ----------
    scans : looked at one after the other, several times.
    ways : the map that takes a scan, given by its place, to the space of the reference. Default:
        the alignment that the module describes.
    weights : how much each scan counts, equal by default.
    effective_count : of the fits, see `fit`.
    """
    if not scans:
        raise InvalidValueError("scans must hold at least one scan")
    shares = real_array(np.ones(len(scans)) if weights is None else weights, "weights", len(scans))
    if (shares < 0).any() or not shares.sum() > 0:
        raise InvalidValueError("weights must not be negative, nor all zero")
    shares = shares / shares.sum()
    proportions = np.array([scan.proportions for scan in scans])
    mean = einsum("n,ng->g", shares, proportions)
    mean /= mean.sum()
    if ways is None:
        alignments = [align(stack(scan.densities, mean)) for scan in scans]
        ways = alignments.__getitem__
        own = True
    else:
        own = False
    densities = tuple(
        fit(
            mean_density(_Moved(scans, ways, tissue, shares)), effective_count=effective_count
        ).mixture
        for tissue in range(len(TISSUES))
    )
    model = TissueModel(densities, mean, _covariance(proportions, shares))
    return model.transformed(align(model.target(mean))) if own else model


class _Moved(Sequence[tuple[Density, float]]):
    """The densities of one tissue in the space of the reference, and their shares."""

    def __init__(
        self,
        scans: Sequence[Tissues],
        ways: Callable[[int], IntensityMap],
        tissue: int,
        shares: FloatArray,
    ) -> None:
        self._scans, self._ways, self._tissue, self._shares = scans, ways, tissue, shares

    def __len__(self) -> int:
        return len(self._scans)

    def __getitem__(self, place: int) -> tuple[Density, float]:  # type: ignore[override]
        if not place < len(self):
            raise IndexError(place)
        way, mixture = self._ways(place), self._scans[place].densities[self._tissue]
        if isinstance(way, Affine):
            return mixture.transformed(way.matrix, way.offset), float(self._shares[place])
        return Pushforward(mixture, way), float(self._shares[place])


def tissues_from_components(reference: GaussianMixture) -> TissueModel:
    """Return tissues made of the components of a reference, where no maps of tissues are known.

    Components in the order of their means are cut into three groups such that the means differ as
    little as possible within groups (weighted least squares, over all pairs of cuts). In T1w
    images these are fluid, grey and white matter, though partial volume goes to one or the other.

    Parameters
    ----------
    reference : at least three components, of one channel.
    """
    if reference.channels != 1 or reference.components < len(TISSUES):
        raise InvalidValueError(
            "the reference must have one channel and at least three components to make tissues of"
        )
    order = np.argsort(reference.means[:, 0], kind="stable")
    weights, means = reference.weights[order], reference.means[order, 0]
    cuts = [(i, j) for i in range(1, len(order) - 1) for j in range(i + 1, len(order))]
    first, second = min(cuts, key=lambda cut: _scatter(weights, means, cut))
    groups = np.split(order, (first, second))
    densities = tuple(
        GaussianMixture(
            reference.weights[group] / reference.weights[group].sum(),
            reference.means[group],
            reference.precisions[group],
        )
        for group in groups
    )
    mean = np.array([reference.weights[group].sum() for group in groups])
    return TissueModel(densities, mean / mean.sum(), _usual(), "components")


def _scatter(weights: FloatArray, means: FloatArray, cuts: tuple[int, int]) -> float:
    total = 0.0
    for w, m in zip(np.split(weights, cuts), np.split(means, cuts), strict=True):
        total += float((w * (m - (w * m).sum() / w.sum()) ** 2).sum())
    return total


def _usual() -> FloatArray:
    result: FloatArray = _USUAL**2 * (np.eye(3) - 1 / 3)
    return result


def _covariance(proportions: FloatArray, shares: FloatArray) -> FloatArray:
    """Return how proportions vary, shrunk towards what is usual; which it is if they are few."""
    if np.count_nonzero(shares) < _FEWEST:
        return _usual()
    centred = proportions - einsum("n,ng->g", shares, proportions)
    own = einsum("n,ni,nj->ij", shares, centred, centred) / (1 - (shares * shares).sum())
    result: FloatArray = (1 - _SHRINKAGE) * own + _SHRINKAGE * _usual()
    return result


def _densities(given: Sequence[GaussianMixture]) -> tuple[GaussianMixture, ...]:
    densities = tuple(given)
    for density in densities:
        instance(density, "each density", GaussianMixture)
    if len(densities) != len(TISSUES) or any(d.channels != 1 for d in densities):
        raise InvalidValueError("densities must be three, for CSF, GM and WM, of one channel")
    return densities


def _proportions(given: ArrayLike, name: str) -> FloatArray:
    proportions = real_array(given, name, 3)
    if (proportions <= 0).any() or abs(proportions.sum() - 1) > _ROUND:
        raise InvalidValueError(f"{name} must be three positive numbers that sum to 1")
    return proportions


def _moved(densities: Sequence[GaussianMixture], affine: Affine) -> tuple[GaussianMixture, ...]:
    return tuple(density.transformed(affine.matrix, affine.offset) for density in densities)
