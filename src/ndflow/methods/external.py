"""Methods of the package ``intensity-normalization``: it is called, not imitated.

Each of them scales a scan, or shifts and scales it, until some tissue has a fixed intensity. What
the package finds out about the scan on the way is the landmark:

- ``kde``: the peak of WM, from a kernel density estimate;
- ``fcm``: the mean of WM, from fuzzy c-means;
- ``lsq``: the means of CSF, GM and WM, from fuzzy c-means;
- ``whitestripe``: the mean of a stripe of WM around its peak, and one standard deviation above.

All assume an image in which WM is the brightest tissue, such as T1w.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from ndflow.density import Histogram
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.methods.landmark_method import Joined, LandmarkMethod, straight_line
from ndflow.methods.matching import Matching
from ndflow.population import Landmarks
from ndflow.transport import Affine
from ndflow.values import FloatArray, einsum

__all__ = ["METHODS", "External", "Factor", "WhiteStripe", "fcm", "kde", "lsq", "white_stripe"]

_SEED = 1806  # of fuzzy c-means, which starts at random


class External(LandmarkMethod):
    """A method of the package, with units of its own."""

    own_units = True

    def check(self, matching: Matching) -> None:
        """Refuse options that it would ignore, and raise if the package is not installed."""
        super().check(matching)
        _imported("adapters.images")

    def description(self, matching: Matching) -> str:
        """Return what it does to scans."""
        return f"normalised by {self._way}, as implemented in the package intensity-normalization"

    _way: ClassVar[str]


class WhiteStripe(External):
    """Align the mean and the standard deviation of WM."""

    name = "whitestripe"
    count = 2
    fixed = (0.0, 1.0)
    _way = "WhiteStripe"

    def landmarks_of(self, histogram: Histogram, matching: Matching) -> FloatArray:
        """Return the mean of the stripe, and one standard deviation above."""
        return white_stripe(histogram)

    def join(self, own: FloatArray, target: FloatArray) -> Joined:
        """Return the affine map between the two."""
        return straight_line(own, target)


class Factor(External):
    """Multiply a scan such that some tissues have given intensities.

    Parameters
    ----------
    name : what users call the method.
    measure : the intensities of the tissues in a scan.
    count : how many tissues.
    fixed : where they go, if that is the same for any study.
    way : how the tissues are found, in words.
    """

    def __init__(
        self,
        name: str,
        measure: Callable[[Histogram], FloatArray],
        count: int,
        fixed: tuple[float, ...] | None,
        way: str,
    ) -> None:
        self.name, self._measure = name, measure
        self.count, self.fixed, self._way = count, fixed, way  # type: ignore[misc]

    def landmarks_of(self, histogram: Histogram, matching: Matching) -> FloatArray:
        """Return the intensities of the tissues."""
        return self._measure(histogram)

    def check_landmarks(self, landmarks: Landmarks) -> Landmarks:
        """Return landmarks, if a factor can bring them to others."""
        super().check_landmarks(landmarks)
        if not landmarks.values[0] > 0:
            raise InvalidValueError(
                f"the tissues that {self.name} looks for must be brighter than 0, "
                f"not at {landmarks.values[0]:g}"
            )
        return landmarks

    def join(self, own: FloatArray, target: FloatArray) -> Joined:
        """Return the factor that brings the tissues closest to their target (least squares)."""
        factor = einsum("i,i->", own, target) / einsum("i,i->", own, own)
        return Joined(Affine(np.array([[factor]]), np.zeros(1)), "multiplied")


def kde(histogram: Histogram) -> FloatArray:
    """Return the peak of WM, (1,)."""
    # The width of its kernel depends on the brightest voxel, whatever the units: too wide to see
    # any peak unless the units are about the standard deviation of the scan.
    unit = float(np.sqrt(histogram.covariance()[0, 0])) or 1.0
    scaled = Histogram(histogram.values / unit, histogram.counts)
    fitted, _ = _fitted("individual.kde", "KDENormalizer", scaled)
    return np.array([unit * fitted.tissue_mode])


def white_stripe(histogram: Histogram) -> FloatArray:
    """Return the mean of the stripe, and one standard deviation above, (2,)."""
    fitted, _ = _fitted("individual.whitestripe", "WhiteStripeNormalizer", histogram)
    return np.array([fitted.mean, fitted.mean + fitted.std])


def fcm(histogram: Histogram) -> FloatArray:
    """Return the mean of WM, (1,)."""
    return np.array([_tissue_mean("WM", histogram)])


def lsq(histogram: Histogram) -> FloatArray:
    """Return the means of CSF, GM and WM, (3,)."""
    fitted, _ = _fitted("population.lsq", "LSQNormalizer", histogram)
    # The package gives multiples of the mean of CSF. (Its `transform` fails with NumPy 2.4.)
    multiples: FloatArray = fitted.standard_tissue_means[:, 0]
    return multiples * _tissue_mean("CSF", histogram)


def _tissue_mean(tissue: str, histogram: Histogram) -> float:
    """Return the mean of a tissue, by which the package divides the scan."""
    kinds = _imported("domain.models").TissueType
    fitted, voxels = _fitted(
        "individual.fcm", "FCMNormalizer", histogram, tissue_type=kinds[tissue]
    )
    before = voxels.get_data()
    with _steady():
        after = fitted.transform(voxels).get_data()
    most = int(np.argmax(np.abs(before)))  # where the quotient is most precise
    return float(before[most]) / float(after[most])


def _fitted(module: str, name: str, histogram: Histogram, **options: Any) -> tuple[Any, Any]:
    """Return one of the package's methods, fitted to a scan, and the scan as it takes it."""
    image = _imported("adapters.images").NumpyImageAdapter
    method = getattr(_imported(f"normalizers.{module}"), name)(**options)
    counts = np.rint(histogram.counts).astype(np.intp)
    voxels = image(np.repeat(histogram.values[:, 0], counts))
    with _steady():
        method.fit(voxels, image(np.ones(voxels.shape)))
    return method, voxels


def _imported(module: str) -> Any:
    try:
        return import_module(f"intensity_normalization.{module}")
    except ImportError:
        raise InvalidValueError(
            "this method needs the package intensity-normalization, which is not installed; "
            "try pip install 'ndflow[evaluate]'"
        ) from None


@contextmanager
def _steady() -> Iterator[None]:
    """Start the package from the same random numbers each time; report its errors as ours."""
    state = np.random.get_state()  # noqa: NPY002 - the package uses no other
    np.random.seed(_SEED)  # noqa: NPY002
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # NaN is refused later
            yield
    except Exception as error:  # the package has error types of its own
        raise DegenerateDataError(f"intensity-normalization says: {error}") from error
    finally:
        np.random.set_state(state)  # noqa: NPY002


METHODS = (
    WhiteStripe(),
    Factor("kde", kde, 1, (1.0,), "the peak of WM in a kernel density estimate"),
    Factor("fcm", fcm, 1, (1.0,), "the mean of WM from fuzzy c-means"),
    Factor("lsq", lsq, 3, None, "a least-squares fit of tissue means"),
)
