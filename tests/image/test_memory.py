"""Memory: a malicious file costs none; `tests/cli/test_scans.py` measures what a volume costs."""

import gzip
from pathlib import Path
from random import Random

import numpy as np
import pytest
from commands import measured, needs_proc
from files_on_disc import saved
from nibabel.nifti1 import Nifti1Header

from ndflow.errors import FileError
from ndflow.image.mask import read_mask
from ndflow.image.read import read_grid, read_volume


def test_a_volume_much_larger_than_its_file_is_refused_before_it_is_decompressed(
    tmp_path: Path,
) -> None:
    header = Nifti1Header()
    header["dim"] = [3, 800, 800, 800, 1, 1, 1, 1]
    header["datatype"], header["bitpix"] = 2, 8
    header["magic"], header["vox_offset"] = b"n+1", 352
    path = tmp_path / "x.nii.gz"  # cut short, which would be noticed if its voxels were read
    path.write_bytes(gzip.compress(header.binaryblock + bytes(4) + Random(0).randbytes(600_000), 1))
    with pytest.raises(FileError, match=r"times those of the file.*decompress"):
        read_volume(path)
    with pytest.raises(FileError, match=r"shape \(800, 800, 800\), but the image \(3, 4, 5\)"):
        read_mask(path, read_volume(np.ones((3, 4, 5))))
    with pytest.raises(FileError, match="cut short"):
        read_mask(path, read_grid(path))  # masks of any size compress as well


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
