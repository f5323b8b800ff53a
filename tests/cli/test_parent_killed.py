"""Runs whose first process is killed or hung up: nothing that they have started outlives them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from commands import NDFLOW, in_the_background
from phantoms import head, save

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc"
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of scans that keep two workers busy for a while."""
    folder = tmp_path_factory.mktemp("scans")
    names = [f"s{number}.nii" for number in range(30)]
    for number, name in enumerate(names):
        save(folder / name, head(number, shape=(64, 64, 48)))
    (folder / "scans.tsv").write_text("\n".join(["image", *names, ""]))
    return folder / "scans.tsv"


def alive(session: int) -> dict[int, str]:
    """Return the command lines of the processes of a session, by their numbers."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, own = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(own) == session and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_text()
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120  # far longer than it takes
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def running(session: int, word: str) -> list[int]:
    return [number for number, words in alive(session).items() if word in words]


@contextmanager
def started(*words: object, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """Start ``ndflow`` in a session of its own, all of which is killed at the end."""
    with in_the_background(
        *words, start_new_session=True, env=os.environ | environment, stdout=subprocess.DEVNULL
    ) as child:
        yield child
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_workers_and_trackers_end_with_the_process_that_started_them(
    table: Path, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "joblib").mkdir()
    words = ("cohort", table, tmp_path / "out", "-q", "-j", 2)
    with started(*words, JOBLIB_TEMP_FOLDER=str(tmp_path / "joblib")) as child:
        wait_for(lambda: len(running(child.pid, "popen_loky")) == 2)
        child.send_signal(number)
        wait_for(lambda: alive(child.pid) == {})
    assert child.returncode == {1: 129, 9: -9, 15: 143}[number]
    assert not list(Path("/dev/shm").glob(f"sem.loky-{child.pid}-*"))
    assert not list((tmp_path / "joblib").iterdir())


def test_a_terminal_that_is_closed_stops_all_processes_with_one_message(
    table: Path, tmp_path: Path
) -> None:
    with started("cohort", table, tmp_path / "out", "-q", "-j", 2) as child:
        wait_for(lambda: len(running(child.pid, "popen_loky")) == 2)
        os.killpg(child.pid, signal.SIGHUP)
        _, err = child.communicate(timeout=120)
        wait_for(lambda: alive(child.pid) == {})
    assert child.returncode == 129
    assert err == (
        "error: the terminal was closed; run the same command again to resume where it left off\n"
    )
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_nohup_keeps_a_run_alive(table: Path, tmp_path: Path) -> None:
    rows = table.read_text().splitlines()[:4]
    few = table.with_name("few.tsv")
    few.write_text("\n".join([*rows, ""]))
    command = ["nohup", *NDFLOW, "cohort", str(few), str(tmp_path / "out"), "-q", "-j", "2"]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as child:
        wait_for(lambda: child.poll() is not None or len(running(child.pid, "popen_loky")) == 2)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGHUP)
        child.communicate(timeout=120)
    assert child.returncode == 0
    assert len(list((tmp_path / "out" / "images").iterdir())) == 3


COUNTED = """
import os
from pathlib import Path
from ndflow.study.workers import run_in_workers

def workers(_):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            found += ["popen_loky" in (stat.parent / "cmdline").read_text()] * (
                parent == os.getppid()
            )
        except OSError:
            pass
    return sum(found)

counts = [count for _, count in run_in_workers(workers, range(3), jobs=7, killed=print)]
print(max(counts))
"""


def test_there_are_no_more_workers_than_scans() -> None:
    ran = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert 1 <= int(ran.stdout) <= 3
