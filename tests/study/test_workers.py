"""Workers that are killed, and workers that are stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from commands import wait_until

from ndflow.study.tasks import Task, run_in_workers, run_tasks


def tasks(*numbers: int) -> list[Task]:
    return [Task(f"scan{number}", {"number": number}) for number in numbers]


def nobody(task: Any) -> Any:
    pytest.fail(f"{task} was given up")


# ── killed ────────────────────────────────────────────────────────────────────────────────────────


def dying(folder: Path) -> Callable[[int], int]:
    """Return a task whose process always dies at 3 and 8, and at 5 the first time."""

    def work(number: int) -> int:
        with (folder / f"{number}").open("a") as tries:
            tries.write(".")
        first = (folder / f"{number}").stat().st_size == 1
        if number == 2:
            wait_until((folder / "3").exists)  # so that 5 is not begun when 3 dies
        if number in (3, 8) or (number == 5 and first):
            os.kill(os.getpid(), signal.SIGKILL)
        return number**2

    return work


def test_a_worker_that_is_killed_is_tried_again_and_costs_its_scan_only(tmp_path: Path) -> None:
    listed = tasks(2, 3, 4, 5, 6, 7, 8, 9)
    outcomes = list(run_tasks(dying(tmp_path), listed, jobs=2))
    assert [outcome.scan for outcome in outcomes] == [task.scan for task in listed]
    assert [outcome.result for outcome in outcomes] == [4, None, 16, 25, 36, 49, None, 81]
    for outcome in outcomes:
        if outcome.failure is not None:
            assert "killed, twice" in outcome.failure.cause
            assert "--jobs" in outcome.failure.hint


# ── stopped ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Callable[[], list[int]]]:
    """Return a function that lists the workers of `sleeping` that are alive."""

    def alive() -> list[int]:
        return [number for path in tmp_path.glob("*.pid") if is_alive(number := int(path.stem))]

    yield alive
    for number in alive():
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def sleeping(folder: Path) -> Callable[[int], int]:
    """Return a task that sleeps for ten minutes in its worker, except for number 0."""

    def work(number: int) -> int:
        if number:
            (folder / f"{os.getpid()}.pid").touch()
            time.sleep(600)
        return number

    return work


def test_workers_are_killed_when_nobody_wants_their_results(
    tmp_path: Path, processes: Callable[[], list[int]]
) -> None:
    results = run_in_workers(sleeping(tmp_path), [0, 1, 2, 3], jobs=2, killed=nobody)
    assert next(results) == (0, 0)
    wait_until(lambda: len(processes()) == 2)
    results.close()
    wait_until(lambda: processes() == [])


INTERRUPTED = """
import os, signal, sys, threading, time
from pathlib import Path
from ndflow.study.tasks import run_in_workers
folder, dies = Path(sys.argv[1]), sys.argv[2] == "alone"
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored

def work(number):
    while number == 0 and dies:
        if not list(folder.glob("*.pid")):  # so that the other worker is at work
            time.sleep(0.01)
            continue
        os.kill(os.getpid(), signal.SIGKILL)
    if number:
        (folder / f"{os.getpid()}.pid").touch()
        time.sleep(600)
    return number

def interrupt():
    while len(list(folder.glob("*.pid"))) < 2:  # both workers; or the same task in pool and alone
        time.sleep(0.01)
    os.kill(os.getpid(), signal.Signals[sys.argv[3]])

threading.Thread(target=interrupt, daemon=True).start()
try:
    list(run_in_workers(work, [1, 0, 2, 3], jobs=2, killed=print))
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize(
    ("when", "how", "ends"),
    [
        ("together", "SIGINT", (0, "stopped\n", "")),
        ("alone", "SIGINT", (0, "stopped\n", "")),
        ("together", "SIGKILL", (-signal.SIGKILL, "", "")),
    ],
)
def test_workers_end_with_their_process_which_prints_nothing(
    tmp_path: Path, processes: Callable[[], list[int]], when: str, how: str, ends: Any
) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path), when, how]
    with (tmp_path / "out").open("w+") as out, (tmp_path / "err").open("w+") as err:
        code = subprocess.run(command, stdout=out, stderr=err, timeout=240, check=False).returncode
    assert (code, *((tmp_path / name).read_text() for name in ("out", "err"))) == ends
    wait_until(lambda: processes() == [])
