"""Run ``ndflow`` as a user would, in this process or in a process of its own."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ndflow.cli import main


class Ran(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error: ")]

    @property
    def summary(self) -> dict[str, str]:
        """The lines that begin with a label, by their labels."""
        return dict(line.split(maxsplit=1) for line in self.out.splitlines())

    @property
    def well(self) -> bool:
        """Whether it did its work, said so, and had nothing else to say."""
        return self.code == 0 and self.err == "" and self.out.startswith("wrote ")


Run = Callable[..., Ran]

NDFLOW = (sys.executable, "-m", "ndflow")


def execute(*words: object) -> int:
    """Run ``ndflow`` with some arguments in this process, and return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ndflow", *map(str, words)])
        return main()


def typed(*words: object, code: int = 0) -> None:
    """Run ``ndflow`` in this process, and check its exit code.

    For fixtures that outlive a single test; tests use the fixture ``run``, which also returns what
    was printed.
    """
    assert execute(*words) == code


@contextmanager
def without_workers() -> Iterator[None]:
    """Do the work of worker processes in this one, which is quicker, and can be patched."""

    def here(function: Callable[[Any], Any], tasks: Sequence[Any], **_: Any) -> Iterator[Any]:
        yield from ((number, function(task)) for number, task in enumerate(tasks))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ndflow.study.tasks.run_in_workers", here)
        yield


def in_a_process(*words: object, **environment: str) -> Ran:
    """Run ``ndflow`` with some arguments in a process of its own."""
    done = subprocess.run(
        [*NDFLOW, *(os.fsencode(str(word)) for word in words)],
        capture_output=True,
        env=os.environ | environment,
        timeout=120,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def on_a_terminal(*words: object) -> Ran:
    """Run ``ndflow`` in a process whose stderr is a terminal."""
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [*NDFLOW, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    ) as child:
        os.close(terminal)
        shown = b""
        while piece := _read(controller):
            shown += piece
        os.close(controller)
        out = child.communicate(timeout=60)[0]
    return Ran(child.returncode, out.decode(), shown.decode())


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux reports that the other end is closed
        return b""


def in_the_background(*words: object, **options: Any) -> "subprocess.Popen[str]":
    """Start ``ndflow`` in a process that can be interrupted; its stderr is a pipe."""
    return subprocess.Popen(
        [*NDFLOW, *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_signals,
        **options,
    )


def _heed_signals() -> None:
    """Heed what shells make processes in the background ignore, and nohup."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def wait_for_output(child: "subprocess.Popen[str]", folder: Path, pattern: str) -> None:
    """Wait until a command has written a megabyte to one of its temporary files."""
    while not any(_size(path) > 1 << 20 for path in folder.glob(pattern)):
        assert child.poll() is None
        time.sleep(0.001)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120  # far longer than it takes
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # renamed in the meantime
        return 0


# ── memory ───────────────────────────────────────────────────────────────────────────────────────

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)

# Runs the commands in argv[1], a list of lists, and prints for each, after what it says itself, its
# exit code and the peak memory of the process so far, in kB.
_MEASURED = """
import json, re, sys
from pathlib import Path
from ndflow.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["ndflow", *words]
    code = main()
    status = Path("/proc/self/status").read_text()
    print("measured", code, re.search(r"VmHWM:\\s*(\\d+) kB", status)[1])
"""


def measured(*commands: list[object]) -> list[tuple[int, int]]:
    """Run commands in one new process; return their exit codes, and its peak memory after each."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    child = [sys.executable, "-c", _MEASURED, words]
    done = subprocess.run(child, capture_output=True, text=True, timeout=120)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("measured ")]
    return [(int(code), 1024 * int(kilobytes)) for _, code, kilobytes in lines]
