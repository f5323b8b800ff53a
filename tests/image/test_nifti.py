"""NIfTI headers: read as nibabel reads them, refused if invalid, and kept in new images."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from files_on_disc import SHAPE, VOXELS, altered, loaded, rigid
from nibabel.nifti1 import Nifti1Extension, Nifti1Header, Nifti1Image

from ndflow.errors import FileError
from ndflow.image.read import read_volume
from ndflow.image.write import write_volume

DTYPES = ("float32", "float64", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)))
AFFINE = np.array([[0, -1.5, 0.2, 10], [2, 0.1, 0, -20], [0, 0.3, 3, 30], [0, 0, 0, 1.0]])


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("endianness", "<>")
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_types_and_byte_orders_survive(tmp_path: Path, dtype: str, endianness: str) -> None:
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
    assert write_volume(tmp_path / "out.nii", volume, [volume.flat], dtype=dtype).clipped == 0
    written = loaded(tmp_path / "out.nii")
    assert written.header.endianness == endianness
    assert np.array_equal(np.asanyarray(written.dataobj), extremes.reshape(2, 2, 2))


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
def test_the_scaling_is_that_of_nibabel(
    tmp_path: Path, slope: float, inter: float, expected: Any
) -> None:
    path = altered(tmp_path, scl_slope=slope, scl_inter=inter)
    volume = read_volume(path)
    assert (volume.slope, volume.inter) == expected
    assert np.array_equal(volume.stored, VOXELS)
    values = np.concatenate(list(volume.pieces()))
    assert np.array_equal(values.reshape(SHAPE, order="F"), loaded(path).get_fdata())


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
        ({"vox_offset": 1e30}, "vox_offset"),
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
        ({"magic": b"abc"}, "its magic is b'abc'"),
        ({"magic": b""}, "ANALYZE 7.5"),
        ({"sizeof_hdr": 17}, "neither NIfTI nor MGH"),
        ({"sform_code": 0, "qform_code": 1, "quatern_b": 3.0}, "orientation"),
        ({"sform_code": 9}, "an unknown sform_code, 9"),
        ({"sform_code": -1}, "an unknown sform_code, -1"),
        ({"sform_code": 0, "qform_code": 7}, "an unknown qform_code, 7"),
        ({"srow_x": [np.nan, 0, 0, 0]}, "orientation is invalid: not finite"),
        ({"srow_y": [0, np.inf, 0, 0]}, "orientation is invalid: not finite"),
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


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def rich_header() -> Nifti1Image:
    """Return an image with everything that should survive."""
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
