"""A signal stops a command, whatever the code that it meets makes of it."""

import os
import signal
import threading
from contextlib import suppress

import pytest

from ndflow.cli.signals import Terminated, raise_if_signalled, signals_raised


def surprised() -> None:
    """Make another error of a signal, as libraries may."""
    with signals_raised():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Terminated as stop:
            raise RuntimeError("a library was surprised") from stop


def deaf() -> None:
    """Ignore a signal, as destructors do, and go on until somebody asks."""
    with signals_raised():
        with suppress(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
        raise_if_signalled()


@pytest.mark.parametrize("run", [surprised, deaf])
def test_a_signal_counts_even_if_its_exception_was_lost(run) -> None:
    with pytest.raises(Terminated) as caught:
        run()
    assert caught.value.code == 143


def test_an_error_without_a_signal_is_that_error() -> None:
    with pytest.raises(RuntimeError, match="by itself"), signals_raised():
        raise RuntimeError("by itself")


def failing_thread() -> None:
    def fail() -> None:
        raise RuntimeError("its workers have gone")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()


def test_a_thread_that_fails_after_a_signal_says_nothing(capsys) -> None:
    with suppress(Terminated), signals_raised():
        with suppress(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
        failing_thread()
    assert capsys.readouterr().err == ""


def test_a_thread_that_fails_by_itself_is_reported(capsys) -> None:
    with signals_raised():
        failing_thread()
    assert "its workers have gone" in capsys.readouterr().err
