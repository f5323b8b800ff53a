"""Mapping voxels: by their value, whatever their type, and outside the mask as asked."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.nifti1 import Nifti1Header
from numpy.typing import NDArray
from one_scan import CLOSE, SCAN, TARGET, TARGET_SD
from phantoms import AFFINE, SHAPE

import ndflow
from ndflow.image.read import read_volume
from ndflow.subject import map_voxels as module
from ndflow.subject.map_voxels import mapped
from ndflow.subject.voxels import VoxelCounts

NOISE = np.random.default_rng(3).random(SHAPE)
KINDS: dict[str, NDArray[Any]] = {
    "int16": SCAN,
    "uint8": (SCAN // 6).astype(np.uint8),
    "int8": np.where(SCAN, SCAN // 10 - 120, 0).astype(np.int8),
    "uint16": SCAN.astype(np.uint16) * np.uint16(40),
    "negative int16": np.where(SCAN, SCAN - 3000, 0).astype(np.int16),
    "big-endian int32": SCAN.astype(">i4"),
    "int32, too wide for a look-up table": np.where(SCAN, SCAN * 1000 + 7, 0).astype(np.int32),
    "int64": SCAN.astype(np.int64) - 2 * (SCAN == 700),
    "uint64": SCAN.astype(np.uint64),
    "float32": np.where(SCAN, SCAN + NOISE, 0).astype(np.float32),
    "big-endian float64": np.where(SCAN, SCAN + NOISE, 0).astype(">f8"),
    "float64 in [0, 1]": np.where(SCAN, (SCAN + NOISE) / 2000, 0),
    "float32 around 0": np.where(SCAN, (SCAN + NOISE - 700) / 300, 0).astype(np.float32),
}


def fitted(voxels: NDArray[Any], inside: NDArray[Any], **scaling: float) -> Any:
    return ndflow.fit(ndflow.histogram(voxels, inside, **scaling)).mixture


@pytest.mark.parametrize("kind", KINDS)
def test_every_voxel_goes_where_the_exact_map_takes_it(kind: str) -> None:
    voxels = KINDS[kind]
    inside = voxels != 0
    result = ndflow.normalise(voxels, TARGET, preset="paper").image
    assert result.dtype == np.float32
    exact = ndflow.normalising_map(fitted(voxels, inside), TARGET)(voxels)
    assert np.abs(result - exact)[inside].max() < CLOSE * TARGET_SD
    assert not result[~inside].any()


def image_on_disc(path: Path, stored: NDArray[Any], slope: float, inter: float) -> Any:
    """Write an image that stores these numbers; return slope and intercept as its header does."""
    header = Nifti1Header()
    header.set_data_shape(stored.shape)
    header.set_data_dtype(stored.dtype)
    header.set_sform(AFFINE, 1)
    header.set_slope_inter(slope, inter)
    header["vox_offset"] = 352
    path.write_bytes(header.binaryblock + bytes(4) + stored.tobytes("F"))
    return float(header["scl_slope"]), float(header["scl_inter"])


SCALED = {
    "slope alone": (SCAN, 0.37, 0.0),
    "tiny slope": (SCAN, 1e-6, 0.0),
    "turned round": (SCAN - np.int16(1500), -2.0, -3000.0),
    "Hounsfield's background": (SCAN + np.int16(100), 0.1, -10.0),
    "scaled floats": (SCAN.astype(np.float32), 0.37, 0.0),
}


@pytest.mark.parametrize("kind", SCALED)
@pytest.mark.parametrize("through", ["path", "nibabel"])
def test_scaled_voxels_are_mapped_by_their_values(tmp_path: Path, kind: str, through: str) -> None:
    stored, *scaling = SCALED[kind]
    path = tmp_path / "a.nii"
    slope, inter = image_on_disc(path, stored, *scaling)
    source = path if through == "path" else nibabel.load(path)
    image = ndflow.normalise(source, TARGET, preset="paper").image
    inside = SCAN != 0  # where values are nonzero, up to the seven digits of a header
    density = fitted(stored, inside, slope=slope, inter=inter)
    exact = ndflow.normalising_map(density, TARGET)(slope * stored + inter)
    result = np.asanyarray(image.dataobj)
    assert np.abs(result - exact)[inside].max() < CLOSE * TARGET_SD
    assert not result[~inside].any()


def test_integers_at_the_ends_of_their_type_do_not_wrap_around() -> None:
    for dtype in (np.int16, np.uint16, np.int32):
        ends = np.iinfo(dtype)
        voxels = SCAN.astype(np.int64)
        voxels[voxels > 0] += 1000
        voxels[12, 14, 10], voxels[12, 14, 11] = ends.min or 1, ends.max
        voxels = voxels.astype(dtype)
        inside = voxels != 0
        result = ndflow.normalise(voxels, TARGET, preset="paper").image
        exact = ndflow.normalising_map(fitted(voxels, inside), TARGET)(voxels)
        np.testing.assert_allclose(result[inside], exact[inside], rtol=1e-6, atol=CLOSE * TARGET_SD)
        assert result[inside].min() == result[12, 14, 10]
        assert result[inside].max() == result[12, 14, 11]


AFFINE_MAP = ndflow.Affine(2.0, 100.0)


def all_of(pieces: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.concatenate(list(pieces)).reshape(shape, order="F")


@pytest.mark.parametrize("outside", [None, "zero", "keep", "map"])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("piece", [7, 1 << 18])
def test_the_length_of_a_piece_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, outside: Any, dtype: Any, piece: int
) -> None:
    monkeypatch.setattr(module, "_PIECE", piece)
    generator = np.random.default_rng(0)
    voxels = generator.integers(-3, 4, (6, 5, 4)).astype(dtype)
    inside = generator.random(voxels.shape) < 0.5
    volume = read_volume(voxels)
    flat = inside.reshape(-1, order="F")
    result = all_of(mapped(volume, AFFINE_MAP, flat, outside), voxels.shape)
    image = 2.0 * voxels + 100
    expected = {
        None: np.where(inside | (voxels != 0), image, 0),
        "zero": np.where(inside, image, 0),
        "keep": np.where(inside, image, voxels),
        "map": image,
    }[outside]
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("outside", [None, "zero", "keep", "map"])
def test_voxels_that_are_not_finite_are_kept_unless_zero_is_asked_for(outside: Any) -> None:
    voxels = np.array([np.nan, np.inf, -np.inf, 5.0, 0.0] * 2, np.float32).reshape(10, 1, 1)
    inside = np.arange(10) < 5
    result = all_of(mapped(read_volume(voxels), AFFINE_MAP, inside, outside), (10,))
    assert np.array_equal(result[:5], [np.nan, np.inf, -np.inf, 110, 100], equal_nan=True)
    last = {
        None: [np.nan, np.inf, -np.inf, 110, 0],
        "zero": [0, 0, 0, 0, 0],
        "keep": [np.nan, np.inf, -np.inf, 5, 0],
        "map": [np.nan, np.inf, -np.inf, 110, 100],
    }[outside]
    assert np.array_equal(result[5:], last, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_voxels_that_are_not_finite_are_neither_fitted_nor_mapped(dtype: Any) -> None:
    voxels = SCAN.astype(dtype)
    voxels[12, 14, 8:12] = [np.nan, np.inf, -np.inf, np.nan]  # in the head
    voxels[0, 0, :2] = [np.nan, np.inf]  # outside it
    finite = np.isfinite(voxels)
    inside = finite & (voxels != 0)
    result = ndflow.normalise(voxels, TARGET, preset="paper")
    assert np.array_equal(result.image[~finite], voxels[~finite], equal_nan=True)
    density = fitted(voxels, inside)
    assert result.mixture == density
    exact = ndflow.normalising_map(density, TARGET)(voxels[inside])
    assert np.abs(result.image[inside] - exact).max() < CLOSE * TARGET_SD
    assert result.record.voxels == VoxelCounts(
        fitted=np.count_nonzero(inside), excluded=0, outliers=0, not_finite=6
    )
    assert any("6 voxels NaN or infinite" in warning for warning in result.warnings)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("given", [np.float32, np.float64, ">f4"])
def test_many_floats_go_where_the_map_takes_them(dtype: str, given: Any) -> None:
    generator = np.random.default_rng(2)
    voxels = generator.normal(700, 200, (50, 40, 30)).astype(given)
    voxels[generator.random(voxels.shape) < 0.3] = 0
    voxels[3, 4, 5:8] = [np.nan, np.inf, -np.inf]
    inside = np.isfinite(voxels) & (voxels != 0)
    low, high = float(voxels[inside].min()), float(voxels[inside].max())
    density = ndflow.GaussianMixture([0.4, 0.6], [550.0, 820.0], [1e-4, 3e-4])
    imap = ndflow.transport.tabulate(ndflow.normalising_map(density, TARGET), low + 50, high - 50)
    flat = inside.reshape(-1, order="F")
    result = all_of(mapped(read_volume(voxels), imap, flat, None, dtype), voxels.shape)
    off = 1e-6 * TARGET_SD if dtype == "float32" else 0
    np.testing.assert_allclose(result[inside], imap(voxels[inside]), rtol=0, atol=off)
    assert np.array_equal(result[~inside], np.nan_to_num(voxels[~inside], copy=True) * 0) or (
        np.array_equal(result[~inside], voxels[~inside], equal_nan=True)
    )


@pytest.mark.parametrize("stray", [2e4, 1e10, 3e38])
def test_a_voxel_far_out_does_not_spoil_the_others(stray: float) -> None:
    generator = np.random.default_rng(4)
    voxels = generator.normal(700, 200, (50, 40, 30)).astype(np.float32)
    voxels[0, 0, 0] = stray
    density = ndflow.GaussianMixture([0.4, 0.6], [550.0, 820.0], [1e-4, 3e-4])
    imap = ndflow.transport.tabulate(ndflow.normalising_map(density, TARGET), 300.0, 1100.0)
    inside = np.ones(voxels.size, dtype=bool)
    result = all_of(mapped(read_volume(voxels), imap, inside, None, "float32"), voxels.shape)
    ordinary = voxels < 1e4
    off = np.abs(result - imap(voxels))
    assert off[ordinary].max() < 1e-6 * TARGET_SD
    assert off[~ordinary].max() == 0


def test_the_voxels_that_came_in_are_not_changed() -> None:
    voxels = KINDS["float32"].copy()
    before = voxels.copy()
    for outside in (None, "zero", "keep", "map"):
        ndflow.normalise(voxels, TARGET, outside=outside)
    assert np.array_equal(voxels, before)
    assert voxels.flags.writeable
