"""The density of a scan, also in a file of its own, to be sent where the scan may not go.

Such a file names neither the scan nor the folder it lies in; that it was made from a certain image
can be shown by the SHA-256 of the image.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ndflow.density import Fit, Histogram, trimmed
from ndflow.files.atomic import AnyPath
from ndflow.files.stream import sha256_of
from ndflow.image.read import Source
from ndflow.methods.landmarks import Landmarks
from ndflow.methods.percentiles import quantiles_at
from ndflow.population import Tissues
from ndflow.scan.model_files import check_model, save
from ndflow.scan.reading import doubts, fit_scan, input_files, landmarks_of, read_scan, selection
from ndflow.scan.results import all_files
from ndflow.scan.tissue_maps import TissueMaps, tissues_of
from ndflow.settings import Fitting, Matching, Reading, flat, settings_from
from ndflow.values import FloatArray

__all__ = ["Fitted", "fit_image", "fit_source", "fit_to_file"]

_SHARES = np.arange(1, 200) / 200  # those of `ndflow.metrics`, which a fit need not load


class Fitted(NamedTuple):
    """A density and what there is to say about it.

    Attributes
    ----------
    fit : the density.
    voxels : how many were used, and how many not.
    warnings : for the user.
    landmarks : of the same scan, for methods that look at them.
    misfit : the largest difference between the distribution functions of histogram and mixture.
    quantiles : of the histogram, at the shares at which scans are compared.
    tissues : of the same scan, where maps of them are known.
    """

    fit: Fit
    voxels: dict[str, int]
    warnings: tuple[str, ...]
    landmarks: Landmarks | None
    misfit: float
    quantiles: FloatArray
    tissues: Tissues | None


def fit_image(
    image: Source, *, mask: Source | None = None, exclude: Source | None = None, **settings: Any
) -> Fit:
    """Estimate the density of an image, as ``ndflow fit`` does.

    Parameters
    ----------
    image : a path, a nibabel image, or an array.
    mask : the same, or ``"auto"``. Default: all voxels but 0.
    exclude : voxels that do not count, for example of a lesion.
    **settings : effective_count, max_bytes; see ``ndflow fit --help``.
    """
    reading, fitting = settings_from(settings, Reading, Fitting)
    return fit_source(image, mask=mask, exclude=exclude, reading=reading, fitting=fitting).fit


def fit_source(
    image: Source,
    *,
    mask: Source | None,
    exclude: Source | None,
    reading: Reading,
    fitting: Fitting,
    matching: Matching | None = None,
    maps: TissueMaps | None = None,
) -> Fitted:
    """Estimate the density of an image, and tell more about it; parameters as for `read_scan`."""
    scan = read_scan(image, mask, exclude, reading)
    fitted = fit_scan(scan, fitting)
    warnings = scan.warnings + doubts(scan.volume.path, fitted)
    landmarks = landmarks_of(scan, matching or Matching())
    tissues = None
    if maps is not None:
        tissues, more = tissues_of(scan, maps, reading, fitting)
        warnings += more
    seen = trimmed(scan.histogram)
    quantiles = quantiles_at(_SHARES, seen)
    misfit = _misfit(seen, fitted)
    return Fitted(fitted, scan.voxels, tuple(warnings), landmarks, misfit, quantiles, tissues)


def _misfit(seen: Histogram, fitted: Fit) -> float:
    below = (np.cumsum(seen.counts) - 0.5 * seen.counts) / seen.total
    return float(np.abs(fitted.mixture.cdf(seen.values[:, 0]) - below).max())


def fit_to_file(
    image: AnyPath,
    output: AnyPath,
    *,
    mask: Source | None,
    exclude: Source | None,
    force: bool,
    reading: Reading,
    fitting: Fitting,
    maps: TissueMaps | None = None,
) -> Fitted:
    """Estimate the density of an image and write it to a file."""
    files = input_files(
        image=image, mask=mask, exclude=exclude, **({} if maps is None else maps._asdict())
    )
    inputs = all_files(files)
    check_model(output, inputs, force=force)
    fitted = fit_source(
        image, mask=mask, exclude=exclude, reading=reading, fitting=fitting, maps=maps
    )
    record: dict[str, Any] = {
        "sha256": [sha256_of(name) for name in files["image"]],
        "settings": selection(mask, exclude) | flat(reading, fitting),
        "voxels": fitted.voxels,
        "fit": fitted.fit.status.message,
        "misfit": fitted.misfit,
    }
    if fitted.tissues is not None:
        record["tissues"] = fitted.tissues.to_dict()
        record["maps"] = {name: [sha256_of(f) for f in files[name]] for name in ("csf", "gm", "wm")}
    save(output, fitted.fit, record=record, force=force, inputs=inputs)
    return fitted
