"""``ndflow doctor``: what is installed, and whether it works."""

import re

import pytest
from commands import Run

import ndflow
from ndflow.cli.commands import demo as cmd_doctor


def test_versions_extras_and_the_self_test_are_shown(run: Run) -> None:
    ran = run("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"ndflow {ndflow.__version__}, Python 3.")
    assert re.search(r"^needs .*numpy \d", ran.out, re.MULTILINE)
    assert re.search(r"^\[report\] ", ran.out, re.MULTILINE)
    assert ran.out.count(" passed (error ") == 3


def test_a_self_test_that_fails_is_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cmd_doctor, "_MAP", 1e-9)
    ran = run("doctor", "-q")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: self-test: map: error ")


def test_an_extra_that_is_missing_is_shown_with_the_line_that_installs_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = ["numpy>=2.0", "nowhere-to-be-found>=1; extra == 'monai'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda _: needed)
    assert "[monai] lacks nowhere-to-be-found; pip install 'ndflow[monai]'\n" in run("doctor").out
