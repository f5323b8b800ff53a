"""What every case must keep to: success, or one line that says what is wrong with which file."""

import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TypeVar

from commands import Ran, execute

from ndflow import NdflowError

T = TypeVar("T")


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
    check_ended(ran)
    if code == 2:
        _check_line(ran.errors[0], about)
    return ran


def check_ended(ran: Ran) -> None:
    """Check the exit code of a command and what it printed."""
    assert ran.code in (0, 1, 2), f"exit {ran.code}: {ran.err}"
    assert "Traceback" not in ran.err, ran.err
    assert not re.search(r"unexpected \w+(Error|Exception|Warning)", ran.err), ran.err
    assert "Warning:" not in ran.err, ran.err
    assert bool(ran.code) == bool(ran.errors), f"exit {ran.code}: {ran.err}"


def _check_line(message: str, about: str | Path) -> None:
    assert "\n" not in message, message
    assert len(message) < 2000, message
    assert str(about) in message, f"does not name {about}: {message}"
