"""The foreground: heads in noise, brains without background, and images without any."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ndflow.errors import DegenerateDataError
from ndflow.image.mask import Nonzero, foreground
from ndflow.image.read import read_volume

N = 48


def radius() -> NDArray[np.float64]:
    grid = (np.indices((N, N, N)) - (N - 1) / 2) / (N / 2)
    return np.asarray(np.sqrt((grid**2).sum(axis=0)))


def anatomy() -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return a head of scalp, bone, CSF, GM and WM, and the masks of the head and of its brain."""
    r = radius()
    head = np.select(
        [r < 0.3, r < 0.5, r < 0.55, r < 0.62, r < 0.75], [1000.0, 700, 250, 60, 1500], 0.0
    )
    return head, r < 0.75, r < 0.55


def rician(clean: NDArray[np.float64], sd: float, seed: int = 0) -> NDArray[np.float64]:
    real, imaginary = np.random.default_rng(seed).normal(0, sd, (2, *clean.shape))
    return np.asarray(np.hypot(clean + real, imaginary))


def dice(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    return float(2 * np.count_nonzero(a & b) / (np.count_nonzero(a) + np.count_nonzero(b)))


CHANGES = {
    "plain": lambda x: x,
    "integers": lambda x: np.rint(x).astype(np.int16),
    "few levels": lambda x: np.rint(x / 16).astype(np.uint8),
    "negative": lambda x: x - 1000,
    "standardised": lambda x: (x - x.mean()) / x.std(),
    "unit range": lambda x: (x / x.max()).astype(np.float32),
    "partly padded": lambda x: np.where(np.arange(N) < 5, 0.0, x),
    "partly NaN": lambda x: np.where(np.arange(N) < 5, np.nan, x),
    "one huge voxel": lambda x: np.where(np.arange(N**3).reshape(x.shape) == 5, 1e30, x),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sd", [10, 30, 60])
def test_a_head_is_found_in_noise(change: str, sd: float) -> None:
    clean, head, brain = anatomy()
    found = foreground(CHANGES[change](rician(clean, sd)))
    assert found.dtype == bool
    assert dice(found, head) > 0.95
    assert found[brain].mean() > 0.99


def test_a_brain_is_kept_when_bone_separates_it_from_a_larger_scalp() -> None:
    clean, _, brain = anatomy()
    r = radius()
    clean[(r >= 0.75) & (r < 0.95)] = 1500
    clean[:, :, : N // 2 - 12] = 0  # open below, so that the brain is not a hole in the scalp
    brain[:, :, : N // 2 - 12] = False
    assert foreground(rician(clean, 10))[brain].mean() > 0.97


@pytest.mark.parametrize("background", [0.0, -5.0, -1000.0, 4095.0])
@pytest.mark.parametrize("scale", ["raw", "standardised"])
def test_a_brain_without_background_is_kept_whole(background: float, scale: str) -> None:
    clean, _, brain = anatomy()
    values = rician(clean, 40)
    if scale == "standardised":
        values = (values - values[brain].mean()) / values[brain].std()
    found = foreground(np.where(brain, values, background))
    assert dice(found, brain) > 0.995


def test_holes_are_filled() -> None:
    clean, _, brain = anatomy()
    r = radius()
    clean[r < 0.15] = 0
    found = foreground(rician(clean, 10))
    assert found[r < 0.15].all()
    assert found[brain].mean() > 0.99


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((N, N, N)),
        np.full((N, N, N), 7),
        np.full((N, N, N), np.nan),
        rician(np.zeros((N, N, N)), 20),
        np.random.default_rng(1).normal(size=(N, N, N)),
        np.where(np.arange(N**3).reshape(N, N, N) == N**3 // 2, 1.0, 0.0),
        np.where(np.random.default_rng(2).random((N, N, N)) < 0.01, 1.0 + radius(), 0.0),
    ],
    ids=["zeros", "constant", "NaN", "noise", "normal", "one voxel", "specks"],
)
def test_an_image_without_foreground_is_refused(values: NDArray[np.float64]) -> None:
    with pytest.raises(DegenerateDataError, match=r"no foreground found.*give a mask"):
        foreground(values)


def test_real_scans_without_background_are_kept_whole(cohort_folder: Path) -> None:
    for scan in sorted(cohort_folder.glob("sub-*/anat/*_T1w.nii.gz"))[::15]:
        volume = read_volume(scan)
        assert dice(foreground(volume.stored).reshape(-1, order="F"), Nonzero(volume)[:]) > 0.998
