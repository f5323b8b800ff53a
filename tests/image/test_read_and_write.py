"""Images in and out, against nibabel: the same voxels, the same place, the same header."""

import gzip
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.freesurfer.mghformat import MGHHeader, MGHImage
from nibabel.nifti1 import Nifti1Extension, Nifti1Header, Nifti1Image, Nifti1Pair
from nibabel.nifti2 import Nifti2Image, Nifti2Pair
from numpy.typing import NDArray

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.read import read_volume
from ndflow.image.write import DTYPES, check_output, write_volume

SHAPE = (7, 6, 5)
AFFINE = np.array([[0, -1.5, 0.2, 10], [2, 0.1, 0, -20], [0, 0.3, 3, 30], [0, 0, 0, 1.0]])
VOXELS = np.random.default_rng(0).integers(-300, 3000, SHAPE).astype(np.int16)

FORMATS: dict[str, type[Any]] = {
    "x.nii": Nifti1Image,
    "x.nii.gz": Nifti1Image,
    "2.nii": Nifti2Image,
    "2.nii.gz": Nifti2Image,
    "x.hdr": Nifti1Pair,
    "x.img": Nifti1Pair,
    "x.img.gz": Nifti1Pair,
    "2.img": Nifti2Pair,
    "x.mgh": MGHImage,
    "x.mgz": MGHImage,
}
each_format = pytest.mark.parametrize("name", FORMATS)


def rigid() -> NDArray[np.float64]:
    """An affine that MGH can hold too: no shear."""
    turn = np.array([[0.0, -0.6, 0.8], [1, 0, 0], [0, 0.8, 0.6]])
    affine = np.eye(4)
    affine[:3, :3] = turn * [1.0, 2.0, 1.5]
    affine[:3, 3] = [10, -20, 30]
    return affine


def saved(path: Path, voxels: NDArray[Any] = VOXELS, **fields: Any) -> Path:
    """An image written by nibabel."""
    image = FORMATS.get(path.name, Nifti1Image)(voxels, rigid())
    for field, value in fields.items():
        image.header[field] = value
    nibabel.save(image, path)
    return path


def loaded(path: Path) -> Any:
    """An image read by nibabel, which would leave an .mgh file open."""
    return MGHImage.from_bytes(path.read_bytes()) if path.suffix == ".mgh" else nibabel.load(path)


@each_format
def test_the_voxels_are_those_that_nibabel_reads(tmp_path: Path, name: str) -> None:
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
    assert np.array_equal(np.concatenate(list(volume.pieces(17))), volume.flat)


@pytest.mark.parametrize("endianness", "<>")
@pytest.mark.parametrize("dtype", DTYPES)
def test_types_and_byte_orders(tmp_path: Path, dtype: str, endianness: str) -> None:
    extremes = np.zeros(8, np.dtype(dtype))
    info: Any = np.iinfo(dtype) if extremes.dtype.kind in "ui" else np.finfo(dtype)
    extremes[:4] = info.min, info.max, 1, 0
    header = Nifti1Header(endianness=endianness)
    header.set_data_dtype(dtype)
    image = Nifti1Image(extremes.reshape(2, 2, 2), np.eye(4), header)
    path = tmp_path / "x.nii.gz"
    nibabel.save(image, path)
    volume = read_volume(path)
    assert volume.stored.dtype == np.dtype(dtype).newbyteorder(endianness)
    assert np.array_equal(volume.stored, extremes.reshape(2, 2, 2))
    # And out again, as they came in.
    assert write_volume(tmp_path / "out.nii", volume, [volume.flat], dtype=dtype).clipped == 0
    written = loaded(tmp_path / "out.nii")
    assert written.header.endianness == endianness
    assert np.array_equal(np.asanyarray(written.dataobj), extremes.reshape(2, 2, 2))


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 6, 1), (4, 5, 6, 1, 1), (1, 1, 1)])
def test_axes_of_length_one_are_kept_in_the_shape_only(tmp_path: Path, shape: Any) -> None:
    path = saved(tmp_path / "x.nii.gz", np.ones(shape, np.uint8))
    volume = read_volume(path)
    assert volume.shape == shape
    assert volume.spatial_shape == shape[:3]
    write_volume(tmp_path / "y.nii.gz", volume, [volume.flat])
    assert loaded(tmp_path / "y.nii.gz").shape == shape


