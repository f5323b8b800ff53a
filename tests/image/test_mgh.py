"""MGH headers: refused if invalid, and kept in new images; what may follow the voxels."""

import gzip
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from files_on_disc import VOXELS, altered, loaded, saved
from nibabel.freesurfer.mghformat import MGHHeader, MGHImage
from numpy.typing import NDArray
from phantoms import head

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.read import read_volume
from ndflow.image.write import write_volume


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("dims", [7, 6, 0, 1], "no voxels"),
        ("dims", [7, 6, -5, 1], "no voxels"),
        ("dims", [30000, 30000, 30000, 1], "holds at most"),
        ("dims", [7, 6, 1, 5], "5 volumes"),
        ("type", 7, "the type unknown"),
        ("version", 2, "neither NIfTI nor MGH"),
    ],
)
def test_an_invalid_header_is_refused(tmp_path: Path, field: str, value: Any, message: str) -> None:
    path = saved(tmp_path / "x.mgh")
    content = path.read_bytes()
    header = MGHHeader(content[:90], check=False)
    header[field] = value
    path.write_bytes(header.binaryblock[:90] + content[90:])
    with pytest.raises(FileError, match=message):
        read_volume(path)


def test_the_footer_is_kept(tmp_path: Path) -> None:
    volume = read_volume(saved(tmp_path / "x.mgz", tr=2300.0, te=2.5, flip_angle=0.1))
    write_volume(tmp_path / "y.mgz", volume, [volume.flat], dtype="int16")
    header = loaded(tmp_path / "y.mgz").header
    assert [float(header[f]) for f in ("tr", "te", "flip_angle")] == pytest.approx([2300, 2.5, 0.1])


def test_types_that_mgh_cannot_hold_are_refused(tmp_path: Path) -> None:
    volume = read_volume(VOXELS)
    with pytest.raises(InvalidValueError, match="cannot hold float64"):
        write_volume(tmp_path / "y.mgz", volume, [volume.flat], dtype="float64")
    assert list(tmp_path.iterdir()) == []


# ── what follows the voxels ──────────────────────────────────────────────────────────────────────


def tag(number: int, content: bytes, length: int | None = None) -> bytes:
    """Return a tag of FreeSurfer, as its znzTAGwrite writes it."""
    return struct.pack(">iq", number, len(content) if length is None else length) + content


def colour_table(entries: int) -> bytes:
    """Return a colour table, which is written without its length."""
    table = struct.pack(">4i", 1, -2, entries, 4) + b"lut\0" + struct.pack(">i", entries)
    for number in range(entries):
        table += struct.pack(">2i", number, 6) + b"label\0" + struct.pack(">4i", 1, 2, 3, 0)
    return table


COMMAND = b"mri_convert --conform rawavg.mgz orig.mgz\0"
MATRIX = b"AutoAlign" + b"   0.000000" * 16
TAILS = {
    "nothing": b"",
    "four numbers": struct.pack(">4f", 2300.0, 0.157, 2.98, 900.0),
    "no tags": struct.pack(">5f", 2300.0, 0.157, 2.98, 900.0, 256.0),
    "zeros": bytes(20),
    "end": bytes(24),
    "padding": bytes(512),
    "transform": bytes(20) + tag(31, b"/subjects/x/mri/transforms/talairach.xfm\0"),
    "old transform": bytes(20) + struct.pack(">2i", 30, 4) + b"a.xf",
    "command lines": bytes(20) + 40 * tag(3, COMMAND),
    "a missing NUL": bytes(20) + tag(3, COMMAND[:-1], len(COMMAND)),
    "colour table": bytes(20) + colour_table(2000),
    "all": bytes(20)
    + tag(41, b"UNKNOWN")
    + tag(42, MATRIX.ljust(11200, b"\0"))
    + tag(33, MATRIX)
    + tag(43, struct.pack("<f", 3.0))
    + 3 * tag(3, COMMAND)
    + bytes(4),
}


@pytest.mark.parametrize("tail", TAILS.values(), ids=list(TAILS))
@pytest.mark.parametrize("name", ["x.mgh", "x.mgz"])
def test_a_footer_and_the_tags_of_freesurfer_may_follow(
    tmp_path: Path, name: str, tail: bytes
) -> None:
    content = saved(tmp_path / "x.mgh").read_bytes()[: 284 + VOXELS.nbytes] + tail
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name == "x.mgz" else content)
    volume = read_volume(path)
    np.testing.assert_array_equal(volume.stored, VOXELS)
    assert float(volume.header["tr"]) == (2300.0 if tail[:1].strip(b"\0") else 0.0)


