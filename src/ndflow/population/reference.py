"""Reference: the density that the scans of a cohort are matched to.

The density of every scan is aligned to zero mean and unit variance, the aligned densities are
averaged (`ndflow.population.averaging`), and a mixture is fitted to the average as if it were a
histogram, as in the paper. Only mixtures are needed, no images: a few numbers per scan.

The average is worth more evidence than a scan: it has no noise that a mixture could overfit, so
there is no harm in following it closely.

The result does not depend on the order of the scans, on their units of intensity, or on whether
each of them is given once or twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density import GaussianMixture, fit
from ndflow.density.mixture import checked_weights
from ndflow.errors import InvalidValueError
from ndflow.population.averaging import mean_density, mean_quantiles
from ndflow.population.tissues import TissueModel
from ndflow.transport import Affine, align
from ndflow.values import FloatArray, Value, instance, plural, real_array, short, whole

# ── landmarks ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class Landmarks(Value):
    """The landmarks of a scan or of a target, in one channel.

    What they mean, and how many there are, is up to the method.

    Attributes
    ----------
    method : the name of the method that measured them, for example ``"nyul"``.
    values : (n,), intensities that never fall; if there are several, the last exceeds the first.

    Examples
    --------
    >>> from ndflow import Affine
    >>> landmarks = Landmarks("nyul", [0.0, 250.0, 900.0])
    >>> landmarks
    Landmarks(nyul, 3 values from 0 to 900)
    >>> landmarks.transformed(Affine(0.5, 10.0)).values
    array([ 10., 135., 460.])
    """

    method: str
    values: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        values = real_array(self.values, "values", None)
        if not values.size:
            raise InvalidValueError(f"values of {self.method} must be one or more, not 0")
        if (np.diff(values) < 0).any() or (values.size > 1 and not values[-1] > values[0]):
            raise InvalidValueError("landmarks must rise; check image and mask")
        self._set(values=values)

    def __repr__(self) -> str:
        """Return the method, and the number and range of the landmarks."""
        count = plural(self.values.size, "value")
        return f"Landmarks({self.method}, {count} from {self.values[0]:g} to {self.values[-1]:g})"

    def transformed(self, affine: Affine) -> Landmarks:
        """Return the landmarks of the same scan in other units, which rise with these."""
        return Landmarks(self.method, affine(self.values))


# ── reference ─────────────────────────────────────────────────────────────────────────────────────

_AVERAGES = {"density": mean_density, "quantile": mean_quantiles}
_MAX_CHANNELS = 4  # in five, the groups of an average are too few for a fit
_ROUND = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Reference(Value):
    """The average density of a cohort, in reference space, and what else is known of the cohort.

    Attributes
    ----------
    mixture : the density, with zero mean and unit variance in each channel.
    channel_names : what each channel shows, for example ``("T1w",)``.
    scans : the number of scans.
    provenance : how it was made: strings, numbers, lists and dictionaries, as JSON can hold them.
    landmarks : the average landmarks of the scans, for methods that match landmarks.
    tissues : the tissues of the population, for targets in the proportions of a scan.

    Examples
    --------
    >>> standard = GaussianMixture([1.0], [0.0], [1.0])
    >>> reference = Reference(standard, ("T1w",), scans=68)
    >>> reference
    Reference(T1w, 68 scans, 1 component)
    >>> Reference.from_dict(reference.to_dict()) == reference
    True
    """

    mixture: GaussianMixture
    channel_names: tuple[str, ...]
    scans: int
    provenance: dict[str, Any] = field(default_factory=dict)
    landmarks: Landmarks | None = None
    tissues: TissueModel | None = None

    def __post_init__(self) -> None:
        """Validate, and take a copy of the provenance."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean, variances = self.mixture.mean(), np.diagonal(self.mixture.covariance())
        if not (np.abs(mean) <= _ROUND).all() or not (np.abs(variances - 1) <= _ROUND).all():
            raise InvalidValueError("mixture must have zero mean and unit variance; align it first")
        instance(self.channel_names, "channel_names", tuple | list)
        if not all(isinstance(name, str) and name for name in self.channel_names) or (
            len(set(self.channel_names)) != len(self.channel_names)
            or len(self.channel_names) != mean.size
        ):
            raise InvalidValueError(f"channel_names must be {mean.size} different names")
        self._set(
            channel_names=tuple(self.channel_names),
            scans=whole(self.scans, "scans", 1, 1 << 53),
            provenance=json.loads(json.dumps(self.provenance, allow_nan=False)),
        )

    def __repr__(self) -> str:
        """Return the channels, and the numbers of scans and components."""
        names = ", ".join(map(short, self.channel_names)).replace("'", "")
        components = plural(self.mixture.components, "component")
        return f"Reference({names}, {plural(self.scans, 'scan')}, {components})"


