"""Six scans of 1 mm normalised by ndflow and by other packages: CPU time and memory compared.

    python benchmarks/rivals.py [--heads] [--repetitions N] [--only NAME...] [--markdown FILE]

Each tool is a process on one core (`rival_runs.py`) that reads the same files and writes as many
float32 .nii.gz. Repetitions are interleaved, and medians are shown. Time is CPU time of all
threads. The floor reads and writes with isal and does nothing in between: once it writes what
ndflow writes, once the scan that it has read. The other packages are installed in an environment of
their own, which is created if there is none (`rivals.txt`; the index is that of pip's settings).

The scans are those of the demo, brains without a head. With ``--heads`` they are surrounded by soft
tissue and noisy air, as in unprocessed scans, and every tool that takes a mask gets one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rival_setup import inputs, install, last_line

HERE = Path(__file__).resolve().parent
THREADS = ("OMP", "OPENBLAS", "MKL")
ONE_CORE = {f"{library}_NUM_THREADS": "1" for library in THREADS}
ONE_CORE["ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS"] = "1"
ENVIRONMENT = {**os.environ, **ONE_CORE, "NDFLOW_NO_REPORT": "1"}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as on any machine
FLOAT32 = 16  # the number that NIfTI has for it
HEADINGS = ("", "version", "CPU s/scan", "no imports", "× cohort", "peak MB", "MB/scan")


class Tool(NamedTuple):
    label: str
    kind: str  # floor, ours, Nyul, or other


TOOLS = {
    "floor": Tool("floor, float32 written", "floor"),
    "floor-int16": Tool("floor, int16 written", "floor"),
    "ndflow-normalise": Tool("ndflow normalise, reference given", "ours"),
    "ndflow-cohort": Tool("ndflow cohort, reference built", "ours"),
    "intensity-normalization": Tool("intensity-normalization Nyul", "Nyul"),
    "torchio": Tool("TorchIO HistogramStandardization", "Nyul"),
    "medpy": Tool("medpy IntensityRangeStandardization", "Nyul"),
    "simpleitk": Tool("SimpleITK HistogramMatching", "other"),
    "scikit-image": Tool("scikit-image match_histograms", "other"),
}


class Sample(NamedTuple):
    """One run, or the medians of several.

    Attributes
    ----------
    cpu, work : CPU seconds per scan, with and without imports.
    peak : peak memory, in megabytes.
    written : megabytes written per scan.
    """

    cpu: float
    work: float
    peak: float
    written: float


class FailedError(Exception):
    """A tool that could not be installed or run; the message is the last line it wrote."""


def run(python: Path, *words: object) -> tuple[dict[str, float], float]:
    """Run a tool; return what it reports, and its CPU seconds in total."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [python, HERE / "rival_runs.py", *map(str, words)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise FailedError(last_line(done.stderr))
    report = json.loads(last_line(done.stdout))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return report, cpu - report["aside"]


