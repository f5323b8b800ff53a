"""Commands, run as a user would run them."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from ndflow.cli import main


class Ran(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs ``ndflow`` with some arguments, in this process."""

    def command(*arguments: object) -> Ran:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["ndflow", *map(str, arguments)])
        code = main()
        return Ran(code, *capsys.readouterr())

    return command


@pytest.fixture
def process() -> Run:
    """Return a function that runs ``ndflow`` with some arguments, in a process of its own."""

    def command(*arguments: object, **environment: str) -> Ran:
        words = [os.fsencode(str(word)) for word in arguments]
        done = subprocess.run(
            [sys.executable, "-m", "ndflow", *words],
            capture_output=True,
            env=os.environ | environment,
            timeout=120,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return command
