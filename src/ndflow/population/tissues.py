"""Tissue models: the densities of CSF, GM and WM, and the proportions of the three.

The density of a scan is ``Σ_g s_g q_g``, with the proportions s of its tissues g and their
densities q_g. Scanners change the densities; people differ in the proportions. A target with the
proportions of the scan, ``Σ_g s_g p_g``, lets the map correct the former only.

The p_g of a population are averages over scans in a common space. Aligning the moments of whole
scans would not take them there: these depend on the proportions, and a scan with much CSF would
have all its tissues too bright. So each scan is aligned by the moments that it would have with the
mean proportions of the population, ``Σ_g s̄_g q_g``.

Of a scan without tissue maps, `ndflow.population.proportions` estimates the proportions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density import GaussianMixture, fit, stack
from ndflow.density.mixture import checked_weights
from ndflow.errors import InvalidValueError
from ndflow.population.averaging import Density, Pushforward, mean_density
from ndflow.transport import Affine, IntensityMap, align
from ndflow.values import FloatArray, Value, einsum, real_array

TISSUES = ("CSF", "GM", "WM")  # the order in all arrays, by brightness in T1w images

_ROUND = 1e-9
# The covariance of proportions between people of one site, where nothing else is known: of 68
# adults at three sites, standard deviations of .031, .027 and .014.
USUAL: FloatArray = 1e-4 * np.array([[9.5, -7.4, -2.1], [-7.4, 7.4, 0.0], [-2.1, 0.0, 2.1]])
_FEWEST = 3  # scans from which the covariance of proportions is estimated
_SHRINKAGE = 0.1  # of that covariance, towards the usual one


@dataclass(frozen=True, eq=False, repr=False)
class Tissues(Value):
    """The tissues of one scan.

    Attributes
    ----------
    densities : one per tissue, in the order of `TISSUES` and the units of the scan; one channel.
    proportions : (3,), positive, summing to 1.

    Examples
    --------
    >>> csf, gm, wm = (GaussianMixture([1.0], [mean], [1e-3]) for mean in (300.0, 600.0, 800.0))
    >>> Tissues((csf, gm, wm), [0.2, 0.45, 0.35])
    Tissues(CSF 20%, GM 45%, WM 35%)
    """

    densities: tuple[GaussianMixture, ...]
    proportions: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        self._set(
            densities=_densities(self.densities),
            proportions=_proportions(self.proportions, "proportions"),
        )

    def __repr__(self) -> str:
        """Return the proportions."""
        return f"Tissues({_percentages(self.proportions)})"

    def transformed(self, affine: Affine) -> Tissues:
        """Return the same tissues in other units."""
        return Tissues(_moved(self.densities, affine), self.proportions)


@dataclass(frozen=True, eq=False, repr=False)
class TissueModel(Value):
    """The tissues of a population, in the space of its reference.

    Attributes
    ----------
    densities : one per tissue, in the order of `TISSUES`; one channel.
    mean, covariance : (3,) and (3, 3), of the proportions across people.
    source : where the model comes from: tissue probability ``"maps"``, or the ``"components"`` of a
        reference.

    Examples
    --------
    >>> csf, gm, wm = (GaussianMixture([1.0], [mean], [10.0]) for mean in (-2.0, 0.0, 1.0))
    >>> model = TissueModel((csf, gm, wm), [0.2, 0.45, 0.35], 1e-3 * (np.eye(3) - 1 / 3))
    >>> model
    TissueModel(CSF 20%, GM 45%, WM 35%, from maps)
    >>> model.target([0.3, 0.4, 0.3]).weights
    array([0.3, 0.4, 0.3])
    """

    densities: tuple[GaussianMixture, ...]
    mean: FloatArray
    covariance: FloatArray
    source: str = "maps"

    def __post_init__(self) -> None:
        """Validate."""
        covariance = real_array(self.covariance, "covariance", 3, 3)
        if np.linalg.eigvalsh(covariance)[0] < -_ROUND or np.abs(covariance.sum(axis=1)).max() > (
            _ROUND
        ):
            raise InvalidValueError("covariance must be positive semidefinite, with rows of sum 0")
        if self.source not in ("maps", "components"):
            raise InvalidValueError(f"source must be 'maps' or 'components', not {self.source!r}")
        self._set(
            densities=_densities(self.densities),
            mean=_proportions(self.mean, "mean"),
            covariance=covariance,
        )

    def __repr__(self) -> str:
        """Return the mean proportions, and where the model comes from."""
        return f"TissueModel({_percentages(self.mean)}, from {self.source})"

    def target(self, proportions: ArrayLike) -> GaussianMixture:
        """Return the density of a scan with these proportions, (3,), in reference space."""
        return stack(self.densities, _proportions(proportions, "proportions"))

    def transformed(self, affine: Affine) -> TissueModel:
        """Return the same model in other units."""
        return TissueModel(_moved(self.densities, affine), self.mean, self.covariance, self.source)


def tissue_model(
    scans: Sequence[Tissues],
    maps: Sequence[IntensityMap] | None = None,
    *,
    weights: ArrayLike | None = None,
) -> TissueModel:
    """Return the tissues of a population.

    Parameters
    ----------
    scans : the tissues of each scan.
    maps : those that take each scan to the space of the reference. Default: the alignments that the
        module describes.
    weights : the weight of each scan, equal by default.

    Raises
    ------
    InvalidValueError : no scans, or weights that are negative or all zero.

    Examples
    --------
    >>> scans = [
    ...     Tissues(
    ...         tuple(GaussianMixture([1.0], [m], [1e-3]) for m in (300.0, 600.0, 800.0)),
    ...         [csf, 0.5, 0.5 - csf],
    ...     )
    ...     for csf in (0.1, 0.2, 0.3)
    ... ]
    >>> tissue_model(scans)
    TissueModel(CSF 20%, GM 50%, WM 30%, from maps)
    """
    given = checked_weights(weights, len(scans))
    shares = np.asarray(given / given.sum())
    proportions = np.array([scan.proportions for scan in scans])
    mean = einsum("n,ng->g", shares, proportions)
    mean /= mean.sum()
    ways = maps or [align(stack(scan.densities, mean)) for scan in scans]
    densities = []
    for tissue in range(len(TISSUES)):
        moved = [
            _mapped(scan.densities[tissue], way) for scan, way in zip(scans, ways, strict=True)
        ]
        average = mean_density(list(zip(moved, shares.tolist(), strict=True)))
        densities.append(fit(average).mixture)
    model = TissueModel(tuple(densities), mean, _covariance(proportions, shares))
    return model if maps else model.transformed(align(model.target(mean)))


def _mapped(mixture: GaussianMixture, imap: IntensityMap) -> Density:
    """Return the density of a tissue in the space of the reference."""
    if isinstance(imap, Affine):
        return mixture.transformed(imap.matrix, imap.offset)
    return Pushforward(mixture, imap)


def tissues_from_components(reference: GaussianMixture) -> TissueModel:
    """Return tissues made of the components of a reference, for use without tissue maps.

    Components in the order of their means are cut into three groups such that the means differ as
    little as possible within groups (weighted least squares, over all pairs of cuts). In T1w images
    these are CSF, GM and WM, with partial volume assigned to one or the other.

    Parameters
    ----------
    reference : a density of one channel with at least three components.

    Raises
    ------
    InvalidValueError : several channels, or fewer than three components.

    Examples
    --------
    >>> average = GaussianMixture([0.1, 0.1, 0.5, 0.3], [-2.2, -1.8, 0.0, 1.0], [9.0] * 4)
    >>> tissues_from_components(average)
    TissueModel(CSF 20%, GM 50%, WM 30%, from components)
    """
    if reference.channels != 1 or reference.components < len(TISSUES):
        raise InvalidValueError("reference must have one channel and at least three components")
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
    return TissueModel(densities, mean / mean.sum(), USUAL, "components")


def _scatter(weights: FloatArray, means: FloatArray, cuts: tuple[int, int]) -> float:
    total = 0.0
    for w, m in zip(np.split(weights, cuts), np.split(means, cuts), strict=True):
        total += float((w * (m - (w * m).sum() / w.sum()) ** 2).sum())
    return total


def _covariance(proportions: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the covariance of proportions, shrunk towards the usual one; that itself for few."""
    if np.count_nonzero(shares) < _FEWEST:
        return USUAL
    centred = proportions - einsum("n,ng->g", shares, proportions)
    own = einsum("n,ni,nj->ij", shares, centred, centred) / (1 - (shares * shares).sum())
    result: FloatArray = (1 - _SHRINKAGE) * own + _SHRINKAGE * USUAL
    return result


def _densities(given: Sequence[GaussianMixture]) -> tuple[GaussianMixture, ...]:
    densities = tuple(given)
    if len(densities) != len(TISSUES) or any(d.channels != 1 for d in densities):
        raise InvalidValueError("densities must be three, of CSF, GM and WM, with one channel each")
    return densities


def _proportions(given: ArrayLike, name: str) -> FloatArray:
    proportions = real_array(given, name, 3)
    if (proportions <= 0).any() or abs(proportions.sum() - 1) > _ROUND:
        raise InvalidValueError(f"{name} must be three positive numbers that sum to 1")
    return proportions


def _percentages(proportions: FloatArray) -> str:
    shares = zip(TISSUES, proportions, strict=True)
    return ", ".join(f"{tissue} {share:.0%}" for tissue, share in shares)


def _moved(densities: Sequence[GaussianMixture], affine: Affine) -> tuple[GaussianMixture, ...]:
    return tuple(density.transformed(affine.matrix, affine.offset) for density in densities)