def test_a_file_of_freesurfer_is_read(tmp_path: Path) -> None:
    # One of two frames, as its header says; nibabel's own test file, written by mri_convert.
    content = gzip.decompress(
        (Path(nibabel.__file__).parent / "tests" / "data" / "test.mgz").read_bytes()
    )
    size = 3 * 4 * 5 * 4
    one = bytearray(content[: 284 + size] + content[284 + 2 * size :])
    struct.pack_into(">i", one, 16, 1)
    path = tmp_path / "one.mgh"
    path.write_bytes(one)
    assert read_volume(path).shape == (3, 4, 5)


SURPLUS = {
    "voxels": VOXELS.astype(">i2").tobytes(),
    "a footer, then voxels": bytes(20) + VOXELS.astype(">i2").tobytes(),
    "not a number": struct.pack(">5f", 1.0, np.nan, 1.0, 1.0, 1.0),
    "odd": b"abc",
    "a tag of an unknown number": bytes(20) + tag(4711, b"x"),
    "a tag too long": bytes(20) + tag(3, COMMAND, len(COMMAND) + 2),
    "a negative length": bytes(20) + tag(3, COMMAND, -5),
    "voxels after a tag": bytes(20) + tag(3, COMMAND) + VOXELS.astype(">i2").tobytes(),
    "a volume of zeros": bytes(20 + 8192),
    "megabytes": bytes(20) + tag(3, COMMAND) + bytes(1 << 21),
}


@pytest.mark.parametrize("tail", SURPLUS.values(), ids=list(SURPLUS))
def test_nothing_else_may_follow(tmp_path: Path, tail: bytes) -> None:
    path = saved(tmp_path / "x.mgh")
    path.write_bytes(path.read_bytes()[: 284 + VOXELS.nbytes] + tail)
    with pytest.raises(FileError, match=r"holds more than the voxels.*its header is damaged"):
        read_volume(path)


# ── one bit flipped ──────────────────────────────────────────────────────────────────────────────

FIELDS = range(4, 24)  # the bytes of the shape, the number of frames and the type
TYPES = ("uint8", "int16", "uint16", "int32", "float32")


def every_flip(voxels: NDArray[Any], tail: bytes) -> list[bytes]:
    content = bytearray(MGHImage(voxels, np.eye(4)).to_bytes()[: 284 + voxels.nbytes] + tail)
    flips = []
    for bit in (8 * at + bit for at in FIELDS for bit in range(8)):
        content[bit // 8] ^= 1 << bit % 8
        flips.append(bytes(content))
        content[bit // 8] ^= 1 << bit % 8
    return flips


@pytest.mark.parametrize("tail", ["nothing", "no tags", "all", "colour table"])
@pytest.mark.parametrize("dtype", TYPES)
def test_no_flipped_bit_of_shape_or_type_gives_another_volume(
    tmp_path: Path, dtype: str, tail: str
) -> None:
    brain = head()
    voxels = brain // 5 if dtype == "uint8" else brain
    path = tmp_path / "x.mgh"
    for content in every_flip(voxels.astype(dtype), TAILS[tail]):
        path.write_bytes(content)
        with pytest.raises(FileError):
            read_volume(path)


@pytest.mark.parametrize("dtype", TYPES)
def test_sound_voxels_of_any_type_are_read(tmp_path: Path, dtype: str) -> None:
    voxels = (head() // 5).astype(dtype)
    path = tmp_path / "x.mgh"
    path.write_bytes(MGHImage(voxels, np.eye(4)).to_bytes())
    np.testing.assert_array_equal(read_volume(path).stored, voxels)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_an_image_of_zeros_has_any_type(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "x.mgh"
    path.write_bytes(MGHImage(np.zeros((4, 4, 4), dtype), np.eye(4)).to_bytes())
    assert not read_volume(path).stored.any()


# ── orientation ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 0.0])
@pytest.mark.parametrize("field", ["delta", "Mdc", "Pxyz_c"])
def test_an_invalid_orientation_is_refused(tmp_path: Path, field: str, value: float) -> None:
    path = saved(tmp_path / "x.mgh")
    content = path.read_bytes()
    header = MGHHeader(content[:90] + bytes(20), check=False)
    header[field] = value
    path.write_bytes(header.binaryblock[:90] + content[90:])
    if field == "Pxyz_c" and value == 0:  # the scanner's own centre
        assert read_volume(path).shape == VOXELS.shape
        return
    with pytest.raises(FileError, match=r"orientation is invalid.*damaged"):
        read_volume(path)


@pytest.mark.parametrize("value", [np.inf, np.nan, 0.0])
def test_an_invalid_orientation_cannot_be_written(tmp_path: Path, value: float) -> None:
    volume = read_volume(altered(tmp_path, sform_code=1, qform_code=0))
    zero = volume.affine.copy()
    zero[:, 0] = value
    odd = replace(volume, affine=zero)
    with pytest.raises(InvalidValueError, match="valid orientation; write NIfTI"):
        write_volume(tmp_path / "y.mgz", odd, [odd.flat], dtype="int16")
