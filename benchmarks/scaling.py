"""How ndflow scales: time and memory against voxels, scans and workers, and the cost of a start.

Every part is a table of medians over interleaved repetitions, each child on as many cores as it has
workers. CPU is user and system time of all threads, MB the peak memory of the main process.
"Others" is the number of cores that other processes kept busy at the same time: wall times are
meaningful only where it is near 0. Scans and results are written to a temporary folder.

    python benchmarks/scaling.py [--quick] [--only PART ...] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from measuring import ENVIRONMENT, Cost, Table, child, in_turns, ndflow

SMALL = (24, 28, 20)

# Runs tasks that do nothing; the first few start the workers.
NOTHING = """
import json, sys, time
from ndflow.study.tasks import run_in_workers
for count in (20, int(sys.argv[1])):
    wall, cpu = time.perf_counter(), time.process_time()
    scheduler = (sys.argv[2:] or [None])[0]
    work = run_in_workers(abs, range(count), jobs=2, killed=abs, scheduler=scheduler)
    assert len(list(work)) == count
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""


def head(path: Path, shape: Sequence[int], seed: int, dtype: str = "int16") -> Path:
    """Write a noisy ball of three tissues in smooth blobs, the same at any resolution."""
    generator = np.random.default_rng(seed)
    axes = (np.linspace(-1.1, 1.1, length, dtype=np.float32) for length in shape)
    x, y, z = np.meshgrid(*axes, indexing="ij", sparse=True)
    a, b, c = generator.uniform(2.5, 4.5, 3).astype(np.float32)
    radius = x**2 + y**2 + z**2
    kind = np.digitize(radius + 0.4 * np.sin(a * x) * np.sin(b * y) * np.cos(c * z), [0.4, 0.7])
    site = seed % 3
    means = np.array([1000, 700 + 40 * site, 300 + 30 * site], np.float32) * (1 + site)
    noise = generator.standard_normal(kind.shape, dtype=np.float32)
    values = np.where(radius < 1, means[kind] * (1 + 0.06 * noise), 0)
    volume = (np.rint(values) if dtype == "int16" else values).astype(dtype)
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), path)
    return path


def study(folder: Path, count: int, shape: Sequence[int] = SMALL) -> Path:
    for number in range(count):
        head(folder / f"site{number % 3}" / f"scan{number}.nii.gz", shape, number)
    return folder


def cohort(data: Path, *options: object, cores: int = 2) -> Cost:
    """Normalise all scans of a study to their own reference; the results are discarded."""
    with tempfile.TemporaryDirectory(dir=data.parent) as out:
        return ndflow(["cohort", data, f"{out}/out", *options], cores=cores)


def voxels(scratch: Path, quick: bool) -> Table:
    """Time against voxels."""
    sides = (32, 64, 96) if quick else (64, 96, 128, 192, 256, 320)
    kinds = [("int16", side) for side in sides]
    kinds += [("float32", side) for side in ((64,) if quick else (128, 256))]
    tiny, to = head(scratch / "tiny.nii.gz", SMALL, 0), scratch / "reference.json"
    ndflow(["reference", tiny, "-o", to])

    def normalise(image: Path) -> Cost:
        with tempfile.TemporaryDirectory(dir=scratch) as out:
            pair = [["normalise", i, "--to", to, "-o", f"{out}/{i.name}"] for i in (tiny, image)]
            return ndflow(*pair)

    work = {}
    for kind, side in kinds:
        image = head(scratch / f"{kind}{side}.nii.gz", (side,) * 3, 1, kind)
        work[kind, side] = partial(normalise, image)
    costs = in_turns(work, 1 if quick else 3)
    rows = [
        f"{side}³|{kind}|{side**3 / 1e6:.2f}|{cost.cpu_inside:.3f}|{cost.wall_inside:.3f}"
        f"|{1e9 * cost.cpu_inside / side**3:.1f}|{cost.megabytes:.0f}"
        for (kind, side), cost in costs.items()
    ]
    sizes = np.array(sides) ** 3.0
    seconds = np.array([costs["int16", side].cpu_inside for side in sides])
    power = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    each, fixed = line = np.polyfit(sizes, seconds, 1, w=1 / seconds)
    off = np.abs(np.polyval(line, sizes) / seconds - 1).max()
    return Table(
        "Time against voxels: normalise to a given reference, one core, without imports",
        "cube|type|Mvoxel|CPU s|wall s|ns/voxel|MB",
        rows,
        [
            f"int16: CPU ~ voxels^{power:.2f}; as a straight line {1e3 * fixed:.0f} ms and "
            f"{1e9 * each:.1f} ns per voxel, at most {off:.0%} off"
        ],
    )


