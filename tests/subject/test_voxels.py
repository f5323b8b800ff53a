"""Voxels: which of them count, what cannot be a scan, and where a map takes them."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray
from one_scan import CLOSE, SCAN, TARGET, TARGET_SD
from phantoms import SHAPE, nifti, radii

import ndflow
from ndflow.density import trimmed
from ndflow.errors import FileError
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.subject import voxels as module
from ndflow.subject.voxels import (
    Counted,
    VoxelCounts,
    Voxels,
    count_voxels,
    map_array,
    mapped,
    read_voxels,
)

# ── which count ──────────────────────────────────────────────────────────────────────────────────

INNER, LESION = radii() < 0.8, radii() < 0.3
NOISE = np.random.default_rng(3).random(SHAPE)


def read(*parts: Any) -> tuple[Voxels, Counted]:
    subject = Subject(*parts)
    voxels = read_voxels(subject, max_bytes=Options().max_bytes)
    return voxels, count_voxels(subject, voxels)


@pytest.mark.parametrize(
    ("mask", "lesion", "counted"),
    [
        (None, None, SCAN != 0),
        (None, LESION, (SCAN != 0) & ~LESION),
        (INNER, LESION, INNER & ~LESION),
    ],
)
def test_voxels_inside_the_mask_and_not_excluded_count(
    mask: Any, lesion: Any, counted: NDArray[np.bool_]
) -> None:
    voxels, found = read(SCAN, mask, lesion)
    assert found.histogram == ndflow.histogram(SCAN, counted)
    inside = SCAN != 0 if mask is None else mask
    assert np.array_equal(voxels.inside[:], inside.reshape(-1, order="F"))
    left_out = 0 if lesion is None else np.count_nonzero(inside & lesion)
    assert found.counts == VoxelCounts(np.count_nonzero(counted), left_out, 0, 0)
    assert voxels.warnings == found.warnings == ()


def test_voxels_far_out_and_not_finite_are_counted_apart() -> None:
    image = SCAN.astype(np.float64)
    image[12, 14, 8:12] = [np.nan, np.inf, 1e7, 1e7]
    _, found = read(image)
    used = int(trimmed(found.histogram).total)
    assert found.counts == VoxelCounts(used, 0, 2, 2)
    assert used == np.count_nonzero(SCAN) - 4
    (warning,) = found.warnings
    assert "2 voxels NaN or infinite" in warning


def test_channels_count_together_where_all_are_finite() -> None:
    other = np.where(radii() < 0.95, np.where(SCAN, SCAN + NOISE, 0), np.nan)
    voxels, found = read({"T1w": SCAN, "FLAIR": other}, None, LESION)
    inside = (SCAN != 0) & np.isfinite(other)
    assert np.array_equal(voxels.inside[:], inside.reshape(-1, order="F"))
    used = (inside & ~LESION).T
    assert np.array_equal(voxels.rows(), np.stack([SCAN.T[used], other.T[used]], axis=1))
    assert found.counts.excluded == np.count_nonzero(inside & LESION)


TWO_VALUES = np.where(SCAN > 500, 2, SCAN > 0).astype(np.int16)
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "one value": ((np.full((9, 9, 9), 7),), "100% of the voxels used have the value 7"),
    "a mask": ((TWO_VALUES,), r"\d+% of the voxels used have the value 2"),
    "background": (
        (np.where(SCAN > 1050, SCAN, 3),),
        r"\d+% of the voxels used have the value 3: background",
    ),
    "few voxels": (
        (np.where(radii() < 0.1, SCAN, np.nan), INNER),
        "8 voxels are finite and inside the mask; at least 100 are needed; check the mask",
    ),
    "all excluded": ((SCAN, None, SCAN != 0), "no voxels are finite and not 0, and not excluded"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_a_scan_is_refused(what: str) -> None:
    parts, message = REFUSED[what]
    with pytest.raises(FileError, match=message):
        read(*parts)


# ── where a map takes them ───────────────────────────────────────────────────────────────────────

KINDS: dict[str, NDArray[Any]] = {
    "int16": SCAN,
    "negative, big-endian int16": np.where(SCAN, SCAN - 3000, 0).astype(">i2"),
    "int16 up to its ends": np.where(NOISE > 0.999, 32767, np.where(NOISE < 1e-3, -32768, SCAN)),
    "int32, too wide for a look-up table": np.where(SCAN, SCAN * 1000 + 7, 0).astype(np.int32),
    "uint64": SCAN.astype(np.uint64),
    "big-endian float64": np.where(SCAN, SCAN + NOISE, 0).astype(">f8"),
    "float32 around 0": np.where(SCAN, (SCAN + NOISE - 700) / 300, 0).astype(np.float32),
}


def fitted(voxels: NDArray[Any], inside: NDArray[Any], **scaling: float) -> Any:
    return ndflow.fit(ndflow.histogram(voxels, inside, **scaling)).mixture


@pytest.mark.parametrize("kind", KINDS)
def test_every_voxel_goes_where_the_exact_map_takes_it(kind: str) -> None:
    voxels = KINDS[kind]
    before, inside = voxels.copy(), voxels != 0
    result = ndflow.normalise(voxels, TARGET, preset="paper").image
    exact = ndflow.normalising_map(fitted(voxels, inside), TARGET)(voxels)
    assert np.abs(result - exact)[inside].max() < CLOSE * TARGET_SD
    assert not result[~inside].any()
    assert np.array_equal(voxels, before)
    assert voxels.flags.writeable


SCALED = {
    "tiny slope": (SCAN, 1e-6, 0.0),
    "turned round": (SCAN - np.int16(1500), -2.0, -3000.0),
    "scaled floats": (SCAN.astype(np.float32), 0.37, 0.0),
}


@pytest.mark.parametrize("kind", SCALED)
def test_scaled_voxels_are_mapped_by_their_values(tmp_path: Path, kind: str) -> None:
    stored, *scaling = SCALED[kind]
    path = tmp_path / "a.nii"
    path.write_bytes(nifti(stored, scl_slope=scaling[0], scl_inter=scaling[1]))
    slope, inter = (float(np.float32(number)) for number in scaling)
    inside = SCAN != 0  # where values are nonzero, up to the seven digits of a header
    density = fitted(stored, inside, slope=slope, inter=inter)
    exact = ndflow.normalising_map(density, TARGET)(slope * stored + inter)
    for source in (path, nibabel.load(path)):
        image = ndflow.normalise(source, TARGET, preset="paper").image
        result = np.asanyarray(image.dataobj)
        assert np.abs(result - exact)[inside].max() < CLOSE * TARGET_SD
        assert not result[~inside].any()


AFFINE_MAP = ndflow.Affine(2.0, 100.0)


def all_of(pieces: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.concatenate(list(pieces)).reshape(shape, order="F")


@pytest.mark.parametrize("outside", [None, "zero", "keep", "map"])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("piece", [7, 1 << 18])
def test_what_is_outside_is_treated_as_asked_in_pieces_of_any_length(
    monkeypatch: pytest.MonkeyPatch, outside: Any, dtype: Any, piece: int
) -> None:
    monkeypatch.setattr(module, "_PIECE", piece)
    generator = np.random.default_rng(0)
    voxels = generator.integers(-3, 4, (6, 5, 4)).astype(dtype)
    inside = generator.random(voxels.shape) < 0.5
    if dtype is np.float32:  # which stay as they are, inside, and outside unless zero is asked for
        voxels[:2, 0, 0] = voxels[3:5, 3, 2] = [np.nan, np.inf]
    flat = inside.reshape(-1, order="F")
    result = all_of(mapped(read_volume(voxels), AFFINE_MAP, flat, outside), voxels.shape)
    image = 2.0 * voxels + 100  # which leaves NaN and infinity as they are
    expected = {
        None: np.where(inside | (voxels != 0), image, 0),
        "zero": np.where(inside, image, 0),
        "keep": np.where(inside, image, voxels),
        "map": image,
    }[outside]
    assert np.array_equal(result, expected, equal_nan=True)
    again = map_array(voxels, AFFINE_MAP, inside, outside)
    assert np.array_equal(again, expected, equal_nan=True)


DENSITY = ndflow.GaussianMixture([0.4, 0.6], [550.0, 820.0], [1e-4, 3e-4])
TABLE = ndflow.transport.tabulate(ndflow.normalising_map(DENSITY, TARGET), 300.0, 1100.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("given", [np.float32, ">f8"])
@pytest.mark.parametrize("stray", [2e4, 1e30])
def test_many_floats_go_where_the_map_takes_them_also_with_one_far_out(
    dtype: str, given: Any, stray: float
) -> None:
    generator = np.random.default_rng(2)
    voxels = generator.normal(700, 200, (56, 56, 48)).astype(given)  # so many are sampled
    voxels[generator.random(voxels.shape) < 0.3] = 0
    voxels[0, 0, 0], voxels[3, 4, 5:8] = stray, [np.nan, np.inf, -np.inf]
    inside = np.isfinite(voxels) & (voxels != 0)
    flat = inside.reshape(-1, order="F")
    result = all_of(mapped(read_volume(voxels), TABLE, flat, None, dtype), voxels.shape)
    off = np.abs(result[inside] - TABLE(voxels[inside]))
    assert off.max() <= (1e-6 * TARGET_SD if dtype == "float32" else 0)
    assert result[0, 0, 0] == TABLE(voxels[:1, 0, 0])
    assert np.array_equal(result[~inside], voxels[~inside], equal_nan=True)
    if dtype == "float32":
        for order in (np.ascontiguousarray, np.asfortranarray):  # bit by bit, and in its order
            same = map_array(order(voxels), TABLE, inside, None)
            assert np.array_equal(same, result.astype(np.float32), equal_nan=True)
            assert same.flags.f_contiguous == (order is np.asfortranarray)