def reference(
    mixtures: Sequence[GaussianMixture],
    *,
    weights: ArrayLike | None = None,
    average: str = "density",
    names: Sequence[str] | None = None,
    channel_names: Sequence[str] | str | None = None,
    truncation: int = 20,
    effective_count: float = 3e4,
) -> Reference:
    """Return the average of the densities of a cohort's scans.

    Parameters
    ----------
    mixtures : one density per scan, all with the same channels, in any units.
    weights : the weight of each scan, equal by default; scans of weight 0 are left out.
    average : ``"density"``, the mean of the densities, as in the paper; or ``"quantile"``, the mean
        of the quantile functions, which keeps peaks sharp (one channel only).
    names : the names of the scans, for the provenance.
    channel_names : what the channels show, for example ``"T1w"`` or ``["T1w", "T2w"]``.
    truncation : the largest possible number of components, see `fit`.
    effective_count : how many independent voxels the average is worth, see `fit`.

    Returns
    -------
    The reference, without landmarks or tissues.

    Raises
    ------
    InvalidValueError : no mixtures, more than four or different channels, or an option out of its
        range.

    Examples
    --------
    >>> scans = [GaussianMixture([0.5, 0.5], [100.0, gm], [0.01, 0.01]) for gm in (160.0, 170.0)]
    >>> average = reference(scans, channel_names="T1w")
    >>> average.channel_names, average.scans
    (('T1w',), 2)
    >>> abs(average.mixture.mean()[0]) < 1e-9
    np.True_
    """
    if average not in _AVERAGES:
        raise InvalidValueError(f"average must be 'density' or 'quantile', not {short(average)}")
    heavy = checked_weights(weights, len(mixtures)).tolist()
    together = _together(mixtures, heavy)
    d = together[0][0].channels
    if any(mixture.channels != d for mixture, _ in together):
        raise InvalidValueError("mixtures must all have the same number of channels")
    if d > (most := _MAX_CHANNELS if average == "density" else 1):
        raise InvalidValueError(f"mixtures must have at most {most} channels here, not {d}")
    if channel_names is None:
        channel_names = "intensity" if d == 1 else [f"intensity {i + 1}" for i in range(d)]
    fitted = fit(
        _AVERAGES[average](together), truncation=truncation, effective_count=effective_count
    )
    called = [""] * len(mixtures) if names is None else names
    scans = sorted((name, weight) for name, weight in zip(called, heavy, strict=True) if weight > 0)
    return Reference(
        mixture=_standardised(_standardised(fitted.mixture)),  # again, for the last digits
        channel_names=(
            (channel_names,) if isinstance(channel_names, str) else tuple(channel_names)
        ),
        scans=len(scans),
        provenance={
            "average": average,
            "truncation": int(truncation),
            "effective_count": float(effective_count),
            "fit": fitted.status.message,
            "names": None if names is None else [name for name, _ in scans],
            "weights": None if weights is None else [weight for _, weight in scans],
        },
    )


def _together(
    mixtures: Sequence[GaussianMixture], weights: Sequence[float]
) -> list[tuple[GaussianMixture, float]]:
    """Return aligned densities and their shares, in an order of their own, equal ones joined."""
    found: dict[bytes, tuple[GaussianMixture, list[float]]] = {}
    for mixture, weight in zip(mixtures, weights, strict=True):
        if weight > 0:
            own = _standardised(mixture)
            parts = (own.weights, own.means, own.precisions)
            packed = np.concatenate([part.ravel() for part in parts]).tobytes()
            found.setdefault(packed, (own, []))[1].append(weight)
    total = math.fsum(weight for _, several in found.values() for weight in several)
    ordered = (found[packed] for packed in sorted(found))
    return [(mixture, math.fsum(several) / total) for mixture, several in ordered]


def _standardised(mixture: GaussianMixture) -> GaussianMixture:
    affine = align(mixture)
    return mixture.transformed(affine.matrix, affine.offset)
