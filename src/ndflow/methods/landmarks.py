"""Landmarks: the few numbers by which a baseline knows a scan, and how it goes from one to another.

Every baseline works alike. It measures landmarks of the scan; those of the target are measured in
the same way, or averaged over the scans of a study; and a map joins the two. They differ in what
they measure and how they join:

| method        | landmarks                                  | joined by                        |
|---------------|--------------------------------------------|----------------------------------|
| `zscore`      | mean of the voxels, and one spread above   | a straight line                  |
| `nyul`        | percentiles                                | straight lines from each to next |
| `quantile`    | the whole distribution                     | the same                         |
| `hellier`     | means of five classes                      | a polynomial                     |
| `whitestripe` | mean of white matter, and one spread above | a straight line                  |
| `kde`, `fcm`  | white matter                               | a factor                         |
| `lsq`         | fluid, grey and white matter               | a factor, by least squares       |

The first four are averaged over scans that were brought to zero mean and unit spread, so results
are in reference space. The last four have units of their own, in which white matter lies at 1
(`kde`, `fcm`), at 0 with unit spread (`whitestripe`), or fluid lies at 1 (`lsq`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from ndflow.density import GaussianMixture, Histogram
from ndflow.errors import InvalidValueError
from ndflow.methods import external as package
from ndflow.methods import hellier as classes
from ndflow.methods import percentiles
from ndflow.transport import Affine, IntensityMap
from ndflow.values import FloatArray, Value, einsum, real_array, short

__all__ = [
    "BASELINES",
    "NYUL_LANDMARKS",
    "Joined",
    "Landmarks",
    "check_installed",
    "measure",
    "of_density",
    "standard",
]

NYUL_LANDMARKS = 11

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Landmarks(Value):
    """What a baseline knows of a scan, or of a target.

    Attributes
    ----------
    method : the baseline, one of `BASELINES`.
    values : (n,), intensities.
    """

    method: str
    values: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        baseline = _baseline(self.method)
        values = real_array(self.values, "values", None)
        if values.size != baseline.size if baseline.size else values.size < 2:
            wanted = baseline.size or "two or more"
            raise InvalidValueError(f"values of {self.method} must be {wanted}, not {values.size}")
        if (np.diff(values) < 0).any() or (values.size > 1 and not values[-1] > values[0]):
            raise InvalidValueError("landmarks must rise; check image and mask")
        if baseline.join is _factor and not values[0] > 0:
            raise InvalidValueError(
                f"the tissues that {self.method} looks for must be brighter than 0, "
                f"not at {values[0]:g}"
            )
        object.__setattr__(self, "values", values)

    @property
    def own_units(self) -> bool:
        """Whether the averages of this method are in units of its own."""
        return BASELINES[self.method].own_units

    def transformed(self, affine: Affine) -> Landmarks:
        """Return the landmarks of the same scan in other units."""
        return Landmarks(self.method, affine(self.values))

    def to(self, target: Landmarks) -> Joined:
        """Return the map that joins these landmarks to those of a target."""
        if (self.method, self.values.size) != (target.method, target.values.size):
            raise InvalidValueError(
                f"{self.values.size} landmarks of {self.method} cannot be joined to "
                f"{target.values.size} of {target.method}; use a reference made in the same way"
            )
        return BASELINES[self.method].join(self.values, target.values)


class Joined(NamedTuple):
    """A map between landmarks.

    Attributes
    ----------
    imap : the map.
    message : how it was made.
    as_meant : whether the method could do what it is meant to.
    """

    imap: IntensityMap
    message: str
    as_meant: bool = True


class _Baseline(NamedTuple):
    """What makes a baseline.

    Attributes
    ----------
    measure : landmarks of a scan; the number is the user's choice, where there is any.
    join : the map from landmarks to others.
    of_density : landmarks of a density, where one has them.
    fixed : the average over any scans, where it is known beforehand.
    own_units : whether averages are in units of the method's own.
    size : how many landmarks there are; 0 where the user chooses.
    """

    measure: Callable[[Histogram, int], FloatArray]
    join: Callable[[FloatArray, FloatArray], Joined]
    of_density: Callable[[GaussianMixture, int], FloatArray] | None = None
    fixed: tuple[float, ...] | None = None
    own_units: bool = False
    size: int = 0


def measure(method: str, histogram: Histogram, count: int = NYUL_LANDMARKS) -> Landmarks:
    """Return the landmarks of a scan.

    Parameters
    ----------
    method : one of `BASELINES`.
    histogram : of the voxels that count, in one channel.
    count : how many, for ``"nyul"``.
    """
    if histogram.channels != 1:
        raise InvalidValueError(f"landmarks are of one channel, not of {histogram.channels}")
    return Landmarks(method, _baseline(method).measure(histogram, count))


def check_installed(method: str) -> None:
    """Refuse a method whose package is not there."""
    if _baseline(method).own_units:
        package.check_installed()


def of_density(
    method: str, mixture: GaussianMixture, count: int = NYUL_LANDMARKS
) -> Landmarks | None:
    """Return the landmarks of a density; None for methods that cannot know them."""
    known = _baseline(method).of_density
    return None if known is None else Landmarks(method, known(mixture, count))


def standard(scans: Iterable[tuple[Landmarks, Affine, float]]) -> Landmarks:
    """Return the average of the landmarks of a study's scans.

    Parameters
    ----------
    scans : of each the landmarks, its way to zero mean and unit spread, and how much it counts.
    """
    method, total, weights = "", np.zeros(0), 0.0
    for own, aligned, weight in scans:
        method = method or own.method
        values = own.values / own.values[0] if own.own_units else aligned(own.values)
        if (own.method, total.size or values.size) != (method, values.size):
            raise InvalidValueError("landmarks must all be of one method, and of the same number")
        total = (total if total.size else np.zeros(values.size)) + weight * values
        weights += weight
    if not weights > 0:
        raise InvalidValueError("there are no landmarks to average")
    fixed = BASELINES[method].fixed
    return Landmarks(method, total / weights if fixed is None else np.array(fixed))


def _baseline(method: str) -> _Baseline:
    if not isinstance(method, str) or method not in BASELINES:
        known = ", ".join(BASELINES)
        raise InvalidValueError(f"method must be one of {known}, not {short(method)}")
    return BASELINES[method]


def _line(own: FloatArray, target: FloatArray) -> Joined:
    factor = (target[1] - target[0]) / (own[1] - own[0])
    affine = Affine(np.array([[factor]]), np.array([target[0] - factor * own[0]]))
    return Joined(affine, "aligned")


def _points(own: FloatArray, target: FloatArray) -> Joined:
    return Joined(percentiles.through_points(own, target), f"joined at {own.size} landmarks")


def _polynomial(own: FloatArray, target: FloatArray) -> Joined:
    imap, degree = classes.through_classes(own, target)
    if degree == classes.CLASSES - 1:
        return Joined(imap, f"joined by a polynomial of degree {degree}")
    message = (
        f"was joined by a polynomial of degree {degree}, because none of higher degree rises enough"
    )
    return Joined(imap, message, as_meant=False)


def _factor(own: FloatArray, target: FloatArray) -> Joined:
    factor = einsum("i,i->", own, target) / einsum("i,i->", own, own)
    return Joined(Affine(np.array([[factor]]), np.zeros(1)), "multiplied")


def _mean_and_spread(histogram: Histogram, _: int) -> FloatArray:
    mean = float(histogram.mean()[0])
    return np.array([mean, mean + float(np.sqrt(histogram.covariance()[0, 0]))])


def _density_mean_and_spread(mixture: GaussianMixture, _: int) -> FloatArray:
    mean = float(mixture.mean()[0])
    return np.array([mean, mean + float(np.sqrt(mixture.covariance()[0, 0]))])


def _without_count(function: Callable[[T], FloatArray]) -> Callable[[T, int], FloatArray]:
    """Return a measure for which the user chooses no number of landmarks."""
    return lambda thing, _: function(thing)


BASELINES = {
    "zscore": _Baseline(
        _mean_and_spread, _line, _density_mean_and_spread, fixed=(0.0, 1.0), size=2
    ),
    "nyul": _Baseline(percentiles.percentiles, _points, percentiles.density_percentiles),
    "quantile": _Baseline(
        _without_count(percentiles.quantiles),
        _points,
        _without_count(percentiles.density_quantiles),
    ),
    "hellier": _Baseline(_without_count(classes.class_means), _polynomial, size=classes.CLASSES),
    "whitestripe": _Baseline(
        _without_count(package.white_stripe), _line, fixed=(0.0, 1.0), own_units=True, size=2
    ),
    "kde": _Baseline(_without_count(package.kde), _factor, fixed=(1.0,), own_units=True, size=1),
    "fcm": _Baseline(_without_count(package.fcm), _factor, fixed=(1.0,), own_units=True, size=1),
    "lsq": _Baseline(_without_count(package.lsq), _factor, own_units=True, size=3),
}
