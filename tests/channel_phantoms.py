"""Subjects with two channels on one grid: heads whose tissues depend on each other."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from phantoms import head, save

NAMES = ("T1w", "FLAIR")
_FLAIR = ((200.0, 40.0), (900.0, 60.0), (700.0, 50.0))


def channels(seed: int = 0, *, gains: tuple[float, float] = (1.0, 1.0)) -> dict[str, NDArray[Any]]:
    """Return T1w (integers) and FLAIR (floats, a few of them negative) of one anatomy."""
    flair = head(seed, tissues=_FLAIR, gain=gains[1]).astype(np.float32)
    flair[flair == flair.max()] *= -0.1
    return {"T1w": head(seed, gain=gains[0]), "FLAIR": flair}


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