def scans(scratch: Path, quick: bool) -> Table:
    """Time against scans."""
    sizes = (5, 20) if quick else (20, 200, 2000)
    work = {n: partial(cohort, study(scratch / f"in{n}", n), "-j", 2) for n in sizes}
    costs = in_turns(work, 1 if quick else 3)
    rows = [
        f"{size}|{cost.wall:.1f}|{cost.cpu_main:.2f}|{cost.cpu - cost.cpu_main:.2f}"
        f"|{1e3 * cost.wall / size:.1f}|{1e3 * cost.cpu / size:.1f}|{cost.megabytes:.1f}"
        f"|{cost.megabytes / costs[sizes[0]].megabytes:.3f}|{cost.others / cost.wall:.2f}"
        for size, cost in costs.items()
    ]
    notes = []
    for few, many in pairwise(sizes):
        wall, cpu = further(costs[few], costs[many], many - few, "wall", "cpu")
        notes.append(f"each scan from {few} to {many}: {wall:.1f} ms wall, {cpu:.1f} ms CPU")
    return Table(
        f"Time against scans: cohort of {'×'.join(map(str, SMALL))} volumes, 2 workers",
        "scans|wall s|CPU s main|CPU s workers|wall ms/scan|CPU ms/scan|MB main|ratio|others",
        rows,
        notes,
    )


def further(less: Cost, more: Cost, count: int, *figures: str) -> list[float]:
    """Return the milliseconds per additional scan; the cost of starting is in both runs."""
    return [1e3 * (getattr(more, name) - getattr(less, name)) / count for name in figures]


def workers(scratch: Path, quick: bool) -> Table:
    """One worker and two."""
    few, many, side = (3, 6, 48) if quick else (12, 120, 192)
    data = {size: study(scratch / f"in{size}", size, (side,) * 3) for size in (few, many)}
    runs = [(size, jobs) for size in (few, many) for jobs in (1, 2)]
    work = {(n, jobs): partial(cohort, data[n], "-j", jobs, cores=jobs) for n, jobs in runs}
    costs = in_turns(work, 1 if quick else 3)
    rows = [
        f"{size}|{jobs}|{cost.wall:.2f}|{cost.wall_inside:.2f}|{cost.cpu:.2f}"
        f"|{cost.cpu / cost.wall:.2f}|{cost.others / cost.wall:.2f}"
        f"|{costs[size, 1].wall / cost.wall:.2f}"
        f"|{costs[size, 1].wall_inside / cost.wall_inside:.2f}"
        for (size, jobs), cost in costs.items()
    ]
    one, two = (further(costs[few, j], costs[many, j], many - few, "wall")[0] for j in (1, 2))
    return Table(
        f"Workers: cohort of {side}³ volumes, one core per worker",
        "scans|workers|wall s|without imports|CPU s|cores|others|times as fast|without imports",
        rows,
        [
            f"each scan from {few} to {many}: {one:.0f} and {two:.0f} ms, {one / two:.2f} times",
            "aim: 1.8 times; imports of the main process are left out, those of workers are not",
        ],
    )


def start(_: Path, quick: bool) -> Table:
    """The cost of a start."""
    programs = {
        "nothing": ["-c", "pass"],
        "import numpy, scipy.special": ["-c", "import numpy, scipy.special"],
        "import ndflow": ["-c", "import ndflow"],
        "from ndflow import *": ["-c", "from ndflow import *"],
        "ndflow --help": ["-m", "ndflow", "--help"],
    }
    work = {name: partial(lambda words: child(words)[0], words) for name, words in programs.items()}
    in_turns(work, 1)  # fills the disk cache
    costs = in_turns(work, 3 if quick else 10)
    peer = costs["import numpy, scipy.special"]
    rows = [
        f"{name}|{cost.wall:.3f}|{cost.cpu:.3f}"
        f"|{cost.wall / peer.wall:.2f}|{cost.cpu / peer.cpu:.2f}"
        for name, cost in costs.items()
    ]
    return Table(
        "Start: a Python process that does only this, one core",
        "program|wall s|CPU s|wall ratio|CPU ratio",
        rows,
        ["aims: ndflow --help below 0.4 s; import ndflow at most 1.3 of numpy and scipy.special"],
    )


