"""Small images for tests: heads with three tissues."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from nibabel.nifti1 import Nifti1Header
from numpy.typing import DTypeLike, NDArray

SHAPE = (24, 28, 20)
TISSUES = ((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0))  # mean and sd of CSF, GM, WM
AFFINE = np.array([[-2.0, 0, 0, 20], [0, 2.0, 0, -30], [0, 0, 2.0, -10], [0, 0, 0, 1]])


def radii(shape: Sequence[int] = SHAPE) -> NDArray[np.float64]:
    """Return the distance of each voxel from the centre; the head ends at 1."""
    axes = [np.linspace(-1.1, 1.1, length) for length in shape]
    grid = np.meshgrid(*axes, indexing="ij")
    return np.sqrt(sum(axis**2 for axis in grid))


def head(
    seed: int = 0,
    *,
    shape: Sequence[int] = SHAPE,
    tissues: Sequence[tuple[float, float]] = TISSUES,
    gain: float = 1.0,
) -> NDArray[np.int16]:
    """Return a head: CSF around GM around WM, and 0 outside."""
    generator = np.random.default_rng(seed)
    radius = radii(shape) + 0.05 * generator.standard_normal(shape)
    kind = np.digitize(radius, [0.6, 0.85])  # WM, GM, CSF
    means, sds = (np.array(part)[::-1] for part in zip(*tissues, strict=True))
    values = gain * (means[kind] + sds[kind] * generator.standard_normal(shape))
    inside = radii(shape) < 1
    return np.where(inside, np.maximum(np.rint(values), 1), 0).astype(np.int16)


def tissue_shares(shape: Sequence[int] = SHAPE) -> dict[str, NDArray[np.float64]]:
    """Return probabilities of the tissues of a head: ``wm``, ``gm`` and ``csf``."""
    radius = radii(shape)
    wm, csf = (1 / (1 + np.exp(-x / 0.05)) for x in (0.6 - radius, radius - 0.85))
    return {"wm": wm, "gm": 1 - wm - csf, "csf": csf}


def save(path: Path, data: NDArray[np.generic], affine: NDArray[np.float64] = AFFINE) -> Path:
    """Write an image as NIfTI, compressed if the name says so."""
    nibabel.save(nibabel.Nifti1Image(data, affine), path)
    return path


def nifti(voxels: NDArray[Any], affine: NDArray[Any] = AFFINE, **fields: Any) -> bytes:
    """Return the bytes of a NIfTI file, with header fields that nibabel would not write."""
    header = Nifti1Header()
    header.set_data_shape(voxels.shape)
    header.set_data_dtype(voxels.dtype)
    header["sform_code"], header["vox_offset"], header["scl_slope"] = 1, 352, 1
    header["srow_x"], header["srow_y"], header["srow_z"] = affine[:3]
    for name, value in fields.items():
        header[name] = value
    return header.binaryblock + bytes(4) + voxels.tobytes(order="F")


def voxels_of(path: str | Path, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return the voxels of an image; with `dtype` None, of the type in which they are stored."""
    return np.asanyarray(nibabel.load(path).dataobj, dtype)
