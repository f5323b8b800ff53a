"""MGH headers: refused if invalid, and kept in new images."""

from pathlib import Path
from typing import Any

import pytest
from files_on_disc import VOXELS, loaded, saved
from nibabel.freesurfer.mghformat import MGHHeader

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
        ("type", 9, "RGB"),
        ("type", 7, "complex"),
        ("type", 99, "unknown"),
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
