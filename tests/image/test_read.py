"""Reading volumes: the same voxels in the same place as with nibabel; damaged files are refused."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from files_on_disc import SHAPE, VOXELS, altered, each_format, loaded, rigid, saved
from nibabel.nifti1 import Nifti1Header, Nifti1Image, Nifti1Pair
from numpy.typing import NDArray

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.stream import FileHash, sha256_of
from ndflow.image.read import files_of, kind_of, read_volume
from ndflow.image.write import write_volume

DTYPES = ("float32", "float64", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)))


@each_format
def test_voxels_and_affine_are_those_that_nibabel_reads(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / name)
    volume = read_volume(path)
    assert volume.path == str(path)
    assert volume.files == tuple(FileHash(file, sha256_of(file)) for file in files_of(path))
    assert np.array_equal(volume.stored, VOXELS)
    assert (volume.slope, volume.inter) == (1.0, 0.0)
    assert np.array_equal(volume.affine, loaded(path).affine)
    assert np.array_equal(volume.flat, VOXELS.ravel(order="F"))
    assert np.shares_memory(volume.flat, volume.stored)
    assert not volume.stored.flags.writeable
    assert np.array_equal(np.concatenate(list(volume.pieces())), volume.flat)


@pytest.mark.parametrize("endianness", "<>")
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_types_and_byte_orders_survive(tmp_path: Path, dtype: str, endianness: str) -> None:
    extremes = np.zeros(8, np.dtype(dtype))
    info: Any = np.iinfo(dtype) if extremes.dtype.kind in "ui" else np.finfo(dtype)
    extremes[:4] = info.min, info.max, 1, 0
    header = Nifti1Header(endianness=endianness)
    header.set_data_dtype(dtype)
    image = Nifti1Image(extremes.reshape(2, 2, 2), np.eye(4), header)
    nibabel.save(image, tmp_path / "x.nii.gz")
    volume = read_volume(tmp_path / "x.nii.gz")
    assert np.array_equal(volume.stored, extremes.reshape(2, 2, 2))
    assert write_volume(tmp_path / "out.nii", volume, [volume.flat], dtype=dtype).clipped == 0
    written = loaded(tmp_path / "out.nii")
    assert written.header.endianness == endianness
    assert np.array_equal(np.asanyarray(written.dataobj), extremes.reshape(2, 2, 2))


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 6, 1), (4, 5, 6, 1, 1), (1, 1, 1)])
def test_axes_of_length_one_are_kept(tmp_path: Path, shape: Any) -> None:
    volume = read_volume(saved(tmp_path / "x.nii.gz", np.ones(shape, np.uint8)))
    assert volume.shape == shape
    assert volume.spatial_shape == shape[:3]
    write_volume(tmp_path / "y.nii.gz", volume, [volume.flat])
    assert loaded(tmp_path / "y.nii.gz").shape == shape


@pytest.mark.parametrize(
    ("slope", "inter", "expected"),
    [
        (-0.5, 3.0, (-0.5, 3.0)),
        (0.0, 7.0, (1.0, 0.0)),
        (np.nan, np.nan, (1.0, 0.0)),
    ],
)
def test_the_scaling_is_that_of_nibabel(
    tmp_path: Path, slope: float, inter: float, expected: Any
) -> None:
    path = altered(tmp_path, scl_slope=slope, scl_inter=inter)
    volume = read_volume(path)
    assert (volume.slope, volume.inter) == expected
    values = np.concatenate(list(volume.pieces()))
    assert np.array_equal(values.reshape(SHAPE, order="F"), loaded(path).get_fdata())


# ── damaged files ────────────────────────────────────────────────────────────────────────────────


@each_format
def test_a_truncated_file_is_refused_wherever_it_is_cut(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / name)
    whole = path.read_bytes()
    footer = 20 if name == "x.mgh" else 0  # optional
    cuts = {0, 1, 3, 4, 100, 283, 347, 351, len(whole) // 2, len(whole) - footer - 1}
    for cut in sorted(cut for cut in cuts if cut < len(whole) - footer):
        path.write_bytes(whole[:cut])
        with pytest.raises(FileError):
            read_volume(path)


def test_only_zeros_may_follow_the_voxels(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.nii")
    content = path.read_bytes()
    path.write_bytes(content + bytes(500))
    assert np.array_equal(read_volume(path).stored, VOXELS)
    path.write_bytes(content + bytes(500) + b"x")
    with pytest.raises(FileError, match="holds more than the voxels"):
        read_volume(path)


def test_pairs_of_header_and_data_are_refused(tmp_path: Path) -> None:
    nibabel.save(Nifti1Pair(VOXELS, rigid()), tmp_path / "x.img")
    for name, message in {"x.hdr": "not a single NIfTI file", "x.img": "neither NIfTI"}.items():
        with pytest.raises(FileError, match=message):
            read_volume(tmp_path / name)


def dim(*changes: tuple[int, int]) -> list[int]:
    dims = [3, *SHAPE, 1, 1, 1, 1]
    for axis, length in changes:
        dims[axis] = length
    return dims


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dim": dim((1, 32767), (2, 32767), (3, 32767))}, "holds at most .* voxels would end at"),
        ({"dim": dim((2, -5))}, "no voxels"),
        ({"dim": dim((0, 8))}, "8 axes"),
        ({"dim": [4, 7, 3, 2, 5, 1, 1, 1]}, r"5 volumes .*\(7, 3, 2, 5\).*give one volume"),
        ({"dim": dim((3, 4))}, "holds more than the voxels"),
        ({"vox_offset": 1e30}, "vox_offset"),
        ({"vox_offset": 1e6}, "holds at most|ends .* before the end of its header extensions"),
        ({"vox_offset": 352.5}, "vox_offset"),
        ({"vox_offset": 368}, "ends 16 bytes before the end of its voxels|holds at most"),
        ({"datatype": 128}, "the type RGB"),
        ({"datatype": 12345}, r"the type unknown \(code 12345\)"),
        ({"scl_slope": 2.0, "scl_inter": np.nan}, "intercept"),
        ({"magic": b"ni1"}, "pair"),
        ({"magic": b""}, "ANALYZE 7.5"),
        ({"sizeof_hdr": 17}, "neither NIfTI nor MGH"),
        ({"sform_code": 0, "qform_code": 1, "quatern_b": 3.0}, "orientation"),
        ({"sform_code": 9}, "an unknown sform_code, 9"),
        ({"srow_x": [np.nan, 0, 0, 0]}, "orientation is invalid: not finite"),
    ],
)
def test_an_invalid_header_is_refused(
    tmp_path: Path, name: str, fields: dict[str, Any], message: str
) -> None:
    path = altered(tmp_path, name, **fields)
    with pytest.raises(FileError, match=message) as caught:
        read_volume(path)
    assert caught.value.path == str(path)
    assert caught.value.hint


# ── images in memory ─────────────────────────────────────────────────────────────────────────────


def test_arrays_are_volumes_without_a_place(tmp_path: Path) -> None:
    long = np.zeros((40_000, 1, 1), np.uint8)
    for array in (VOXELS, np.asfortranarray(VOXELS), VOXELS[::-1, :, ::2], VOXELS > 0, long):
        volume = read_volume(array)
        assert np.array_equal(volume.stored, array)
        assert not volume.placed
        assert np.shares_memory(volume.flat, volume.stored)
        assert array.flags.writeable
        write_volume(tmp_path / "x.nii", volume, volume.pieces(), force=True)
        assert np.array_equal(loaded(tmp_path / "x.nii").get_fdata(), array)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 3, 3, 2)), "2 volumes"),
        (np.array(1.0), "no voxels"),
        (np.zeros(3, complex), "complex128"),
    ],
)
def test_arrays_that_are_not_one_volume_are_refused(array: NDArray[Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        read_volume(array)


@each_format
def test_a_nibabel_image_reads_like_its_file(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / name)
    volume, direct = read_volume(loaded(path)), read_volume(path)
    assert np.array_equal(volume.stored, direct.stored)
    assert not isinstance(volume.stored.base, np.memmap)
    for source, target in ((volume, "a.nii"), (direct, "b.nii")):
        write_volume(tmp_path / target, source, source.pieces())
    assert (tmp_path / "a.nii").read_bytes() == (tmp_path / "b.nii").read_bytes()


def test_a_nibabel_image_may_be_scaled_and_moved(tmp_path: Path) -> None:
    image = loaded(altered(tmp_path, scl_slope=0.5, scl_inter=3.0))
    image.affine[0, 3] += 5
    moved = read_volume(image)
    assert (moved.slope, moved.inter) == (0.5, 3.0)
    write_volume(tmp_path / "moved.nii", moved, moved.pieces())
    after = loaded(tmp_path / "moved.nii")
    assert np.allclose(after.affine, image.affine)
    assert np.array_equal(after.get_fdata(), image.get_fdata())


@pytest.mark.parametrize(
    ("name", "kind", "files"),
    [
        ("a.b/x.mgz", ".mgh", ("a.b/x.mgz",)),
        ("X.NII.GZ", ".nii", ("X.NII.GZ",)),
        ("x.nii.bz2", ".bz2", ("x.nii.bz2",)),
    ],
)
def test_the_name_gives_the_format_and_the_files(
    name: str, kind: str, files: tuple[str, ...]
) -> None:
    assert kind_of(name) == kind
    assert files_of(name) == files
