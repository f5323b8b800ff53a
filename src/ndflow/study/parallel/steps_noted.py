"""Which step each scan has reached, noted by workers in small files, and read by the display.

A step such as the registration takes a quarter of a minute, so a bar that counts scans alone looks
as if it had stopped. The notes are in a folder, because any process can write there, on this
machine or on one that shares the disc. Nothing depends on them: what cannot be written is not
shown.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ndflow.image.subject import Scan

__all__ = ["STEPS", "note_step", "noting", "steps_in"]

STEPS = ".ndflow-steps"  # the folder of the notes, in that of the results

_TRIES, _PAUSE = 20, 0.05  # seconds, until workers that were killed are dead


@contextmanager
def noting(folder: Path, scans: Sequence[Scan]) -> Iterator[Path]:
    """Keep notes about some scans in the folder for their results, while the block runs.

    Other runs may keep notes about other scans there.
    """
    notes = folder / STEPS
    try:
        with suppress(OSError):
            notes.mkdir(exist_ok=True)
        for scan in scans:  # what a killed run has noted
            note_step(notes, scan.name, None)
        yield notes
    finally:
        _remove(notes, scans)


def _remove(notes: Path, scans: Sequence[Scan]) -> None:
    """Remove the notes about some scans, and the folder, unless it holds notes of other runs."""
    names = {scan.name for scan in scans}
    for _ in range(_TRIES):
        for name in names:
            note_step(notes, name, None)
        with suppress(OSError):
            notes.rmdir()
        with suppress(OSError):
            if any(note.name in names for note in notes.iterdir()):  # a worker was not dead yet
                time.sleep(_PAUSE)
                continue
        return


def note_step(notes: Path | None, scan: str, step: str | None) -> None:
    """Note which step a scan has reached; None when it is done.

    Parameters
    ----------
    notes : the folder of the notes; None if there is none.
    scan : its name, which can be that of a file.
    step : in a word or two.
    """
    if notes is None:
        return
    with suppress(OSError):
        if step is None:
            (notes / scan).unlink(missing_ok=True)
        else:
            (notes / scan).write_text(step, encoding="utf-8")


def steps_in(folder: Path) -> str:
    """Return what is under way in a folder for results, such as "template" or "2 × mask"."""
    found: list[str] = []
    with suppress(OSError):
        for note in sorted((folder / STEPS).iterdir()):
            with suppress(OSError):  # done in the meantime
                found += filter(None, [note.read_text(encoding="utf-8")])
    counts = Counter(found)
    return ", ".join(
        step if number == 1 else f"{number} × {step}" for step, number in sorted(counts.items())
    )
