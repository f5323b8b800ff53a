"""Landmarks that the package ``intensity-normalization`` finds: it is asked, not imitated.

Each of its methods multiplies a scan, or shifts and multiplies it, until some tissue has a fixed
intensity. What it finds out about the scan on the way is the landmark:

- ``kde``: the peak of white matter, from a kernel density estimate;
- ``fcm``: the mean of white matter, from fuzzy c-means;
- ``lsq``: the means of fluid, grey and white matter, from fuzzy c-means;
- ``whitestripe``: mean and spread of a stripe of white matter around its peak, as two points.

All suppose an image in which white matter is the brightest, such as T1w.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from ndflow.density import Histogram
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.values import FloatArray

__all__ = ["check_installed", "fcm", "kde", "lsq", "white_stripe"]

_SEED = 1806  # of fuzzy c-means, which begins at random


def check_installed() -> None:
    """Refuse to go on without the package."""
    _imported("adapters.images")


def kde(histogram: Histogram) -> FloatArray:
    """Return the peak of white matter, (1,)."""
    # Its kernel is as wide as the brightest voxel says, whatever the units: too wide to see any
    # peak unless they are about the spread of the scan.
    unit = float(np.sqrt(histogram.covariance()[0, 0])) or 1.0
    scaled = Histogram(histogram.values / unit, histogram.counts)
    fitted, _ = _fitted("individual.kde", "KDENormalizer", scaled)
    return np.array([unit * fitted.tissue_mode])


def white_stripe(histogram: Histogram) -> FloatArray:
    """Return the mean of the stripe, and a point one spread above, (2,)."""
    fitted, _ = _fitted("individual.whitestripe", "WhiteStripeNormalizer", histogram)
    return np.array([fitted.mean, fitted.mean + fitted.std])


def fcm(histogram: Histogram) -> FloatArray:
    """Return the mean of white matter, (1,)."""
    return np.array([_tissue_mean("WM", histogram)])


def lsq(histogram: Histogram) -> FloatArray:
    """Return the means of fluid, grey and white matter, (3,)."""
    fitted, _ = _fitted("population.lsq", "LSQNormalizer", histogram)
    # It tells them as multiples of that of fluid. (And its `transform` fails with NumPy 2.4.)
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
    most = int(np.argmax(np.abs(before)))  # where the quotient is the most precise
    return float(before[most]) / float(after[most])


def _fitted(module: str, name: str, histogram: Histogram, **options: Any) -> tuple[Any, Any]:
    """Return one of the package's methods, fitted to a scan, and the scan as it wants it."""
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
            "this method is of the package intensity-normalization, which is not installed; "
            "try pip install 'ndflow[evaluate]'"
        ) from None


@contextmanager
def _steady() -> Iterator[None]:
    """Let the package begin from the same random numbers each time, and say what it says."""
    state = np.random.get_state()  # noqa: NPY002 - the package uses no other
    np.random.seed(_SEED)  # noqa: NPY002
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what is not a number is refused later
            yield
    except Exception as error:  # of its own kinds, which are not those of a library of ours
        raise DegenerateDataError(f"intensity-normalization says: {error}") from error
    finally:
        np.random.set_state(state)  # noqa: NPY002
