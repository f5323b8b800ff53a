"""Memory: a malicious file costs none; `tests/cli/test_scans.py` measures what a volume costs."""

import gzip
from pathlib import Path

import pytest
from commands import measured, needs_proc
from files_on_disc import saved
from nibabel.nifti1 import Nifti1Header

from ndflow.errors import FileError
from ndflow.image.read import read_volume


@needs_proc
def test_a_malicious_header_or_bomb_costs_no_memory(tmp_path: Path) -> None:
    header = Nifti1Header()
    header["dim"] = [3, 32767, 32767, 32767, 1, 1, 1, 1]
    header["magic"], header["vox_offset"] = b"n+1", 352
    small = saved(tmp_path / "x.nii")
    contents = {
        "header": (header.binaryblock + bytes(4), "holds at most"),
        "bomb": (small.read_bytes() + bytes(80 << 20), "max-bytes"),
    }
    paths = [small]
    for name, (content, message) in contents.items():
        path = tmp_path / f"{name}.nii.gz"
        path.write_bytes(gzip.compress(content, 1))
        with pytest.raises(FileError, match=message):
            read_volume(path, max_bytes=20 << 20)
        paths.append(path)
    runs = measured(*(["fit", path, "-o", f"{path}.json"] for path in paths))
    assert [code == 0 for code, _ in runs] == [True, False, True]  # zeros may follow the voxels
    assert runs[-1][1] - runs[0][1] < 20 << 20
