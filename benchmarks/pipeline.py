"""Where the time of one scan goes: CPU time of each step, in milliseconds and in per cent.

Six scans of the demo at 1 mm are normalised to the reference of all of them. Compression and hashes
are unavoidable; fit, match and map are the mathematics. A second table lists the functions in which
the mathematics spends its time.

    python benchmarks/pipeline.py [--repetitions N] [--resolution MM] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from isal import igzip
from measuring import Table

from ndflow.demo.run import write_demo_study
from ndflow.density import Histogram, fit
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel, Solution, method_of
from ndflow.options import Options
from ndflow.population import reference as reference_of
from ndflow.subject.voxels import Voxels, count_voxels, mapped, read_voxels

MATHEMATICS = ("fit", "match and map")
AIM = 25.0  # milliseconds for the mathematics
EFFECTIVE_COUNT = Options().effective_count


class Stopwatch:
    """Collects the milliseconds of each step."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}

    def __call__(self, name: str, part: Callable[[], Any]) -> Any:
        begin = time.process_time()
        result = part()
        self.times.setdefault(name, []).append(1e3 * (time.process_time() - begin))
        return result


def read(file: Path) -> tuple[Voxels, Histogram]:
    subject = Subject(str(file))
    voxels = read_voxels(subject, max_bytes=Options().max_bytes)
    return voxels, count_voxels(subject, voxels).histogram


def model_of(histogram: Histogram) -> DensityModel:
    return DensityModel(fit(histogram, effective_count=EFFECTIVE_COUNT).mixture)


def solve(model: DensityModel, reference: DensityModel) -> Solution:
    options = Options()
    return method_of(options).solve(model, reference, options)


def scan_of(file: Path, reference: DensityModel, watch: Stopwatch) -> None:
    """Normalise one scan to a reference, step by step."""
    packed = file.read_bytes()
    watch("hash the input", lambda: hashlib.sha256(packed).digest())
    watch("decompress", lambda: read_volume(file))
    scan, histogram = watch("decompress and count", lambda: read(file))
    model = watch("fit", lambda: model_of(histogram))
    solution = watch("match and map", lambda: solve(model, reference))
    pieces = mapped(scan.volume, solution.imap, scan.inside, None, "float32")
    voxels = watch("look voxels up", lambda: np.concatenate(list(pieces)))
    packed = watch("compress", lambda: igzip.compress(voxels, 2))
    watch("hash the output", lambda: hashlib.sha256(packed).digest())


def profile(histograms: list[Histogram], reference: DensityModel) -> list[str]:
    """Return the functions in which the mathematics spends its time, without what they call."""
    profiler = cProfile.Profile()
    profiler.enable()
    for histogram in histograms:
        solve(model_of(histogram), reference)
    profiler.disable()
    stats: dict[Any, Any] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in stats.values())
    rows = sorted(((own, calls, where) for where, (_, calls, own, _, _) in stats.items()))[::-1]
    return [
        f"{_name(where)}|{calls / len(histograms):.0f}|{100 * own / total:.0f}"
        for own, calls, where in rows[:12]
    ]


def _name(where: tuple[str, int, str]) -> str:
    path, _, function = where
    inner = Path(path).as_posix().partition("/ndflow/")[2]
    return f"{inner}: {function}" if inner else function


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--resolution", type=float, default=1.0, help="mm, of the scans")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        write_demo_study(Path(scratch), resolution=given.resolution, subjects=2)
        files = sorted((Path(scratch) / "scans").glob("*_T1w.nii.gz"))
        scans = [read(file)[1] for file in files]
        reference = DensityModel(reference_of([model_of(s).mixture for s in scans]).mixture)
        scan_of(files[0], reference, Stopwatch())  # the first one has cold caches
        watch = Stopwatch()
        for _ in range(given.repetitions):
            for file in files:
                scan_of(file, reference, watch)
    medians = {name: statistics.median(times) for name, times in watch.times.items()}
    medians["count"] = medians.pop("decompress and count") - medians["decompress"]
    whole = sum(medians.values())
    rows = [f"{name}|{ms:.1f}|{100 * ms / whole:.0f}" for name, ms in medians.items()]
    mathematics = sum(medians[name] for name in MATHEMATICS)
    met = "met" if mathematics < AIM else "missed"
    note = f"fit, match and map: {mathematics:.1f} ms (aim: below {AIM:g}): {met}"
    tables = [
        Table("One scan of 1 mm, one core", "part|ms|%", [*rows, f"total|{whole:.1f}|100"], [note]),
        Table(
            "Inside fit, match and map",
            "function|calls per scan|% of the time",
            profile(scans, reference),
        ),
    ]
    print(*(table.text() for table in tables), sep="\n")
    if given.markdown:
        given.markdown.write_text("\n".join(table.markdown() for table in tables))


if __name__ == "__main__":
    main()
