"""Memory: a volume costs little more than its voxels, and a malicious file costs none."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from files_on_disc import saved
from nibabel.nifti1 import Nifti1Header

from ndflow.errors import FileError
from ndflow.image.read import read_volume
from ndflow.image.write import write_volume

MEASURED = """
import sys
from pathlib import Path
import numpy as np
from ndflow.errors import FileError
from ndflow.image.read import read_volume
from ndflow.image.write import write_volume

def peak():  # not ru_maxrss, which includes that of the parent process
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


@pytest.mark.parametrize("dtype", ["int16", "float64"])
def test_reading_and_writing_cost_little_more_than_the_voxels(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "x.nii.gz"
    array = np.zeros((224, 224, 96), dtype)
    array[::3, ::2] = 7
    volume = read_volume(array)
    write_volume(path, volume, volume.pieces(), dtype=dtype)
    used = cost(path, tmp_path / "out.nii.gz")
    assert array.nbytes <= used <= 2.5 * 4 * array.size


def test_a_malicious_header_or_bomb_costs_no_memory(tmp_path: Path) -> None:
    header = Nifti1Header()
    header["dim"] = [3, 32767, 32767, 32767, 1, 1, 1, 1]
    header["magic"], header["vox_offset"] = b"n+1", 352
    bomb = saved(tmp_path / "x.nii").read_bytes() + bytes(80 << 20)
    path = tmp_path / "x.nii.gz"
    for content, message in ((header.binaryblock + bytes(4), "holds at most"), (bomb, "max-bytes")):
        path.write_bytes(gzip.compress(content, 1))
        with pytest.raises(FileError, match=message):
            read_volume(path, max_bytes=20 << 20)
        assert cost(path, tmp_path / "out.nii") < 20 << 20
