"""The terminal: what a command prints on it, and the signals that stop a command.

Results go to stdout; errors, warnings and progress to stderr.

A command stops on Ctrl-C (SIGINT), when the system asks for it (SIGTERM), or with the terminal
(SIGHUP). A signal raises an exception wherever the program happens to be. If that is in a
destructor, Python ignores the exception and the program would continue; so signals are remembered,
and `raise_if_signalled` raises the exception again after each scan. Libraries may turn it into
another exception; what fails after a signal counts as stopped by it.

A signal that is ignored when the program starts stays ignored: that is how ``nohup`` keeps a run
alive, and how shells keep Ctrl-C from jobs in the background.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

from cyclopts import Group, Parameter

if TYPE_CHECKING:
    from ndflow.study.tasks import Outcome


RUN = Group("Run", sort_key=9)


def command_line() -> tuple[str, ...]:
    """Return the command line as the user typed it, for the record."""
    return ("ndflow", *sys.argv[1:])


def print_error(message: str, details: str = "") -> None:
    """Print an error on one line, and details below it."""
    print_line(f"error: {message}")
    if details:
        print(details.rstrip(), file=sys.stderr)


def print_line(message: str) -> None:
    """Print a message on one line, to a terminal or a log."""
    print(_line(message), file=sys.stderr)


def print_result(result: str) -> None:
    """Print a result on one line, to stdout."""
    print(_line(result), flush=True)


def _line(message: str) -> str:
    """Return a message on one line, even if a file name in it contains line breaks."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
        for c in message
    )


@dataclass(frozen=True)
class Verbosity:
    """How much is printed.

    Attributes
    ----------
    quiet
        Print nothing but errors.
    verbose
        Print the traceback of each error.
    """

    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"), group=RUN)] = False
    verbose: Annotated[bool, Parameter(name=("--verbose", "-v"), group=RUN)] = False

    def say(self, result: str) -> None:
        """Print a result, unless nothing is to be printed."""
        if not self.quiet:
            print_result(result)

    def note(self, message: str) -> None:
        """Print a message to a terminal or a log, unless nothing is to be printed."""
        if not self.quiet:
            print_line(message)

    def warn(self, message: str) -> None:
        """Print a warning, unless nothing is to be printed."""
        if not self.quiet:
            print_line(f"warning: {message}")

    def error(self, message: str, traceback: str) -> None:
        """Print an error, with its traceback if that is wanted."""
        print_error(message, traceback if self.verbose else "")


# ── progress ──────────────────────────────────────────────────────────────────────────────────────

# What a step goes through, if not scans; nothing where its parts mean nothing to the user.
_UNITS = {
    "references": "",
    "classify": "condition",
    "shuffle sites": "shuffle",
    "figures": "figure",
    "report": "",
    "verify": "record",
}
_INTERVAL = 30.0  # seconds between two lines where there is no terminal


def results_of(outcome: Outcome) -> dict[str, Any]:
    """Return the results of a task by channel, or one alone."""
    found = outcome.result
    return found if isinstance(found, dict) else {"": found}


class ProgressDisplay:
    """Progress bars on a terminal, one per step of the work; lines elsewhere.

    Warnings and failures are printed as they occur; doubts about the scans of a study are counted
    at the end, see `ndflow.cli.endings`.

    Parameters
    ----------
    verbosity : how much to print.
    lines : whether to print how far the work has come where there is no terminal.
    warnings_of : returns what to print about the result of a scan.
    """

    def __init__(self, verbosity: Verbosity, *, lines: bool = True) -> None:
        self._verbosity = verbosity
        self._lines = lines and not verbosity.quiet
        self._on_terminal = sys.stderr.isatty() and not verbosity.quiet
        self._stack = ExitStack()
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._said: set[str] = set()
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def begin(self, stage: str, total: int) -> None:
        """Note that a step over `total` scans begins."""
        self._total, self._done = total, 0
        self._unit = _UNITS.get(stage.rpartition(": ")[2], "scan")  # in the demo: of a study
        self._count = f"{total} {self._unit}{'s' if total != 1 else ''}"
        self._started = self._printed = time.monotonic()
        if self._on_terminal:
            if self._bars is None:
                self._bars = self._stack.enter_context(_bars())
            self._tasks[stage] = self._bars.add_task(stage, total=total)
        elif self._lines:
            print_line(f"{stage}: {self._count}" if self._unit else stage)

    def step(self, stage: str, outcome: Outcome) -> None:
        """Note the outcome of a scan."""
        raise_if_signalled()
        self._done += 1
        if outcome.failure:
            self._verbosity.error(outcome.failure.message, outcome.failure.details)
        else:
            results = results_of(outcome).values()
            for warning in (line for one in results for line in getattr(one, "warnings", ())):
                if warning not in self._said:  # such as one about a target that scans share
                    self._verbosity.warn(warning)
                    self._said.add(warning)
        if stage in self._tasks:
            self._bars.advance(self._tasks[stage])
        elif self._lines and time.monotonic() - self._printed > _INTERVAL:
            self._printed = time.monotonic()
            rate = self._done / (self._printed - self._started)
            left = timedelta(seconds=round((self._total - self._done) / rate))
            print_line(f"{stage}: {self._done} of {self._count}, {rate:.3g}/s, {left} left")


def _bars() -> Any:
    """Return a display of progress bars, with the time left, or the time that each took."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description:<10}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(stderr=True),
    )


# ── signals ───────────────────────────────────────────────────────────────────────────────────────

_received: list[int] = []
_MOMENT = 0.5  # seconds by which a signal may reach us later than our workers
_NUMBERS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class Terminated(BaseException):
    """The system has asked the program to stop (SIGTERM), or the terminal has gone (SIGHUP).

    Attributes
    ----------
    code : the exit code, as shells count: 128 and the number of the signal.
    """

    def __init__(self, number: int) -> None:
        gone = signal.Signals(number).name == "SIGHUP"
        super().__init__("the terminal was closed" if gone else "terminated")
        self.code = 128 + number


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, and Terminated on the others, while the block runs."""
    _received.clear()
    heeded = [number for number in _NUMBERS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _handle) for number in heeded}
    hook, sys.unraisablehook = sys.unraisablehook, _unraisable
    of_threads, threading.excepthook = threading.excepthook, _failed_thread
    try:
        yield
    except Exception:
        raise_if_signalled()  # what fails after a signal fails because of it
        raise
    finally:
        sys.unraisablehook, threading.excepthook = hook, of_threads
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_if_signalled() -> None:
    """Raise the exception of a signal that has arrived but was ignored by a destructor."""
    if _received:
        _stop(_received[-1])


def _handle(number: int, _: FrameType | None) -> None:
    _received.append(number)
    _stop(number)


def _stop(number: int) -> NoReturn:
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)


def _failed_thread(error: threading.ExceptHookArgs) -> None:
    """Silence threads that watch workers, where these got a signal too and have ended."""
    time.sleep(_MOMENT)
    if not _received:
        threading.__excepthook__(error)


def _unraisable(error: Any) -> None:
    """Silence 'exception ignored' notes caused by our signals."""
    if not isinstance(error.exc_value, KeyboardInterrupt | Terminated):
        sys.__unraisablehook__(error)
