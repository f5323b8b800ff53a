"""A scan, a target, and a function that normalises one to the other."""

from pathlib import Path

import pytest
from commands import Run
from one_scan import SCAN, TARGET
from phantoms import save

import ndflow


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return save(tmp_path / "scan.nii.gz", SCAN)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file with the mixture fitted to the other head."""
    ndflow.save(tmp_path / "target.json", TARGET)
    return tmp_path / "target.json"


@pytest.fixture
def normalised(run: Run, scan: Path, target: Path, tmp_path: Path) -> Run:
    """Return a function that normalises the scan to the target, with some options."""

    def command(*options: object, name: str = "out.nii.gz") -> Path:
        output = tmp_path / name
        done = run("normalise", scan, "--to", target, "-o", output, *options)
        assert done.code == 0, done.err
        return output

    return command
