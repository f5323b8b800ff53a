"""Time and memory of child processes, measured in interleaved repetitions, and tables of them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

ALONE = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS"
ALONE += " ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS NDFLOW_NO_REPORT"
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
ENVIRONMENT = {**os.environ, **dict.fromkeys(ALONE.split(), "1")}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as on any machine

# Runs commands of ndflow in one process, and prints the cost of the last one. A first one on a tiny
# scan loads what is imported only when it is used.
COMMANDS = """
import json, re, resource, sys, time
from pathlib import Path
import ndflow.study.run, ndflow.subject.normalise
from ndflow.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    wall, cpu = time.perf_counter(), time.process_time()
    assert main() == 0, words
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
try:
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
except OSError:  # not Linux
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak /= 1024 if sys.platform == "darwin" else 1
print(json.dumps([wall, cpu, time.process_time(), peak / 1024]))
"""


@dataclass
class Cost:
    """The cost of a child process: times in seconds, and its peak memory.

    Attributes
    ----------
    wall, cpu : of the child and its own children.
    meanwhile : CPU time of this process, which may run a Dask scheduler, at the same time.
    others : CPU time of all other processes at the same time.
    wall_inside, cpu_inside : of the last command in the child's main process, without imports.
    cpu_main : CPU time of the child's main process.
    megabytes : its peak memory.
    """

    wall: float
    cpu: float
    meanwhile: float
    others: float
    wall_inside: float = 0.0
    cpu_inside: float = 0.0
    cpu_main: float = 0.0
    megabytes: float = 0.0


@dataclass
class Table:
    title: str
    head: str
    rows: list[str]
    notes: Sequence[str] = ()

    def lines(self) -> list[list[str]]:
        return [[cell.strip() for cell in line.split("|")] for line in (self.head, *self.rows)]

    def text(self) -> str:
        lines = self.lines()
        wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
        body = ["  ".join(map(str.rjust, line, wide)) for line in lines]
        return "\n".join([self.title, *body, *self.notes, ""])

    def markdown(self) -> str:
        first, *rest = self.lines()
        body = ["| " + " | ".join(line) + " |" for line in (first, ["--:"] * len(first), *rest)]
        return "\n".join(
            [f"### {self.title}", "", *body, "", *(f"{note}\n" for note in self.notes)]
        )


def child(words: Iterable[object], cores: int = 1) -> tuple[Cost, str]:
    """Run Python with these arguments; return its cost and what it printed."""
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        pin(CORES[:cores])
        begin, own, all_busy = time.perf_counter(), time.process_time(), busy()
        command = [sys.executable, *map(str, words)]
        process = subprocess.Popen(command, stdout=said, stderr=errors, env=ENVIRONMENT)
        _, status, usage = os.wait4(process.pid, 0)
        wall, own = time.perf_counter() - begin, time.process_time() - own
        pin(CORES)
        all_busy = busy() - all_busy
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        errors.seek(0)
        assert process.returncode == 0, errors.read()
        cpu = usage.ru_utime + usage.ru_stime
        return Cost(wall, cpu, own, max(0.0, all_busy - cpu - own)), said.read()


def busy() -> float:
    """Return the seconds that all cores were busy, or stolen by the hypervisor, since boot."""
    try:
        figures = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:  # not Linux
        return 0.0
    user, nice, system, _idle, _waiting, *rest = map(int, figures)
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def pin(cores: Sequence[int]) -> None:
    """Restrict this process, and children started from now on, to these cores."""
    if cores:
        os.sched_setaffinity(0, cores)


def ndflow(*commands: Sequence[object], cores: int = 1) -> Cost:
    words = [[*map(str, command), "-q"] for command in commands]
    cost, said = child(["-c", COMMANDS, json.dumps(words)], cores)
    return Cost(
        cost.wall, cost.cpu, cost.meanwhile, cost.others, *json.loads(said.splitlines()[-1])
    )


def in_turns(work: Mapping[Any, Callable[[], Cost]], times: int) -> dict[Any, Cost]:
    """Repeat everything, interleaved (A B C A B C), and return the median of each figure."""
    turns = [{name: astuple(part()) for name, part in work.items()} for _ in range(times)]
    return {
        name: Cost(*map(statistics.median, zip(*(turn[name] for turn in turns), strict=True)))
        for name in work
    }
