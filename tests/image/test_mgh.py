"""MGH: invalid headers are refused, and only what FreeSurfer writes may follow the voxels."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files_on_disc import VOXELS, saved
from nibabel.freesurfer.mghformat import MGHHeader

from ndflow.errors import FileError
from ndflow.image.read import read_volume


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("dims", [7, 6, -5, 1], "no voxels"),
        ("dims", [30000, 30000, 30000, 1], "holds at most"),
        ("dims", [7, 6, 1, 5], "5 volumes"),
        ("type", 7, "the type unknown"),
        ("version", 2, "neither NIfTI nor MGH"),
        ("delta", 0.0, "orientation is invalid.*damaged"),
        ("Mdc", np.nan, "orientation is invalid.*damaged"),
        ("Pxyz_c", np.inf, "orientation is invalid.*damaged"),
    ],
)
def test_an_invalid_header_is_refused(tmp_path: Path, field: str, value: Any, message: str) -> None:
    path = saved(tmp_path / "x.mgh")
    content = path.read_bytes()
    header = MGHHeader(content[:90] + bytes(20), check=False)
    header[field] = value
    path.write_bytes(header.binaryblock[:90] + content[90:])
    with pytest.raises(FileError, match=message):
        read_volume(path)


def tag(number: int, content: bytes) -> bytes:
    """Return a tag of FreeSurfer, as its znzTAGwrite writes it."""
    return struct.pack(">iq", number, len(content)) + content


COMMAND = b"mri_convert --conform rawavg.mgz orig.mgz\0"
TAILS = {
    "nothing": b"",
    "four numbers": struct.pack(">4f", 2300.0, 0.157, 2.98, 900.0),
    "no tags": struct.pack(">5f", 2300.0, 0.157, 2.98, 900.0, 256.0),
    "padding": bytes(512),
    "command lines": bytes(20) + 40 * tag(3, COMMAND),
    "colour table": bytes(20) + struct.pack(">4i", 1, -2, 14, 4) + b"lut\0" + bytes(99_999),
    "old transform": bytes(20) + struct.pack(">2i", 30, 4) + b"a.xf",
}
SURPLUS = {
    "voxels": VOXELS.astype(">i2").tobytes(),
    "a footer, then voxels": bytes(20) + VOXELS.astype(">i2").tobytes(),
    "not a number": struct.pack(">5f", 1.0, np.nan, 1.0, 1.0, 1.0),
    "odd": b"abc",
    "a tag of an unknown number": bytes(20) + tag(4711, b"x"),
    "a volume of zeros": bytes(20 + 8192),
    "megabytes": bytes(20) + tag(3, COMMAND) + bytes(1 << 21),
}


@pytest.mark.parametrize("name", [*TAILS, *SURPLUS])
def test_a_footer_and_tags_may_follow_and_nothing_else(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / "x.mgh")
    path.write_bytes(path.read_bytes()[: 284 + VOXELS.nbytes] + (TAILS | SURPLUS)[name])
    if name in SURPLUS:
        with pytest.raises(FileError, match=r"holds more than the voxels.*its header is damaged"):
            read_volume(path)
        return
    np.testing.assert_array_equal(read_volume(path).stored, VOXELS)
