"""Small heads with three tissues, for tests that need an image."""

from collections.abc import Sequence
from pathlib import Path

import nibabel
import numpy as np
from numpy.typing import NDArray

SHAPE = (24, 28, 20)
TISSUES = ((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0))  # mean and spread of fluid, grey, white
AFFINE = np.array([[-2.0, 0, 0, 20], [0, 2.0, 0, -30], [0, 0, 2.0, -10], [0, 0, 0, 1]])


def radii(shape: Sequence[int] = SHAPE) -> NDArray[np.float64]:
    """How far each voxel lies from the centre; the head ends at 1."""
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
    """Return a head: fluid around grey around white matter, and 0 around it all."""
    generator = np.random.default_rng(seed)
    radius = radii(shape) + 0.05 * generator.standard_normal(shape)
    kind = np.digitize(radius, [0.6, 0.85])  # white, grey, fluid
    means, spreads = (np.array(part)[::-1] for part in zip(*tissues, strict=True))
    values = gain * (means[kind] + spreads[kind] * generator.standard_normal(shape))
    inside = radii(shape) < 1
    return np.where(inside, np.maximum(np.rint(values), 1), 0).astype(np.int16)


def save(path: Path, data: NDArray[np.generic], affine: NDArray[np.float64] = AFFINE) -> Path:
    """Write an image as NIfTI, compressed if the name says so."""
    nibabel.save(nibabel.Nifti1Image(data, affine), path)
    return path


def voxels_of(path: str | Path) -> NDArray[np.float64]:
    """Return what an image holds."""
    return np.asarray(nibabel.load(path).dataobj, np.float64)