def measure(python: Path, name: str, out: Path, files: list[Path], *more: object) -> Sample:
    """Run a tool with an empty output folder, and check what it has written there."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    report, cpu = run(python, name, out, *files, *more)
    written = sorted(out.rglob("*.nii.gz"))
    if name != "floor-int16" and [shape_and_type(f) for f in written] != [
        (shape_and_type(f)[0], FLOAT32) for f in files
    ]:
        raise FailedError(f"did not write {len(files)} float32 volumes of the same shape")
    size = sum(file.stat().st_size for file in written) / len(files) / 1e6
    return Sample(cpu / len(files), report["work"] / len(files), report["peak"], size)


def shape_and_type(file: Path) -> tuple[tuple[int, ...], int]:
    with gzip.open(file) as packed:
        header = packed.read(348)
    return struct.unpack_from("<3h", header, 42), struct.unpack_from("<h", header, 70)[0]


def compare(
    arguments: argparse.Namespace, folder: Path
) -> tuple[dict[str, str], dict[str, list[Sample]], dict[str, str]]:
    """Return versions, samples, and reasons why there are none."""
    files, masks = inputs(folder, arguments.resolution, arguments.heads)
    names = [name for name in TOOLS if name in (arguments.only or TOOLS)]
    pythons = {name: Path(sys.executable) for name in names}
    reasons: dict[str, str] = {}
    if rivals := [name for name in names if TOOLS[name].kind in ("Nyul", "other")]:
        pythons |= dict.fromkeys(rivals, arguments.venv / "bin" / "python")
        try:
            failures = install(arguments.venv)
            reasons = {name: failures[name] for name in rivals if name in failures}
        except subprocess.CalledProcessError as error:
            reasons = dict.fromkeys(rivals, last_line(error.stderr))
    if hasattr(os, "sched_setaffinity"):  # children inherit it
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    table, reference = folder / "scans.tsv", folder / "reference.json"
    rows = zip(files, masks, strict=True) if masks else ((file,) for file in files)
    lines = ["image\tmask" if masks else "image", *("\t".join(map(str, row)) for row in rows)]
    table.write_text("\n".join(lines) + "\n")
    reference.unlink(missing_ok=True)
    given = ["--reference", reference, "--table", table, *(["--masks", *masks] if masks else [])]
    raw: list[Path] = []
    try:
        run(Path(sys.executable), "ndflow-reference", folder, *files, *given)
        measure(Path(sys.executable), "ndflow-normalise", folder / "expected", files, *given)
        raw = [unpacked(folder / "expected" / file.name) for file in files]
    except FailedError as error:
        reasons |= dict.fromkeys({"floor", "ndflow-normalise"} & set(names), str(error))

    versions: dict[str, str] = {}
    for name in names:  # also compiles and caches what is imported
        try:
            if name not in reasons:
                versions[name] = str(run(pythons[name], name)[0]["version"])
        except FailedError as error:
            reasons[name] = str(error)
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    for turn in range(arguments.repetitions):
        for name in names:
            if name not in reasons:
                print(f"{turn + 1}/{arguments.repetitions} {name}", file=sys.stderr)
                more = [*given, "--raw", *raw] if name == "floor" else given
                try:
                    samples[name].append(measure(pythons[name], name, folder / name, files, *more))
                except FailedError as error:
                    reasons[name] = str(error)
    return versions, samples, reasons


def unpacked(file: Path) -> Path:
    raw = file.with_suffix("").with_suffix(".raw")
    with gzip.open(file) as packed, raw.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    return raw


def table(
    versions: dict[str, str], medians: dict[str, Sample], reasons: dict[str, str]
) -> list[list[str]]:
    rows = [list(HEADINGS)]
    cohort = medians.get("ndflow-cohort")
    for name in [name for name in TOOLS if name in medians or name in reasons]:
        row = [TOOLS[name].label, versions.get(name, "–")]
        if name in reasons:
            row += [f"not run: {reasons[name]}", *[""] * 4]
        else:
            s = medians[name]
            ratio = f"{s.cpu / cohort.cpu:.2f}" if cohort else "–"
            row += [f"{s.cpu:.3f}", f"{s.work:.3f}", ratio, f"{s.peak:.0f}", f"{s.written:.1f}"]
        rows.append(row)
    return rows


def bars(medians: dict[str, Sample]) -> list[str]:
    """What issue 7 asks for, and whether it is so."""
    lines = []

    def line(what: str, value: float, bar: float, most: bool = True) -> None:
        met = "met" if (value <= bar if most else value >= bar) else "missed"
        sense = "at most" if most else "at least"
        lines.append(f"{what}: {value:.2f} ({sense} {bar:g}): {met}")

    def of_kind(*kinds: str) -> list[str]:
        return [name for name in medians if TOOLS[name].kind in kinds]

    for floor in of_kind("floor"):
        if ours := medians.get("ndflow-normalise"):
            what = f"(1) normalise, without imports, to {TOOLS[floor].label}"
            line(what, ours.work / medians[floor].work, 1.4)
    if of_kind("Nyul") and "ndflow-cohort" in medians:
        fastest = min(of_kind("Nyul"), key=lambda name: medians[name].cpu)
        ratio = medians[fastest].cpu / medians["ndflow-cohort"].cpu
        line(f"(2) the fastest Nyul ({fastest}) to cohort, with imports", ratio, 3, most=False)
    if rivals := of_kind("Nyul", "other"):
        least = min(rivals, key=lambda name: medians[name].peak)
        for ours in of_kind("ours"):
            ratio = medians[ours].peak / medians[least].peak
            line(f"(3) peak memory, {ours} to the most frugal rival ({least})", ratio, 0.5)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--heads", action="store_true", help="whole heads, with masks")
    parser.add_argument("--only", nargs="+", choices=TOOLS, metavar="NAME", help=", ".join(TOOLS))
    parser.add_argument("--venv", type=Path, default=HERE.parent / ".rivals", help="of the rivals")
    parser.add_argument("--keep", type=Path, help="a folder for scans and results, used again")
    parser.add_argument("--markdown", type=Path, help="write the table here too")
    parser.add_argument("--resolution", type=float, default=1.0, help="mm, of the scans")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.keep or Path(scratch)).resolve()
        versions, samples, reasons = compare(arguments, folder)
    done = {name: runs for name, runs in samples.items() if runs and name not in reasons}
    medians = {
        name: Sample(*map(statistics.median, zip(*runs, strict=True)))
        for name, runs in done.items()
    }
    rows = table(versions, medians, reasons)
    what = "whole heads" if arguments.heads else "brains"
    spreads = {n: max(r)[0] / min(r)[0] - 1 for n, r in done.items()}
    shakiest = max(spreads, key=spreads.__getitem__, default="none")
    notes = [
        f"Six {what} at {arguments.resolution:g} mm, one core each, medians of "
        f"{arguments.repetitions}. Between repetitions, CPU time differs by up to "
        f"{100 * spreads.get(shakiest, 0):.0f} % ({shakiest}).",
        *bars(medians),
    ]
    whole = [row for row in rows if not row[2].startswith("not run")]
    widths = [max(len(r[c]) for r in (rows if c < 2 else whole)) for c in range(len(HEADINGS))]
    for row in rows:
        start, *rest = (cell.ljust(w) for cell, w in zip(row[:2], widths, strict=False))
        numbers = (cell.rjust(w) for cell, w in zip(row[2:], widths[2:], strict=True))
        print("  ".join([start, *rest, *numbers]).rstrip())
    print("", *notes, sep="\n")
    if arguments.markdown:
        cells = [rows[0], ["---", "---", *["--:"] * 5], *rows[1:]]
        lines = [f"| {' | '.join(row)} |" for row in cells]
        arguments.markdown.write_text("\n".join([*lines, "", *(f"- {n}" for n in notes), ""]))


if __name__ == "__main__":
    main()
