"""Reading volumes: the same voxels in the same place as with nibabel; damaged files are refused."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files_on_disc import SHAPE, VOXELS, altered, each_format, loaded, saved
from numpy.typing import NDArray

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.fingerprints import FileHash
from ndflow.files.stream import sha256_of
from ndflow.image.read import kind_of, pair_names, read_volume
from ndflow.image.write import write_volume


@each_format
def test_voxels_and_affine_are_those_that_nibabel_reads(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / name)
    volume = read_volume(path)
    assert volume.path == str(path)
    assert np.array_equal(volume.stored, VOXELS)
    assert volume.stored.dtype.name == "int16"
    assert (volume.slope, volume.inter) == (1.0, 0.0)
    assert np.array_equal(volume.affine, loaded(path).affine)
    assert volume.shape == volume.spatial_shape == SHAPE
    assert np.array_equal(volume.flat, VOXELS.ravel(order="F"))
    assert np.shares_memory(volume.flat, volume.stored)
    assert not volume.stored.flags.writeable
    assert np.array_equal(np.concatenate(list(volume.pieces())), volume.flat)


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 6, 1), (4, 5, 6, 1, 1), (1, 1, 1)])
def test_axes_of_length_one_are_kept(tmp_path: Path, shape: Any) -> None:
    path = saved(tmp_path / "x.nii.gz", np.ones(shape, np.uint8))
    volume = read_volume(path)
    assert volume.shape == shape
    assert volume.spatial_shape == shape[:3]
    write_volume(tmp_path / "y.nii.gz", volume, [volume.flat])
    assert loaded(tmp_path / "y.nii.gz").shape == shape


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


def test_both_files_of_a_pair_are_needed_and_hashed(tmp_path: Path) -> None:
    saved(tmp_path / "x.img")
    files = [tmp_path / "x.hdr", tmp_path / "x.img"]
    for name in files:
        volume = read_volume(name)
        assert np.array_equal(volume.stored, VOXELS)
        assert volume.files == tuple(FileHash(str(file), sha256_of(file)) for file in files)
    (tmp_path / "x.img").unlink()
    with pytest.raises(FileError, match="no such file"):
        read_volume(tmp_path / "x.hdr")


def test_other_files_are_refused(tmp_path: Path) -> None:
    for content in (b"#!/bin/sh\n" * 100, b"{}", b"\x80\x04K\x01."):
        path = tmp_path / "x.nii"
        path.write_bytes(content)
        with pytest.raises(FileError):
            read_volume(path)
        (tmp_path / "x.nii.gz").write_bytes(gzip.compress(content))
        with pytest.raises(FileError):
            read_volume(tmp_path / "x.nii.gz")


# ── images in memory ─────────────────────────────────────────────────────────────────────────────


def test_arrays_are_volumes_without_a_place(tmp_path: Path) -> None:
    for array in (VOXELS, np.asfortranarray(VOXELS), VOXELS[::-1, :, ::2], VOXELS > 0):
        volume = read_volume(array)
        assert np.array_equal(volume.stored, array)
        assert np.array_equal(volume.affine, np.eye(4))
        assert np.shares_memory(volume.flat, volume.stored)
        assert array.flags.writeable
        write_volume(tmp_path / "x.nii", volume, volume.pieces(), force=True)
        assert np.array_equal(loaded(tmp_path / "x.nii").get_fdata(), array)
    long = read_volume(np.zeros((40_000, 1, 1), np.uint8))
    write_volume(tmp_path / "long.nii", long, long.pieces())
    assert loaded(tmp_path / "long.nii").shape == (40_000, 1, 1)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 3, 3, 2)), "2 volumes"),
        (np.zeros((3, 0, 3)), "no voxels"),
        (np.array(1.0), "no voxels"),
        (np.zeros(3, complex), "complex128"),
        (np.zeros(3, object), "object"),
        (np.array(["a"]), "<U1"),
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
    assert not isinstance(volume.stored, np.memmap)
    assert not isinstance(volume.stored.base, np.memmap)
    assert np.array_equal(volume.affine, direct.affine)
    for source, target in ((volume, "a.nii"), (direct, "b.nii")):
        write_volume(tmp_path / target, source, source.pieces())
    assert (tmp_path / "a.nii").read_bytes() == (tmp_path / "b.nii").read_bytes()


def test_a_nibabel_image_may_be_scaled_and_moved(tmp_path: Path) -> None:
    image = loaded(altered(tmp_path, scl_slope=0.5, scl_inter=3.0))
    volume = read_volume(image)
    assert (volume.slope, volume.inter) == (0.5, 3.0)
    assert np.array_equal(volume.stored, VOXELS)
    image.affine[0, 3] += 5
    moved = read_volume(image)
    write_volume(tmp_path / "moved.nii", moved, moved.pieces())
    after = loaded(tmp_path / "moved.nii")
    assert np.allclose(after.affine, image.affine)
    assert np.array_equal(after.get_fdata(), image.get_fdata())


# ── names of files ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.nii", ".nii"),
        ("x.NII.GZ", ".nii"),
        ("a.b/x.mgz", ".mgh"),
        ("x.mgh.gz", ".mgh"),
        ("x.img.gz", ".img"),
        ("x.nii.bz2", ".bz2"),
        ("nii", ""),
    ],
)
def test_the_kind_is_the_extension_without_that_of_the_compression(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("x.hdr", ("x.hdr", "x.img")),
        ("x.img.gz", ("x.hdr.gz", "x.img.gz")),
        ("X.IMG", ("X.HDR", "X.IMG")),
        ("x.nii", None),
        ("x.mgz", None),
    ],
)
def test_header_and_data_have_the_same_stem(name: str, pair: tuple[str, str] | None) -> None:
    assert pair_names(name) == pair