@pytest.mark.parametrize(
    ("slope", "inter", "expected"),
    [
        (0.5, 3.0, (0.5, 3.0)),
        (-2.0, 0.0, (-2.0, 0.0)),
        (0.0, 7.0, (1.0, 0.0)),
        (np.nan, 7.0, (1.0, 0.0)),
        (np.nan, np.nan, (1.0, 0.0)),
        (0.0, np.nan, (1.0, 0.0)),
        (np.inf, 0.0, (1.0, 0.0)),
    ],
)
def test_scaling(tmp_path: Path, slope: float, inter: float, expected: Any) -> None:
    path = altered(tmp_path, scl_slope=slope, scl_inter=inter)
    volume = read_volume(path)
    assert (volume.slope, volume.inter) == expected
    assert np.array_equal(volume.stored, VOXELS)
    values = np.concatenate(list(volume.pieces()))
    assert np.array_equal(values.reshape(SHAPE, order="F"), loaded(path).get_fdata())


def altered(folder: Path, name: str = "altered.nii", **fields: Any) -> Path:
    """A NIfTI file with fields that nibabel would not write."""
    content = saved(folder / "x.nii").read_bytes()
    header = Nifti1Header(content[:348])
    for field, value in fields.items():
        header[field] = value
    content = header.binaryblock + content[348:]
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    return path


AXES = [3, *SHAPE, 1, 1, 1, 1]


def dim(*changes: tuple[int, int]) -> list[int]:
    dims = list(AXES)
    for axis, length in changes:
        dims[axis] = length
    return dims


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dim": dim((1, 32767), (2, 32767), (3, 32767))}, "holds at most .* voxels would end at"),
        ({"dim": dim((1, 0))}, "no voxels"),
        ({"dim": dim((2, -5))}, "no voxels"),
        ({"dim": dim((1, -1), (2, 1), (3, 1))}, "no voxels"),
        ({"dim": dim((0, 0))}, "0 axes"),
        ({"dim": dim((0, -3))}, "-3 axes"),
        ({"dim": dim((0, 8))}, "8 axes"),
        ({"dim": [4, 7, 3, 2, 5, 1, 1, 1]}, r"5 volumes .*\(7, 3, 2, 5\).*give one volume"),
        ({"dim": [5, 7, 6, 1, 1, 5, 1, 1]}, "5 volumes"),
        ({"dim": dim((3, 4))}, "holds more than the voxels"),
        ({"vox_offset": 1e30}, "holds at most"),
        ({"vox_offset": 1e6}, "holds at most|ends .* before the end of its header extensions"),
        ({"vox_offset": -352}, "vox_offset"),
        ({"vox_offset": 100}, "vox_offset"),
        ({"vox_offset": 352.5}, "vox_offset"),
        ({"vox_offset": np.nan}, "vox_offset"),
        ({"vox_offset": np.inf}, "vox_offset"),
        ({"vox_offset": 368}, "ends 16 bytes before the end of its voxels|holds at most"),
        ({"datatype": 128}, "the type RGB"),
        ({"datatype": 2304}, "the type RGBA"),
        ({"datatype": 32}, "the type complex64"),
        ({"datatype": 1792}, "the type complex128"),
        ({"datatype": 1536}, "the type float128"),
        ({"datatype": 1}, "the type binary"),
        ({"datatype": 0}, "the type none"),
        ({"datatype": 12345}, r"the type unknown \(code 12345\)"),
        ({"scl_slope": 2.0, "scl_inter": np.nan}, "intercept"),
        ({"magic": b"ni1"}, "pair"),
        ({"magic": b"abc"}, "not NIfTI"),
        ({"magic": b""}, "ANALYZE 7.5"),
        ({"sizeof_hdr": 17}, "neither NIfTI nor MGH"),
        ({"sform_code": 0, "qform_code": 1, "quatern_b": 3.0}, "orientation"),
    ],
)
def test_a_header_that_makes_no_sense(
    tmp_path: Path, name: str, fields: dict[str, Any], message: str
) -> None:
    path = altered(tmp_path, name, **fields)
    with pytest.raises(FileError, match=message) as caught:
        read_volume(path)
    assert caught.value.path == str(path)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("dims", [7, 6, 0, 1], "no voxels"),
        ("dims", [7, 6, -5, 1], "no voxels"),
        ("dims", [30000, 30000, 30000, 1], "holds at most"),
        ("dims", [7, 6, 1, 5], "5 volumes"),
        ("type", 9, "RGB"),
        ("type", 7, "complex"),
        ("type", 99, "unknown"),
        ("version", 2, "neither NIfTI nor MGH"),
    ],
)
def test_a_header_of_mgh_that_makes_no_sense(
    tmp_path: Path, field: str, value: Any, message: str
) -> None:
    path = saved(tmp_path / "x.mgh")
    content = path.read_bytes()
    header = MGHHeader(content[:90], check=False)
    header[field] = value
    path.write_bytes(header.binaryblock[:90] + content[90:])
    with pytest.raises(FileError, match=message):
        read_volume(path)


