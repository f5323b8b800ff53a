"""Writing volumes: in every format and type, reproducibly, and complete or not at all."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files_on_disc import VOXELS, each_format, loaded, saved
from nibabel.nifti2 import Nifti2Image
from numpy.typing import NDArray

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.read import read_volume
from ndflow.image.write import check_output, make_array, make_image, write_volume


@each_format
def test_every_format_is_converted_to_every_other(tmp_path: Path, name: str) -> None:
    volume = read_volume(saved(tmp_path / name))
    for target in ("y.nii", "y.nii.gz", "z.hdr", "z.img.gz", "y.mgh", "y.mgz"):
        write_volume(tmp_path / target, volume, [volume.flat])
        after = loaded(tmp_path / target)
        assert np.array_equal(after.get_fdata(), VOXELS)
        assert np.allclose(after.affine, volume.affine, atol=1e-5)
        assert np.array_equal(read_volume(tmp_path / target).stored, VOXELS)
    if name.startswith("2"):
        assert isinstance(loaded(tmp_path / "y.nii"), Nifti2Image)


def test_the_same_image_gives_the_same_bytes(tmp_path: Path) -> None:
    volume = read_volume(saved(tmp_path / "x.nii.gz"))
    values = np.random.default_rng(2).normal(size=VOXELS.size)
    for name, parts in (("a", 1), ("b", 5), ("c", VOXELS.size)):
        path = tmp_path / f"{name}.nii.gz"
        written = write_volume(path, volume, np.array_split(values, parts))
        assert written.sha256 == {path: hashlib.sha256(path.read_bytes()).hexdigest()}
    first = (tmp_path / "a.nii.gz").read_bytes()
    assert first == (tmp_path / "b.nii.gz").read_bytes() == (tmp_path / "c.nii.gz").read_bytes()


def test_real_scans_survive(tmp_path: Path, cohort_folder: Path) -> None:
    for scan in sorted(cohort_folder.glob("sub-*/anat/*_T1w.nii.gz"))[::20]:
        volume = read_volume(scan)
        out = tmp_path / scan.name
        assert write_volume(out, volume, volume.pieces(), dtype="int16").clipped == 0
        before = loaded(scan)
        after = loaded(out)
        assert np.array_equal(np.asanyarray(before.dataobj), np.asanyarray(after.dataobj))
        assert np.array_equal(before.affine, after.affine)


# ── types ────────────────────────────────────────────────────────────────────────────────────────


INTO: list[tuple[str, list[Any], list[Any], int]] = [
    ("uint8", [-1.0, 0.5, 1.5, 2.4, 255.4, 255.6, 1e30, np.nan, np.inf, -np.inf],
     [0, 0, 2, 2, 255, 255, 255, 0, 255, 0], 6),
    ("int16", [-32768.4, -32769.0, 32767.0, 40000.0], [-32768, -32768, 32767, 32767], 2),
    ("int32", [2.0**31, 2.0**31 - 1, -(2.0**31)], [2**31 - 1, 2**31 - 1, -(2**31)], 1),
    ("int64", [2.0**63, -(2.0**63), 2.0**62, 1e300], [2**63 - 1, -(2**63), 2**62, 2**63 - 1], 2),
    ("uint64", [2.0**64, -1.0, 2.0**63], [2**64 - 1, 0, 2**63], 2),
    ("float32", [1e30, 1e300, -1e300, np.inf], [1e30, 3.4028235e38, -3.4028235e38, np.inf], 2),
    ("float64", [1e300, -np.inf], [1e300, -np.inf], 0),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "values", "expected", "count"), INTO)
def test_values_are_rounded_and_clipped_values_counted(
    tmp_path: Path, dtype: str, values: list[Any], expected: list[Any], count: int
) -> None:
    volume = read_volume(np.zeros((len(values), 1, 1), np.int16))
    assert (
        write_volume(tmp_path / "x.nii", volume, [np.array(values)], dtype=dtype).clipped == count
    )
    written = read_volume(tmp_path / "x.nii").flat
    assert np.array_equal(written, np.array(expected, dtype))


def test_integers_of_another_type_do_not_wrap_around(tmp_path: Path) -> None:
    for given, dtype, expected, count in [
        (np.array([300, -5, 7], np.int16), "uint8", [255, 0, 7], 2),
        (np.array([2**64 - 1, 5], np.uint64), "int64", [2**63 - 1, 5], 1),
        (np.array([2**53 + 1, -(2**63)], np.int64), "int64", [2**53 + 1, -(2**63)], 0),
        (np.array([-(2**63), 9], np.int64), "uint64", [0, 9], 1),
        (np.array([True, False]), "int8", [1, 0], 0),
    ]:
        volume = read_volume(np.zeros(len(given), np.int16))
        path = tmp_path / "x.nii"
        assert write_volume(path, volume, [given], dtype=dtype, force=True).clipped == count
        assert read_volume(path).flat.tolist() == expected


def test_nan_and_infinity_survive_in_floats(tmp_path: Path) -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0])
    volume = read_volume(values)
    assert write_volume(tmp_path / "x.nii.gz", volume, volume.pieces()).clipped == 0
    assert read_volume(tmp_path / "x.nii.gz").flat.tobytes() == values.astype("f4").tobytes()


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


def test_a_refused_image_leaves_no_trace(tmp_path: Path) -> None:
    source = saved(tmp_path / "x.nii.gz")
    content = source.read_bytes()
    volume = read_volume(source)
    everything = [volume.flat]
    cases: list[tuple[str, list[NDArray[Any]], dict[str, Any], str]] = [
        ("x.nii.gz", everything, {"force": True}, "one of the inputs"),
        ("y.txt", everything, {}, "does not end like that of an image"),
        ("no/y.nii", everything, {}, "no folder"),
        ("y.nii", [volume.flat[:-1]], {}, "1 fewer"),
        ("y.nii.gz", [volume.flat, volume.flat[:1]], {}, "more values"),
        ("y.nii", [volume.flat.astype(complex)], {}, "complex"),
    ]
    for name, chunks, options, message in cases:
        with pytest.raises((FileError, InvalidValueError), match=message):
            write_volume(tmp_path / name, volume, chunks, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["x.nii.gz"]
    assert source.read_bytes() == content


def test_both_files_of_a_pair_are_protected(tmp_path: Path) -> None:
    volume = read_volume(saved(tmp_path / "x.hdr"))
    (tmp_path / "y.img").touch()
    for name in ("x.hdr", "x.img"):
        with pytest.raises(FileError, match="one of the inputs"):
            write_volume(tmp_path / name, volume, [volume.flat], force=True)
    for name in ("y.hdr", "y.img"):
        with pytest.raises(FileError, match=r"y\.img: exists already"):
            check_output(tmp_path / name)
        with pytest.raises(FileError, match=r"y\.img: exists already"):
            write_volume(tmp_path / name, volume, [volume.flat])
    assert not (tmp_path / "y.hdr").exists()


# ── in memory ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["x.nii", "2.nii", "x.mgh"])
def test_an_image_in_memory_equals_the_file(tmp_path: Path, name: str) -> None:
    volume = read_volume(saved(tmp_path / name))
    written = write_volume(tmp_path / f"y{name}", volume, [volume.flat], dtype="uint8")
    image, clipped = make_image(volume, [volume.flat], dtype="uint8")
    expected = loaded(tmp_path / f"y{name}")
    assert type(image) is type(expected)
    assert clipped == written.clipped == np.count_nonzero((VOXELS < 0) | (VOXELS > 255))
    assert np.array_equal(np.asanyarray(image.dataobj), np.asanyarray(expected.dataobj))
    assert np.array_equal(image.affine, expected.affine)


def test_an_array_has_the_shape_of_the_image() -> None:
    volume = read_volume(VOXELS[..., None])
    array, clipped = make_array(volume, [volume.flat[:9], volume.flat[9:]], dtype="float64")
    assert array.dtype == np.float64
    assert np.array_equal(array, VOXELS[..., None])
    assert clipped == 0
