"""The tissues of a scan, from maps of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.density import fit, histogram
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.mask import BoolArray, misalignment_warnings
from ndflow.image.read import Source, read_volume
from ndflow.image.volume import Volume
from ndflow.population import TISSUES, Tissues
from ndflow.scan.reading import Scan, about
from ndflow.settings import Fitting, Matching, Reading
from ndflow.values import FloatArray

__all__ = ["TissueMaps", "check_maps", "maps_each", "needs_tissues", "probabilities", "tissues_of"]

_ALIKE = 10.0  # by which factor the largest values of the maps may differ
_LEAST = 1e-3  # of any tissue: less is a mistake, or no brain


class TissueMaps(NamedTuple):
    """Maps of the probability of each tissue, on the grid of a scan."""

    csf: Source
    gm: Source
    wm: Source

    @classmethod
    def of(cls, csf: Source | None, gm: Source | None, wm: Source | None) -> TissueMaps | None:
        """Return maps if there are any; then there must be all three."""
        if csf is None and gm is None and wm is None:
            return None
        if csf is None or gm is None or wm is None:
            raise InvalidValueError("maps of all three tissues are needed: csf, gm and wm")
        return cls(csf, gm, wm)


def maps_each(
    csf: Sequence[str], gm: Sequence[str], wm: Sequence[str], images: Sequence[str]
) -> list[TissueMaps | None]:
    """Return the maps of each image, given in the order of the images, or not at all."""
    given = {"--csf": csf, "--gm": gm, "--wm": wm}
    if not any(given.values()):
        return [None] * len(images)
    if missing := [option for option, files in given.items() if not files]:
        raise InvalidValueError(f"maps of all three tissues are needed: give {missing[0]} too")
    for option, files in given.items():
        if len(files) != len(images):
            raise InvalidValueError(
                f"{option}: {len(files)} given for {len(images)} images; give one for each"
            )
    return [TissueMaps(*files) for files in zip(csf, gm, wm, strict=True)]


def check_maps(maps: TissueMaps | None, matching: Matching) -> None:
    """Refuse maps that would be ignored, and a target that lacks them."""
    if maps is None and matching.target == "tissue":
        raise InvalidValueError("--target tissue needs maps of all three: --csf, --gm and --wm")
    if maps is not None and matching.target != "tissue":
        raise InvalidValueError("--csf, --gm and --wm are for --target tissue only")


def needs_tissues(matching: Matching) -> bool:
    """Tell whether a target is made of tissues."""
    return matching.target != "average"


def probabilities(
    source: Source, volume: Volume, inside: BoolArray, max_bytes: int
) -> tuple[FloatArray, list[str]]:
    """Return the probability of a tissue in the voxels of a scan inside a mask, and warnings."""
    read = read_volume(source, max_bytes=max_bytes, called="the map of a tissue")
    if read.spatial_shape != volume.spatial_shape:
        cause = f"has the shape {read.spatial_shape}, but the scan {volume.spatial_shape}"
        raise FileError(read.path, cause, "give a map on the grid of the scan")
    warnings = misalignment_warnings(read, volume)
    share = np.asarray(read.values(read.flat)[inside], np.float64)
    share = np.where(np.isfinite(share), share, 0.0)
    if share.min() < 0 or not share.any():
        cause = "no probability is positive inside the mask, or some are negative"
        raise FileError(read.path, cause, "check that it is the map of a tissue")
    return share, warnings


def tissues_of(
    scan: Scan, maps: TissueMaps, reading: Reading, fitting: Fitting
) -> tuple[Tissues, list[str]]:
    """Return the densities and proportions of the tissues of a scan, and warnings."""
    flat = scan.volume.flat
    inside = scan.inside[:]
    if flat.dtype.kind == "f":
        inside = inside & np.isfinite(flat)
    if scan.left_out is not None:
        inside = inside & ~scan.left_out
    stored: NDArray[np.generic] = flat[inside]
    densities, amounts, largest, warnings = [], [], [], []
    for name, source in zip(TISSUES, (maps.csf, maps.gm, maps.wm), strict=True):
        share, doubts = probabilities(source, scan.volume, inside, reading.max_bytes)
        warnings += doubts
        amounts.append(float(share.sum()))
        largest.append(float(share.max()))
        with about(f"{scan.volume.path} ({name})"):
            seen = histogram(
                stored, weights=share, slope=scan.volume.slope, inter=scan.volume.inter
            )
            densities.append(fit(seen, effective_count=fitting.effective_count).mixture)
    if max(largest) > _ALIKE * min(largest):
        cause = f"the maps of its tissues reach {', '.join(f'{most:g}' for most in largest)}"
        hint = "give probabilities of CSF, GM and WM in the same units"
        raise FileError(scan.volume.path, cause, hint)
    proportions = np.array(amounts) / sum(amounts)
    if proportions.min() < _LEAST:
        lacking = TISSUES[int(np.argmin(proportions))]
        cause = f"hardly any {lacking} ({proportions.min():.2g} of the tissues)"
        raise FileError(scan.volume.path, cause, "check the maps of its tissues")
    return Tissues(tuple(densities), proportions), warnings
