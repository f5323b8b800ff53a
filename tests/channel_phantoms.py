"""Subjects with two channels on one grid, whose noise depends on each other within tissues."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from phantoms import SHAPE, radii, save

NAMES = ("T1w", "FLAIR")
_T1W = ((1000.0, 60.0), (700.0, 70.0), (300.0, 80.0))  # mean and sd of WM, GM, CSF
_FLAIR = ((700.0, 60.0), (900.0, 80.0), (200.0, 70.0))


def channels(
    seed: int = 0, *, gains: tuple[float, float] = (1.0, 1.0), correlation: float = -0.6
) -> dict[str, NDArray[Any]]:
    """Return T1w (integers) and FLAIR (floats, a few of them negative) of one anatomy.

    Within each tissue, the two are correlated; the correlation is what only a joint map can change.
    """
    generator = np.random.default_rng(seed)
    radius = radii(SHAPE) + 0.05 * generator.standard_normal(SHAPE)
    tissue = np.digitize(radius, [0.6, 0.85])  # WM, GM, CSF
    one, other = generator.standard_normal((2, *SHAPE))
    noise = (one, correlation * one + np.sqrt(1 - correlation**2) * other)
    inside = radii(SHAPE) < 1
    t1w, flair = (
        np.where(inside, gain * (np.array(kind)[tissue, 0] + np.array(kind)[tissue, 1] * own), 0)
        for kind, own, gain in zip((_T1W, _FLAIR), noise, gains, strict=True)
    )
    return {
        "T1w": np.where(inside, np.maximum(np.rint(t1w), 1), 0).astype(np.int16),
        "FLAIR": flair.astype(np.float32),
    }


def save_channels(folder: Path, seed: int = 0, **how: Any) -> dict[str, Path]:
    """Write the channels of a subject as ``<seed>_<channel>.nii.gz``."""
    return {
        name: save(folder / f"{seed}_{name}.nii.gz", image)
        for name, image in channels(seed, **how).items()
    }


def words(files: dict[str, Path]) -> list[str]:
    """Return the channels as they are typed."""
    return [f"{name}={file}" for name, file in files.items()]


class Desk(NamedTuple):
    """A folder with a subject, and what it can be brought to."""

    folder: Path
    files: dict[str, Path]  # of the subject
    separate: Path  # references of each channel
    joint: Path

    @property
    def words(self) -> list[str]:
        return words(self.files)
