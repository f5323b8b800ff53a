"""The tissues of a scan, from its tissue probability maps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.density import fit, histogram
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.fingerprints import FileHash, Hashes
from ndflow.image.mask import BoolArray, misalignment_warnings
from ndflow.image.read import Source, read_volume
from ndflow.image.subject import Subject
from ndflow.image.volume import Volume
from ndflow.methods.targets import target_rule
from ndflow.options import Options
from ndflow.population import TISSUES, Tissues
from ndflow.subject.voxels import Voxels, error_about
from ndflow.values import FloatArray

_ALIKE = 10.0  # the largest values of the three maps may differ by this factor
_LEAST = 1e-3  # of any tissue: less is a mistake, or no brain


def check_maps(scan: Subject, options: Options) -> None:
    """Refuse maps that would be ignored, and a target that lacks them."""
    rule = target_rule(options)
    scan.tissues.check_complete()
    if rule.needs_tissue_maps and not scan.tissues.complete:
        raise InvalidValueError(
            f"--proportions {options.proportions} needs tissue probability maps: --tissue-maps"
        )
    if scan.tissues.complete and not rule.needs_tissue_maps:
        raise InvalidValueError(
            "--tissue-maps are for --proportions tissue only, and that is for a reference of "
            "scans with such maps; leave them out, or give such a reference"
        )


class ProbabilityMap(NamedTuple):
    """A tissue probability map that was read.

    Attributes
    ----------
    share : the probability of each voxel inside the mask.
    warnings : for the user.
    files : that were read, with their hashes.
    """

    share: FloatArray
    warnings: list[str]
    files: tuple[FileHash, ...]


class ScanTissues(NamedTuple):
    """What the tissue probability maps of a scan say about its tissues.

    Attributes
    ----------
    tissues : their densities and proportions.
    warnings : for the user.
    files : that were read, with their hashes.
    """

    tissues: Tissues
    warnings: list[str]
    files: Hashes


def probabilities(
    source: Source, volume: Volume, inside: BoolArray, max_bytes: int
) -> ProbabilityMap:
    """Read a tissue probability map.

    Parameters
    ----------
    source : the map.
    volume : the scan, whose grid it must have.
    inside : which voxels are wanted.
    max_bytes : the largest file to read.

    Raises
    ------
    FileError : if it cannot be read, or is no such map of this scan.
    """
    read = read_volume(source, max_bytes=max_bytes, called="the tissue probability map")
    if read.spatial_shape != volume.spatial_shape:
        cause = f"has the shape {read.spatial_shape}, but the scan {volume.spatial_shape}"
        raise FileError(read.path, cause, "give a map on the grid of the scan")
    warnings = misalignment_warnings(read, volume)
    share = np.asarray(read.values(read.flat[inside]), np.float64)
    share[~np.isfinite(share)] = 0.0
    if share.min() < 0 or not share.any():
        cause = "no probability is positive inside the mask, or some are negative"
        raise FileError(read.path, cause, "check that it is a tissue probability map")
    return ProbabilityMap(share, warnings, read.files)


def tissues_of(
    scan: Subject,
    voxels: Voxels,
    options: Options,
) -> ScanTissues:
    """Estimate the densities and proportions of a scan's tissues."""
    flat, path = voxels.volume.flat, voxels.volume.path
    inside = voxels.inside[:]
    if flat.dtype.kind == "f":
        inside = inside & np.isfinite(flat)
    if voxels.lesion is not None:
        inside = inside & ~voxels.lesion
    stored: NDArray[np.generic] = flat[inside]
    densities, amounts, largest, warnings = [], [], [], []
    files: Hashes = {}
    for name, source in zip(TISSUES, _all_three(scan), strict=True):
        share, found, read = probabilities(source, voxels.volume, inside, options.max_bytes)
        warnings += found
        files |= {name.lower(): read} if read else {}
        amounts.append(float(share.sum()))
        largest.append(float(share.max()))
        with error_about(f"{path} ({name})"):
            counted = histogram(
                stored, weights=share, slope=voxels.volume.slope, inter=voxels.volume.inter
            )
            densities.append(fit(counted, effective_count=options.effective_count).mixture)
        del share  # before the next map is read
    if max(largest) > _ALIKE * min(largest):
        cause = f"its tissue maps reach {', '.join(f'{most:g}' for most in largest)}"
        raise FileError(path, cause, "give probabilities of CSF, GM and WM in the same units")
    proportions = np.array(amounts) / sum(amounts)
    if proportions.min() < _LEAST:
        lacking = TISSUES[int(np.argmin(proportions))]
        cause = f"hardly any {lacking} ({proportions.min():.2g} of the tissues)"
        raise FileError(path, cause, "check its tissue probability maps")
    return ScanTissues(Tissues(tuple(densities), proportions), warnings, files)


def _all_three(scan: Subject) -> tuple[Source, Source, Source]:
    """Return the maps in the order of `TISSUES`."""
    csf, gm, wm = scan.tissues
    if csf is None or gm is None or wm is None:
        raise InvalidValueError("all three tissue probability maps are needed: csf, gm and wm")
    return csf, gm, wm
