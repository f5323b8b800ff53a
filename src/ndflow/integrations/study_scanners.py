"""How the scanners of a finished study differ, from the maps that it has saved."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.methods.matching import Scale
from ndflow.methods.model import DensityModel
from ndflow.population import (
    ScannerMaps,
    contrast_curve,
    contrast_grid,
    scanner_maps,
)
from ndflow.scan.model_files import load
from ndflow.scan.records import MapRecord
from ndflow.scan.settings import Matching, Writing
from ndflow.scan.target import Target, check_units, units_of
from ndflow.study.finished import unchanging
from ndflow.study.references import read_reference, reference_name
from ndflow.transport import Affine, Chain, Tabulated
from ndflow.values import path_like

__all__ = ["drawn_map", "read_scanners", "scanner_units", "scanners"]

_FEW = 10_000  # voxels, enough to know the units of an image

_STANDARD = Affine(np.eye(1), np.zeros(1))


def scanners(out: AnyPath) -> ScannerMaps:
    """Return how the scanners of a finished study differ, so that random ones can be drawn.

    The maps of all scans are inverted, so that they lead from the reference to each scan, and
    reduced to their contrast: gain and offset do not count. `ScannerMaps` explains how sites, and
    scans of one site, vary around the mean.

    Parameters
    ----------
    out : the folder of a study: the OUT of ``ndflow cohort`` or ``ndflow bids``.

    Returns
    -------
    ScannerMaps
        To be saved with `ndflow.save`, and used by ``RandomScanner`` of
        `ndflow.integrations.torchio` without the study.

    Raises
    ------
    FileError
        Where the folder holds no finished study of one channel, or one that cannot show how
        scanners differ: of fewer than five scans, or with a method that changes no contrast.

    Warns
    -----
    UserWarning
        Where the study has one site only: then nothing is known about other scanners, and maps
        differ as much as scans of one site do.

    Examples
    --------
    See `ScannerMaps`.
    """
    path_like(out, "out")
    with unchanging([out]) as (run,):
        study = run.study
        reference = read_reference(str(study.folder / reference_name(None))).mixture
        units = _units(reference, study.matching)
        grid = contrast_grid(reference)
        curves = [
            contrast_curve(
                Chain((units, MapRecord.read(study.paths(scan).sidecar).map.inverse())),
                reference,
                grid,
            )
            for scan in study.scans
        ]
    sites = [scan.site or "" for scan in study.scans]
    try:
        found = scanner_maps(reference, grid, curves, sites, channel=run.record.channel)
    except InvalidValueError as error:
        cause, _, hint = str(error).partition("; ")
        raise FileError(out, cause, hint) from None
    if found.sites == 1:
        warnings.warn(
            f"{os.fspath(out)}: has one site only; random scanners will differ as much as the "
            f"scans of this site do, not as much as scanners",
            stacklevel=2,
        )
    return found


def read_scanners(source: ScannerMaps | AnyPath) -> ScannerMaps:
    """Return scanners, or those in a file."""
    if isinstance(source, ScannerMaps):
        return source
    path_like(source, "scanners, where they are not ScannerMaps,")
    found = load(source)
    if not isinstance(found, ScannerMaps):
        hint = "make a file of scanners with ndflow.save(FILE, ndflow.scanners(OUT))"
        raise FileError(source, f"holds no scanners, but a {type(found).__name__}", hint)
    return found


def scanner_units(
    found: ScannerMaps, *, scale: Scale | None = None, range: tuple[float, float] | None = None
) -> Affine:
    """Return the map from a reference to the units of images that were brought to it.

    Parameters
    ----------
    found : scanners, which know their reference.
    scale, range : the units of the images, as for `ndflow.normalise`, with the same default.
    """
    matching = Matching(scale=scale, range=range)
    check_units(matching, Writing(), name="the images")
    return _units(found.reference, matching)


def drawn_map(
    found: ScannerMaps,
    seed: int,
    voxels: NDArray[Any],
    *,
    between: float,
    within: float,
    units: Affine,
) -> Tabulated:
    """Draw a scanner for an image, after a look at whether the image has the units it needs.

    Parameters
    ----------
    found : scanners.
    seed : of the draw.
    voxels : of the image.
    between, within, units : as for `ScannerMaps.draw`.

    Raises
    ------
    InvalidValueError
        Where the median of the image lies beyond all intensities of the reference.
    """
    imap = found.draw(seed, between=between, within=within, units=units)
    some = voxels.reshape(-1)[:: max(1, voxels.size // _FEW)]
    some = some[some != 0]
    low, high = (float(units(end)) for end in (found.grid[0], found.grid[-1]))
    if some.size and not low <= (median := float(np.median(some))) <= high:
        raise InvalidValueError(
            f"the image has a median of {median:.4g}, but scanners are drawn for intensities from "
            f"{low:.4g} to {high:.4g}; normalise it first, with NDFlow, and give both the same "
            f"scale and range"
        )
    return imap


def _units(reference: GaussianMixture, matching: Matching) -> Affine:
    target = Target(DensityModel(reference), "the reference", has_units=False, files={})
    return units_of(target, matching) or _STANDARD
