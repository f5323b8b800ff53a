"""``ndflow normalise``: how much memory an image takes."""

from pathlib import Path

import numpy as np
import pytest
from commands import measured, needs_proc
from one_scan import SCAN, TARGET
from phantoms import head, save

import ndflow

LARGE = (160, 200, 160)


def peak(*words: object) -> int:
    """Return the peak memory, in bytes, of a command."""
    (code,), (most,), err = measured(list(words))
    assert code == 0, err
    return most


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with large images, a mask and a target."""
    folder = tmp_path_factory.mktemp("large")
    ndflow.save(folder / "target.json", TARGET)
    # Enlarged from a small head, which is quicker than drawing so many voxels; noise in the air.
    generator = np.random.default_rng(0)
    small = head(0, shape=(40, 50, 40))
    voxels = np.kron(small, np.ones((4, 4, 4), np.int16))
    noisy = np.abs(generator.standard_normal(LARGE, np.float32)) * 8 + voxels
    save(folder / "int16.nii.gz", voxels)
    save(folder / "float32.nii.gz", noisy)
    save(folder / "float64.nii", noisy.astype(np.float64))
    save(folder / "mask.nii", (voxels > 0).astype(np.float64))
    return folder


@pytest.fixture(scope="module")
def least(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The memory that Python, its libraries and a small image take."""
    folder = tmp_path_factory.mktemp("small")
    ndflow.save(folder / "target.json", TARGET)
    image = save(folder / "tiny.nii.gz", SCAN)
    return peak("normalise", image, "--to", folder / "target.json", "-o", folder / "out.nii.gz")


@needs_proc
@pytest.mark.parametrize(
    ("name", "mask"),
    [
        ("int16.nii.gz", None),
        ("float32.nii.gz", "auto"),
        ("float32.nii.gz", "mask.nii"),
        ("float64.nii", None),
    ],
)
def test_a_volume_costs_at_most_two_and_a_half_times_its_size_in_float32(
    large: Path,
    least: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    mask: str | None,
) -> None:
    monkeypatch.chdir(large)
    options = ["--mask", mask] if mask else []
    output = tmp_path / "out.nii.gz"
    used = peak("normalise", name, "--to", "target.json", "-o", output, *options)
    assert used - least < 2.5 * 4 * np.prod(LARGE)
