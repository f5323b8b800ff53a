"""Fixtures that run commands as a user would run them."""

from pathlib import Path

import numpy as np
import pytest
from commands import Ran, Run, execute, in_a_process
from phantoms import head, save

import ndflow


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs ``ndflow`` with some arguments, in this process."""

    def command(*words: object) -> Ran:
        capsys.readouterr()
        code = execute(*words)
        return Ran(code, *capsys.readouterr())

    return command


@pytest.fixture
def process() -> Run:
    """Return a function that runs ``ndflow`` with some arguments, in a process of its own."""
    return in_a_process


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A folder with two scans, a mask of the first, and a reference made from the second."""
    scan = head(0)
    save(tmp_path / "scan.nii.gz", scan)
    save(tmp_path / "other.nii.gz", head(1, gain=2))
    save(tmp_path / "mask.nii.gz", (scan > 500).astype(np.uint8))
    mixture = ndflow.fit(tmp_path / "other.nii.gz").mixture
    ndflow.save(tmp_path / "reference.json", ndflow.reference([mixture]))
    return tmp_path
