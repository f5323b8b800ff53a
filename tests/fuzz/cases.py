"""Seeded cases of one class, run one after another, each with a folder of its own, and counted.

A case takes a source of random choices and an empty folder. It returns whether what it gave to
ndflow was accepted (True) or refused as it should be (False); it raises an AssertionError where the
outcome is wrong. The same seed and number give the same case.
"""

import os
import re
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple

Case = Callable[[Random, Path], bool]

_SECONDS = 120  # of one case, on a busy machine
_BYTES = 1 << 29  # by which the memory of this process may grow during a case
_FEWER = 20  # by how much cases are fewer that run whole studies
_SHOWN = 5  # failures in full


class Plan(NamedTuple):
    """How many cases of each class (None in the tests), of which seed, and from which number."""

    cases: int | None
    seed: int
    first: int

    @classmethod
    def given(cls) -> "Plan":
        cases, seed, first = (os.environ.get(f"FUZZ_{n}") for n in ("CASES", "SEED", "FIRST"))
        return cls(int(cases) if cases else None, int(seed or 0), int(first or 0))

    def numbers(self, bounded: int, *, slow: bool) -> range:
        """Return the numbers of the cases of a class that has `bounded` of them in the tests."""
        count = bounded
        if self.cases is not None:
            count = -(-self.cases // _FEWER) if slow else self.cases
        return range(self.first, self.first + count)


@dataclass
class Tally:
    """How the cases of a class ended."""

    name: str
    accepted: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        tried = self.accepted + self.refused + len(self.failures)
        return (
            f"{self.name.replace('_', ' '):<20}{tried:>7,} cases: {self.accepted:>6,} accepted, "
            f"{self.refused:>6,} refused, {len(self.failures):>3,} failed"
        )


def try_cases(
    name: str, case: Case, folder: Path, bounded: int, *, plan: Plan, slow: bool = False
) -> Tally:
    """Try the cases of a class: `bounded` of them in the tests, fewer if each runs a study."""
    tally = Tally(name)
    for number in plan.numbers(bounded, slow=slow):
        own = folder / str(number)
        own.mkdir()
        try:
            with _time_limit(), _memory_limit():
                accepted = case(Random(f"{plan.seed} {name} {number}"), own)
                assert not list(own.rglob(".ndflow-*.tmp")), "left a temporary file behind"
            tally.accepted += accepted
            tally.refused += not accepted
        except (Exception, _TooLongError) as error:
            how = f"make fuzz CLASS={name} SEED={plan.seed} FIRST={number} CASES=1"
            shown = len(tally.failures) < _SHOWN
            trace = "".join(traceback.format_exception(error)) if shown else repr(error)[:300]
            tally.failures.append(f"{how}\n{trace}")
        finally:
            _remove(own)
    return tally


def _remove(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            with suppress(OSError):
                path.chmod(0o700)
    shutil.rmtree(folder)


# ── time and memory ──────────────────────────────────────────────────────────────────────────────


class _TooLongError(BaseException):
    """A case hangs."""


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise _TooLongError(f"took more than {_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _memory_limit() -> Iterator[None]:
    """Fail if the peak of memory rises too far, where the system tells."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = _peak()
    except OSError:
        yield
        return
    yield
    grown = _peak() - before
    assert grown < _BYTES, f"took {grown >> 20} MB of memory"


def _peak() -> int:
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(found[1]) if found else 0
