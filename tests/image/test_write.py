"""Writing volumes: in every format and type, reproducibly, and complete or not at all."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from files_on_disc import SHAPE, VOXELS, each_format, loaded, rigid, saved
from nibabel.nifti1 import Nifti1Extension, Nifti1Image
from nibabel.nifti2 import Nifti2Image
from numpy.typing import NDArray
from phantoms import nifti
from studies import sha256

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.read import read_volume
from ndflow.image.write import make_image, write_volume


@each_format
def test_every_format_is_written_as_nifti(tmp_path: Path, name: str) -> None:
    volume = read_volume(saved(tmp_path / name))
    for target in ("y.nii", "y.nii.gz"):
        write_volume(tmp_path / target, volume, [volume.flat])
        after = loaded(tmp_path / target)
        assert np.array_equal(after.get_fdata(), VOXELS)
        assert np.allclose(after.affine, volume.affine, atol=1e-5)
        assert np.array_equal(read_volume(tmp_path / target).stored, VOXELS)
    if name.startswith("2"):
        assert isinstance(loaded(tmp_path / "y.nii"), Nifti2Image)


def test_the_same_image_has_the_same_content_and_its_hash(tmp_path: Path) -> None:
    volume = read_volume(saved(tmp_path / "x.nii.gz"))
    values = np.random.default_rng(2).normal(size=VOXELS.size)
    for name, parts in (("a", 1), ("b", 5), ("c", VOXELS.size)):
        path = tmp_path / f"{name}.nii.gz"
        written = write_volume(path, volume, np.array_split(values, parts))
        assert written.sha256 == {path: sha256(path)} == {path: sha256(tmp_path / "a.nii.gz")}


# ── headers ──────────────────────────────────────────────────────────────────────────────────────

CHANGED = {"datatype", "bitpix", "vox_offset", "magic", "cal_min", "cal_max"}
CHANGED |= {"scl_slope", "scl_inter"}  # nibabel sets them to NaN when it reads
AFFINE = np.array([[0, -1.5, 0.2, 10], [2, 0.1, 0, -20], [0, 0.3, 3, 30], [0, 0, 0, 1.0]])


@pytest.mark.parametrize(("source", "target"), [("x.nii.gz", "y.nii"), ("x.nii", "y.nii.gz")])
def test_geometry_and_header_are_kept(tmp_path: Path, source: str, target: str) -> None:
    image = Nifti1Image(VOXELS, AFFINE)
    image.set_sform(AFFINE, 4)
    image.set_qform(rigid(), 1)
    header = image.header
    header.set_xyzt_units("mm", "sec")
    header["descrip"], header["aux_file"], header["intent_name"] = b"a scan", b"aux", b"T1"
    header["cal_min"], header["cal_max"], header["toffset"] = 5, 500, 1.5
    header.set_dim_info(0, 1, 2)
    header.extensions.append(Nifti1Extension("comment", b"kept"))
    header.extensions.append(Nifti1Extension(2, bytes(range(1, 100))))  # no DICOM, as it claims
    nibabel.save(image, tmp_path / source)
    volume = read_volume(tmp_path / source)
    values = np.random.default_rng(1).normal(size=VOXELS.size)
    assert write_volume(tmp_path / target, volume, np.array_split(values, 7)).clipped == 0
    before, after = loaded(tmp_path / source), loaded(tmp_path / target)
    written = np.asanyarray(after.dataobj)
    assert written.dtype == np.float32
    assert np.array_equal(written, values.astype(np.float32).reshape(SHAPE, order="F"))
    for field in sorted(set(header.keys()) - CHANGED):
        assert before.header[field].tobytes() == after.header[field].tobytes(), field
    assert (float(after.header["cal_min"]), float(after.header["cal_max"])) == (0.0, 0.0)
    contents = [e.content.rstrip(b"\0") for e in after.header.extensions]
    assert contents == [b"kept", bytes(range(1, 100))]


def test_new_voxels_do_not_have_the_scaling_of_the_old(tmp_path: Path) -> None:
    (tmp_path / "x.nii").write_bytes(nifti(VOXELS, scl_slope=2.0, scl_inter=10.0))
    volume = read_volume(tmp_path / "x.nii")
    write_volume(tmp_path / "y.nii", volume, [volume.values(volume.flat)])
    assert np.array_equal(loaded(tmp_path / "y.nii").get_fdata(), 2.0 * VOXELS + 10)


# ── types ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "dtype", "expected", "count"),
    [
        ([-1.0, 0.5, 1.5, 2.4, 255.4, 255.6, 1e30], "uint8", [0, 0, 2, 2, 255, 255, 255], 3),
        ([np.nan, np.inf, -np.inf], "uint8", [0, 255, 0], 3),
        ([-32768.4, -32769.0, 32767.0, 40000.0], "int16", [-32768, -32768, 32767, 32767], 2),
        ([2.0**63, -(2.0**63), 1e300], "int64", [2**63 - 1, -(2**63), 2**63 - 1], 2),
        ([2.0**64, -1.0, 2.0**63], "uint64", [2**64 - 1, 0, 2**63], 2),
        ([1e30, 1e300, -1e300], "float32", [1e30, 3.4028235e38, -3.4028235e38], 2),
        ([np.inf, -0.0, np.nan], "float32", [np.inf, -0.0, np.nan], 0),
        ([1e300, -np.inf], "float64", [1e300, -np.inf], 0),
        (np.array([300, -5, 7], np.int16), "uint8", [255, 0, 7], 2),
        (np.array([2**64 - 1, 5], np.uint64), "int64", [2**63 - 1, 5], 1),
        (np.array([2**53 + 1, -(2**63)], np.int64), "int64", [2**53 + 1, -(2**63)], 0),
        (np.array([-(2**63), 9], np.int64), "uint64", [0, 9], 1),
        (np.array([True, False]), "int8", [1, 0], 0),
    ],
)
def test_values_are_rounded_and_clipped_values_counted(
    tmp_path: Path, values: Any, dtype: str, expected: list[Any], count: int
) -> None:
    volume = read_volume(np.zeros(len(values), np.int16))
    done = write_volume(tmp_path / "x.nii", volume, [np.asarray(values)], dtype=dtype)
    assert done.clipped == count
    written = read_volume(tmp_path / "x.nii").flat
    assert written.tobytes() == np.array(expected, dtype).tobytes()


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


def test_a_refused_image_leaves_no_trace(tmp_path: Path) -> None:
    source = saved(tmp_path / "x.nii.gz")
    content = source.read_bytes()
    volume = read_volume(source)
    everything = [volume.flat]
    cases: list[tuple[str, list[NDArray[Any]], dict[str, Any], str]] = [
        ("x.nii.gz", everything, {"force": True}, "one of the inputs"),
        ("y.mgz", everything, {}, "does not end like that of a NIfTI image"),
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


# ── in memory ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["x.nii", "2.nii"])
def test_an_image_in_memory_equals_the_file(tmp_path: Path, name: str) -> None:
    volume = read_volume(saved(tmp_path / name))
    written = write_volume(tmp_path / f"y{name}", volume, [volume.flat], dtype="uint8")
    image, clipped = make_image(volume, [volume.flat], dtype="uint8")
    expected = loaded(tmp_path / f"y{name}")
    assert type(image) is type(expected)
    assert clipped == written.clipped == np.count_nonzero((VOXELS < 0) | (VOXELS > 255))
    assert np.array_equal(np.asanyarray(image.dataobj), np.asanyarray(expected.dataobj))
    assert np.array_equal(image.affine, expected.affine)
