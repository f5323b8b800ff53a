"""Seeded cases of one class of hostile input, and what every case must keep to.

A case takes a source of random choices and an empty folder. It returns whether what it gave to
ndflow was accepted (True) or refused as it should be (False), and raises an AssertionError where
the outcome is wrong. The same seed and number give the same case.
"""

import io
import os
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest
from commands import Ran, execute

from ndflow import NdflowError

T = TypeVar("T")
Case = Callable[[Random, Path], bool]
Fuzz = Callable[..., None]

_FEWER = 20  # by how much cases are fewer that run whole studies


@pytest.fixture
def fuzz(request: pytest.FixtureRequest, tmp_path: Path) -> Fuzz:
    """Return a function that tries the cases of the class that a test is named after."""
    wanted, seed, first = (os.environ.get(f"FUZZ_{name}") for name in ("CASES", "SEED", "FIRST"))
    name = request.node.name.removeprefix("test_")

    def run(case: Case, count: int, *, slow: bool = False) -> None:
        if wanted:
            count = -(-int(wanted) // _FEWER) if slow else int(wanted)
        accepted = 0
        for number in range(int(first or 0), int(first or 0) + count):
            folder = tmp_path / str(number)
            folder.mkdir()
            try:
                accepted += case(Random(f"{seed or 0} {name} {number}"), folder)
                assert not list(folder.rglob(".ndflow-*.tmp")), "left a temporary file behind"
            except BaseException as error:
                again = f"make fuzz CLASS={name} SEED={seed or 0} FIRST={number} CASES=1"
                error.add_note(again)
                raise
            shutil.rmtree(folder)
        if not wanted:  # if all are accepted, or all refused, they show nothing
            assert 0 < accepted < count

    return run


def attempt(about: str | Path, call: Callable[[], T]) -> T | None:
    """Return the result of a call; None where it was refused, with a message about `about`."""
    try:
        return call()
    except NdflowError as error:
        _check_line(str(error), about)
        return None


def typed_in(about: str | Path, *words: object) -> Ran:
    """Run a command in this process, and check how it ended."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = execute(*words)
    ran = Ran(code, out.getvalue(), err.getvalue())
    assert ran.code in (0, 1, 2), f"exit {ran.code}: {ran.err}"
    assert not re.search(r"Traceback|Warning:|unexpected \w+(Error|Exception)", ran.err), ran.err
    assert bool(ran.code) == bool(ran.errors), f"exit {ran.code}: {ran.err}"
    if code == 2:
        _check_line(ran.errors[0], about)
    return ran


def _check_line(message: str, about: str | Path) -> None:
    assert "\n" not in message, message
    assert len(message) < 2000, message
    assert str(about) in message, f"does not name {about}: {message}"
