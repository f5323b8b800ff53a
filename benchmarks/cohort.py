"""Studies of 20, 200 and 2,000 small scans: memory of the main process, and time.

The main process should not grow with the study, and time should be linear in it. Run:
``python benchmarks/cohort.py [WORKERS]``.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nibabel
import numpy as np

SIZES = (20, 200, 2000)
SHAPE = (24, 28, 20)
MEASURED = """
import re, sys
from pathlib import Path
from ndflow.cli import main
code = main()
print(code, re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def scans(folder: Path, count: int) -> None:
    """Write small heads of three centres, each with a contrast of its own."""
    axes = np.meshgrid(*(np.linspace(-1.1, 1.1, length) for length in SHAPE), indexing="ij")
    radius = np.sqrt(sum(axis**2 for axis in axes))
    for number in range(count):
        centre = number % 3
        generator = np.random.default_rng(number)
        kind = np.digitize(radius + 0.05 * generator.standard_normal(SHAPE), [0.6, 0.85])
        means = np.array([1000.0, 700 + 40 * centre, 300 + 30 * centre]) * (1 + centre)
        values = means[kind] * (1 + 0.06 * generator.standard_normal(SHAPE))
        site = folder / f"centre{centre}"
        site.mkdir(parents=True, exist_ok=True)
        head = np.where(radius < 1, np.rint(values), 0).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(head, np.eye(4)), site / f"scan{number}.nii.gz")


def run(out: Path, data: Path, workers: str) -> tuple[float, float]:
    """Return seconds, and the most megabytes of the main process."""
    words = ["cohort", out, "--from-folder", data, "-j", workers, "-q"]
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
    )
    code, kilobytes = re.findall(r"\d+", done.stdout)
    assert code == "0", done.stderr
    return time.perf_counter() - begin, int(kilobytes) / 1024


def main() -> None:
    workers = sys.argv[1] if len(sys.argv) > 1 else "2"
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for size in SIZES:
            data = Path(scratch) / f"in{size}"
            scans(data, size)
            rows.append((size, *run(Path(scratch) / f"out{size}", data, workers)))
    least = rows[0][2]
    print(f"{workers} workers, volumes of {'×'.join(map(str, SHAPE))}")
    print(f"{'scans':>6} {'seconds':>8} {'ms/scan':>8} {'MB main':>8} {'ratio':>6}")
    for size, seconds, megabytes in rows:
        each = 1000 * seconds / size
        print(f"{size:6} {seconds:8.1f} {each:8.1f} {megabytes:8.1f} {megabytes / least:6.3f}")


if __name__ == "__main__":
    main()
