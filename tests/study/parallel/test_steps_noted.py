"""Notes about the step that each scan has reached, and the memory that work takes."""

from pathlib import Path

import numpy as np
from commands import needs_proc

from ndflow.cli.console import bars
from ndflow.image.subject import Scan
from ndflow.study.parallel.peak_memory import forget_peak, peak_bytes
from ndflow.study.parallel.steps_noted import STEPS, note_step, noting, steps_in

SCANS = [Scan(name, name=name) for name in ("a", "b", "c")]


def test_notes_are_counted_by_step_and_gone_at_the_end(tmp_path: Path) -> None:
    with noting(tmp_path, SCANS) as notes:
        assert steps_in(tmp_path) == ""
        note_step(notes, "a", "mask")
        assert steps_in(tmp_path) == "mask"
        note_step(notes, "b", "template")
        note_step(notes, "c", "template")
        assert steps_in(tmp_path) == "mask, 2 × template"
        note_step(notes, "b", None)
        assert steps_in(tmp_path) == "mask, template"
    assert not (tmp_path / STEPS).exists()


def test_notes_of_a_killed_run_are_forgotten_but_not_those_of_other_runs(tmp_path: Path) -> None:
    (tmp_path / STEPS).mkdir()
    for name in ("a", "other"):
        note_step(tmp_path / STEPS, name, name)
    with noting(tmp_path, SCANS):
        assert steps_in(tmp_path) == "other"
    assert steps_in(tmp_path) == "other"


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    with noting(tmp_path / "missing", SCANS) as notes:
        note_step(notes, "a", "mask")
        note_step(None, "a", "mask")
        assert steps_in(tmp_path / "missing") == ""


def test_a_bar_shows_the_steps_until_it_is_full() -> None:
    display = bars(lambda: "template")
    task = display.add_task("prepare", total=1)
    shown = display.columns[-1]
    assert str(shown(display.tasks[0])) == "template"
    display.advance(task)
    assert str(shown.render(display.tasks[0])) == ""


@needs_proc
def test_the_peak_is_that_of_the_work_since_it_was_forgotten() -> None:
    size = 200 << 20
    forget_peak()
    before = peak_bytes() or 0
    np.ones(size, np.uint8)
    raised = (peak_bytes() or 0) - before
    assert raised > 0.9 * size
    forget_peak()
    assert (peak_bytes() or 0) - before < 0.5 * size