@each_format
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / name)
    whole = path.read_bytes()
    footer = 20 if name == "x.mgh" else 0  # optional
    cuts = {0, 1, 3, 4, 100, 283, 347, 351, len(whole) // 2, len(whole) - footer - 1}
    for cut in sorted(cut for cut in cuts if cut < len(whole) - footer):
        path.write_bytes(whole[:cut])
        with pytest.raises(FileError):
            read_volume(path)


def test_padding_is_let_pass_and_anything_else_behind_the_voxels_is_not(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.nii")
    content = path.read_bytes()
    path.write_bytes(content + bytes(500))
    assert np.array_equal(read_volume(path).stored, VOXELS)
    path.write_bytes(content + bytes(500) + b"x")
    with pytest.raises(FileError, match="holds more than the voxels"):
        read_volume(path)


def test_a_pair_without_its_partner_or_half_compressed(tmp_path: Path) -> None:
    saved(tmp_path / "x.img")
    data = (tmp_path / "x.img").read_bytes()
    (tmp_path / "x.img").unlink()
    with pytest.raises(FileError, match="no such file"):
        read_volume(tmp_path / "x.hdr")
    (tmp_path / "x.img.gz").write_bytes(gzip.compress(data))
    for name in ("x.hdr", "x.img.gz"):
        volume = read_volume(tmp_path / name)
        assert np.array_equal(volume.stored, VOXELS)
        assert volume.files == (str(tmp_path / "x.hdr"), str(tmp_path / "x.img.gz"))


def test_what_is_no_image_at_all(tmp_path: Path) -> None:
    for content in (b"#!/bin/sh\n" * 100, b"{}", b"\x80\x04K\x01."):
        path = tmp_path / "x.nii"
        path.write_bytes(content)
        with pytest.raises(FileError):
            read_volume(path)
        (tmp_path / "x.nii.gz").write_bytes(gzip.compress(content))
        with pytest.raises(FileError):
            read_volume(tmp_path / "x.nii.gz")


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def rich_header() -> Nifti1Image:
    """An image with all that should survive."""
    image = Nifti1Image(VOXELS, AFFINE)
    image.set_sform(AFFINE, 4)
    image.set_qform(rigid(), 1)
    header = image.header
    header.set_xyzt_units("mm", "sec")
    header["descrip"], header["aux_file"], header["intent_name"] = b"a scan", b"aux", b"T1"
    header["cal_min"], header["cal_max"], header["toffset"] = 5, 500, 1.5
    header.set_dim_info(0, 1, 2)
    header.extensions.append(Nifti1Extension("comment", b"kept"))
    header.extensions.append(Nifti1Extension(2, bytes(range(1, 100))))
    return image


@pytest.mark.parametrize("source", ["x.nii", "x.nii.gz", "x.hdr"])
@pytest.mark.parametrize("target", ["y.nii", "y.nii.gz", "y.hdr", "y.img", "y.img.gz"])
def test_geometry_and_header_are_kept(tmp_path: Path, source: str, target: str) -> None:
    nibabel.save(rich_header(), tmp_path / source)
    volume = read_volume(tmp_path / source)
    values = np.random.default_rng(1).normal(size=VOXELS.size)
    assert write_volume(tmp_path / target, volume, np.array_split(values, 7)).clipped == 0
    before = loaded(tmp_path / source)
    after = loaded(tmp_path / target)
    written = np.asanyarray(after.dataobj)
    assert written.dtype == np.float32
    assert np.array_equal(written, values.astype(np.float32).reshape(SHAPE, order="F"))
    assert np.array_equal(before.affine, after.affine)
    for form in ("get_sform", "get_qform"):
        (a, code_a), (b, code_b) = (getattr(i, form)(coded=True) for i in (before, after))
        assert np.array_equal(a, b)
        assert code_a == code_b
    changed = {"datatype", "bitpix", "vox_offset", "magic", "cal_min", "cal_max"}
    scaling = {"scl_slope", "scl_inter"}
    for field in set(before.header.keys()) - changed - scaling:
        assert before.header[field].tobytes() == after.header[field].tobytes(), field
    assert (float(after.header["cal_min"]), float(after.header["cal_max"])) == (0.0, 0.0)
    assert [e.content.rstrip(b"\0") for e in after.header.extensions] == [
        b"kept",
        bytes(range(1, 100)),
    ]
    raw = (tmp_path / target).with_suffix(".hdr") if "img" in target else tmp_path / target
    if "gz" not in target:
        fields = Nifti1Header(raw.read_bytes()[:348], check=False)
        assert (float(fields["scl_slope"]), float(fields["scl_inter"])) == (1.0, 0.0)


@each_format
def test_every_format_becomes_every_other(tmp_path: Path, name: str) -> None:
    volume = read_volume(saved(tmp_path / name))
    for target in ("y.nii", "y.nii.gz", "z.hdr", "z.img.gz", "y.mgh", "y.mgz"):
        write_volume(tmp_path / target, volume, [volume.flat])
        after = loaded(tmp_path / target)
        assert np.array_equal(after.get_fdata(), VOXELS)
        assert np.allclose(after.affine, volume.affine, atol=1e-5)
        assert np.array_equal(read_volume(tmp_path / target).stored, VOXELS)
    if name.startswith("2"):
        assert isinstance(loaded(tmp_path / "y.nii"), Nifti2Image)


def test_the_footer_of_mgh_is_kept(tmp_path: Path) -> None:
    volume = read_volume(saved(tmp_path / "x.mgz", tr=2300.0, te=2.5, flip_angle=0.1))
    write_volume(tmp_path / "y.mgz", volume, [volume.flat], dtype="int16")
    header = loaded(tmp_path / "y.mgz").header
    assert [float(header[f]) for f in ("tr", "te", "flip_angle")] == pytest.approx([2300, 2.5, 0.1])


def test_what_mgh_cannot_hold_is_refused(tmp_path: Path) -> None:
    volume = read_volume(VOXELS)
    with pytest.raises(InvalidValueError, match="no float64"):
        write_volume(tmp_path / "y.mgz", volume, [volume.flat], dtype="float64")
    assert list(tmp_path.iterdir()) == []


def test_the_same_image_gives_the_same_bytes(tmp_path: Path) -> None:
    volume = read_volume(saved(tmp_path / "x.nii.gz"))
    values = np.random.default_rng(2).normal(size=VOXELS.size)
    for name, parts in (("a", 1), ("b", 5), ("c", VOXELS.size)):
        path = tmp_path / f"{name}.nii.gz"
        written = write_volume(path, volume, np.array_split(values, parts))
        assert written.sha256 == (hashlib.sha256(path.read_bytes()).hexdigest(),)
    first = (tmp_path / "a.nii.gz").read_bytes()
    assert first == (tmp_path / "b.nii.gz").read_bytes() == (tmp_path / "c.nii.gz").read_bytes()


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
def test_values_are_rounded_and_clipped_and_counted(
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


def test_writing_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    source = saved(tmp_path / "x.nii.gz")
    content = source.read_bytes()
    volume = read_volume(source)
    everything = [volume.flat]
    cases: list[tuple[str, list[NDArray[Any]], dict[str, Any], str]] = [
        ("x.nii.gz", everything, {"force": True}, "one of the inputs"),
        ("y.txt", everything, {}, "tells no image format"),
        ("no/y.nii", everything, {}, "no folder"),
        ("y.nii", [volume.flat[:-1]], {}, "1 fewer"),
        ("y.nii.gz", [volume.flat, volume.flat[:1]], {}, "more values"),
        ("y.nii", [volume.flat.astype(complex)], {}, "complex"),
        ("y.nii", everything, {"dtype": "complex64"}, "dtype must be one of"),
        ("y.nii", everything, {"dtype": "nonsense"}, "dtype must be one of"),
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


# ── images in memory ─────────────────────────────────────────────────────────────────────────────


def test_arrays(tmp_path: Path) -> None:
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
def test_arrays_that_are_no_image(array: NDArray[Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        read_volume(array)


@each_format
def test_images_of_nibabel_give_what_their_files_give(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / name)
    volume, direct = read_volume(loaded(path)), read_volume(path)
    assert np.array_equal(volume.stored, direct.stored)
    assert not isinstance(volume.stored, np.memmap)
    assert not isinstance(volume.stored.base, np.memmap)
    assert np.array_equal(volume.affine, direct.affine)
    for source, target in ((volume, "a.nii"), (direct, "b.nii")):
        write_volume(tmp_path / target, source, source.pieces())
    assert (tmp_path / "a.nii").read_bytes() == (tmp_path / "b.nii").read_bytes()


def test_an_image_with_scaling_and_another_place(tmp_path: Path) -> None:
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


# ── memory ───────────────────────────────────────────────────────────────────────────────────────

MEASURED = """
import sys
from pathlib import Path
import numpy as np
from ndflow.errors import FileError
from ndflow.image.read import read_volume
from ndflow.image.write import write_volume

def peak():  # not ru_maxrss, in which that of the parent lives on
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

before = peak()
try:
    volume = read_volume(sys.argv[1])
    write_volume(sys.argv[2], volume, (piece * np.float64(0.5) for piece in volume.pieces()))
except FileError as error:
    print(error, file=sys.stderr)
print(peak() - before)
"""


def cost(*arguments: object) -> int:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc to measure memory")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, arguments)], capture_output=True, check=True
    )
    return int(done.stdout)


@pytest.mark.parametrize("dtype", ["int16", "float32", "float64"])
def test_memory_of_reading_and_writing(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "x.nii.gz"
    array = np.zeros((224, 224, 128), dtype)
    array[::3, ::2] = 7
    volume = read_volume(array)
    write_volume(path, volume, volume.pieces(), dtype=dtype)
    used = cost(path, tmp_path / "out.nii.gz")
    assert array.nbytes <= used <= 2.5 * 4 * array.size


def test_a_small_file_with_a_large_header_costs_nothing(tmp_path: Path) -> None:
    header = Nifti1Header()
    header["dim"] = [3, 32767, 32767, 32767, 1, 1, 1, 1]
    header["magic"], header["vox_offset"] = b"n+1", 352
    path = tmp_path / "x.nii.gz"
    path.write_bytes(gzip.compress(header.binaryblock + bytes(4), mtime=0))
    assert path.stat().st_size < 100
    with pytest.raises(FileError, match="holds at most"):
        read_volume(path)
    assert cost(path, tmp_path / "out.nii") < 20 << 20


def test_a_bomb_behind_an_honest_header_costs_nothing(tmp_path: Path) -> None:
    content = saved(tmp_path / "x.nii").read_bytes()
    path = tmp_path / "bomb.nii.gz"
    path.write_bytes(gzip.compress(content + bytes(80 << 20), 1))
    with pytest.raises(FileError, match="--max-bytes"):
        read_volume(path, max_bytes=20 << 20)
    assert cost(path, tmp_path / "out.nii") < 20 << 20


@pytest.fixture
def scans() -> list[Path]:
    beside = Path(__file__).parents[3] / "shared" / "cohort"
    folder = Path(os.environ.get("NDFLOW_COHORT") or beside)
    if not folder.is_dir():
        pytest.skip("no cohort: NDFLOW_COHORT is not set, and there is none beside the project")
    return sorted(folder.glob("sub-*/anat/*_T1w.nii.gz"))[::20]


def test_real_scans_survive(tmp_path: Path, scans: list[Path]) -> None:
    for scan in scans:
        volume = read_volume(scan)
        out = tmp_path / scan.name
        assert write_volume(out, volume, volume.pieces(), dtype="int16").clipped == 0
        before = loaded(scan)
        after = loaded(out)
        assert np.array_equal(np.asanyarray(before.dataobj), np.asanyarray(after.dataobj))
        assert np.array_equal(before.affine, after.affine)
