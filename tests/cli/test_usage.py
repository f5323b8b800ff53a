"""The command line itself: help, verbosity, signals, standard streams, arguments, the doctor."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import NDFLOW, Run
from phantoms import head, save

import ndflow
from ndflow.cli.commands import demo as cmd_doctor
from ndflow.cli.console import Terminated, raise_if_signalled, signals_raised


@pytest.mark.parametrize("words", [["--version"], ["cohort", "--help"], ["fit", "--set", "help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys; from ndflow.cli import main; code = main();"
        "print(*sys.modules, sep='\\n', file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "cyclopts" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "nibabel", "isal", "joblib", "matplotlib"})
    assert done.stdout.strip() == ndflow.__version__ or words != ["--version"]


def test_quiet_prints_errors_only_and_verbose_their_traceback(run: Run, inputs: Path) -> None:
    mask = save(inputs / "soft.nii.gz", (0.7 * (head(0) != 0)).astype(np.float32))
    words = ("normalize", inputs / "scan.nii.gz", "--to", inputs / "reference.json")
    words += ("-o", inputs / "out.nii.gz", "--mask", mask)
    loud = run(*words)
    assert (loud.code, loud.err.startswith(f"warning: {mask}: ")) == (0, True)
    assert run(*words, "--force", "-q") == (0, "", "")
    silent, loud = run(*words, "-q"), run(*words, "-v")  # it exists by now
    assert silent.code == loud.code == 2
    assert silent.err.splitlines() == silent.errors == loud.errors
    assert "Traceback (most recent call last)" in loud.err


# ── signals ──────────────────────────────────────────────────────────────────────────────────────

INTERRUPTED = """
import sys
class Finder:
    def find_spec(name, path, target=None):
        if name == "cyclopts":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder)
from ndflow.cli import main
sys.exit(main())
"""


def test_an_early_interruption_is_reported_in_one_line() -> None:
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (130, 1)


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


@pytest.mark.parametrize("call", [surprised, deaf])
def test_a_signal_counts_even_if_its_exception_was_lost(call: Any) -> None:
    with pytest.raises(Terminated) as caught:
        call()
    assert caught.value.code == 143


def test_nohup_keeps_a_run_alive() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_raised():
            os.kill(os.getpid(), signal.SIGHUP)
            raise_if_signalled()
    finally:
        signal.signal(signal.SIGHUP, before)


# ── streams ──────────────────────────────────────────────────────────────────────────────────────


def test_a_stream_may_be_closed(inputs: Path) -> None:
    words = [*NDFLOW, "fit", str(inputs / "scan.nii.gz"), "-o", str(inputs / "x.json")]
    ran = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *words], timeout=60)
    assert (ran.returncode, (inputs / "x.json").exists()) == (0, True)


def test_a_reader_that_has_seen_enough_ends_a_command_quietly(inputs: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [*NDFLOW, "fit", str(inputs / "scan.nii.gz"), "-o", str(inputs / "x.json")]
    ran = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, b"")
    assert (inputs / "x.json").exists()


# ── doctor ───────────────────────────────────────────────────────────────────────────────────────


def test_the_doctor_shows_versions_and_tests_itself(
    run: Run, process: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = process("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"ndflow {ndflow.__version__}, Python 3.")
    assert ran.out.count(" passed ") == 3
    monkeypatch.setattr(cmd_doctor, "_MAP", 1e-9)
    ran = run("doctor", "-q")
    assert (ran.code, ran.out, len(ran.errors)) == (1, "", 1)