def dask(scratch: Path, quick: bool) -> Table:
    """A Dask cluster on this machine, beside joblib."""
    title = "Dask: a local cluster of 2 workers, beside joblib's 2"
    line = "what|wall s|CPU s main|CPU s scheduler|wall ms each|MB main"
    try:
        from distributed import LocalCluster
    except ImportError:
        return Table(title, line, ["Dask|not installed||||"])
    few, many, empty = (5, 20, 200) if quick else (20, 200, 2000)
    data = {size: study(scratch / f"in{size}", size) for size in (few, many)}

    def nothing(words: Sequence[object]) -> Cost:
        cost, said = child(["-c", NOTHING, empty, *words], 2)
        cost.wall_inside, cost.cpu_inside = json.loads(said)
        return cost

    # The scheduler runs in this process, which is otherwise idle.
    with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        options = {"joblib": ["-j", 2], "Dask": ["--scheduler", address]}
        work: dict[Any, Callable[[], Cost]] = {
            (name, size): partial(cohort, data[size], *options[name])
            for size in data
            for name in options
        }
        work["joblib", 0], work["Dask", 0] = partial(nothing, []), partial(nothing, [address])
        work["Dask", few]()  # unlike joblib's, its workers import once for all studies
        costs = in_turns(work, 1 if quick else 3)
    rows = [
        f"{name}: {f'{size} scans' if size else f'{empty} empty tasks'}|{cost.wall_inside:.2f}"
        f"|{cost.cpu_inside:.2f}|{cost.meanwhile:.2f}"
        f"|{1e3 * cost.wall_inside / (size or empty):.2f}"
        f"|{f'{cost.megabytes:.1f}' if size else '–'}"
        for (name, size), cost in costs.items()
    ]
    notes = []
    for name in options:
        figures = ("wall_inside", "cpu_inside", "meanwhile")
        each = further(costs[name, few], costs[name, many], many - few, *figures)
        words = "{:.1f} ms wall, {:.2f} ms CPU of the main process, {:.2f} ms of the scheduler"
        notes.append(f"{name}, each scan from {few} to {many}: {words.format(*each)}")
    return Table(title, line, rows, notes)


def evaluation(scratch: Path, quick: bool) -> Table:
    """Time of an evaluation against scans, with the default number of shuffles."""
    sizes = (9, 18) if quick else (68, 250, 500)
    costs = {}
    for count in sizes:  # once each: the study itself takes as long as its evaluation
        out, folder = scratch / f"out{count}", study(scratch / f"data{count}", count)
        ndflow(["cohort", folder, out, "--no-report", "-j", 2], cores=2)
        costs[count] = ndflow(["evaluate", out, "--no-report", "-j", 2], cores=2)
    rows = [
        f"{size}|{cost.wall:.1f}|{cost.cpu_main:.1f}|{cost.cpu - cost.cpu_main:.1f}"
        f"|{cost.megabytes:.0f}|{cost.others / cost.wall:.2f}"
        for size, cost in costs.items()
    ]
    notes = []
    for few, many in pairwise(sizes):
        wall, cpu = further(costs[few], costs[many], many - few, "wall", "cpu")
        notes.append(f"each scan from {few} to {many}: {wall:.0f} ms wall, {cpu:.0f} ms CPU")
    return Table(
        f"Evaluation of one study of {'×'.join(map(str, SMALL))} volumes, 2 workers",
        "scans|wall s|CPU s main|CPU s workers|MB main|others",
        rows,
        [*notes, "aims: at most 20 s for 68 scans, and 90 s for 500"],
    )


PARTS = {part.__name__: part for part in (voxels, scans, workers, start, dask, evaluation)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, once: to see that it works"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    given = parser.parse_args()
    os.environ.update(ENVIRONMENT)  # for the workers of a cluster
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} before\n")
    tables = []
    for name in given.only:
        with tempfile.TemporaryDirectory() as scratch:
            tables.append(PARTS[name](Path(scratch), given.quick))
        print(tables[-1].text(), flush=True)
    if given.markdown:
        given.markdown.write_text("\n".join(table.markdown() for table in tables))


if __name__ == "__main__":
    main()
