"""Commands run as a user would run them, and inputs and finished studies that tests share."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from channel_phantoms import Desk, save_channels, words
from commands import Ran, Run, execute, in_a_process, typed
from phantoms import head, save, tissue_shares
from studies import SMALL, SiteStudy

import ndflow

Validate = Callable[[Path], list[Any]]


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
def validate() -> Validate:
    """Return a function that returns the errors that the BIDS validator finds in a folder."""
    validator = Path(sys.executable).with_name("bids-validator-deno")
    if not validator.exists():
        pytest.skip(f"no {validator.name} beside {sys.executable}")

    def errors(folder: Path) -> list[Any]:
        command, quiet = [validator, "--format", "json", folder], {"DENO_NO_UPDATE_CHECK": "1"}
        done = subprocess.run(command, env=os.environ | quiet, capture_output=True)
        issues = json.loads(done.stdout)["issues"]["issues"]
        return [issue for issue in issues if issue["severity"] == "error"]

    return errors


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


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    """Six scans of three sites with masks, tissue maps and ages, and a finished study ``out``."""
    made = SiteStudy(tmp_path_factory.mktemp("study"), per_site=2, drift=0.03)
    for tissue, share in tissue_shares(SMALL).items():
        save(made.folder / f"{tissue}.nii.gz", share.astype(np.float32))
    for number, row in enumerate(made.rows):
        inside = (head(number, shape=SMALL) != 0).astype(np.uint8)
        mask = save(made.folder / f"mask{number}.nii.gz", inside)
        row |= {"subject": f"p{number % 4}", "age": str(20 + number * 4 % 9), "mask": mask.name}
        row |= {tissue: f"{tissue}.nii.gz" for tissue in ("wm", "gm", "csf")}
    made.run("out", "--mode", "two-level", "--proportions", "tissue")
    return made


@pytest.fixture
def out(study: SiteStudy, tmp_path: Path) -> Path:
    """A copy of the finished study, which may be changed; its scans may not."""
    return shutil.copytree(study.folder / "out", tmp_path / "out")


@pytest.fixture(scope="session")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A subject with two channels, and references of each channel and of both together."""
    folder = tmp_path_factory.mktemp("channels")
    for how, options in {"separate": (), "joint": ("--joint",)}.items():
        models = []
        for seed, gains in {1: (1.3, 0.7), 2: (0.8, 1.1)}.items():
            files = save_channels(folder, seed, gains=gains, correlation=0.6)
            models.append(folder / f"{how}{seed}.json")
            typed("fit", *words(files), *options, "-o", models[-1], "-q")
        typed("reference", *models, "-o", folder / f"{how}.json", "-q")
    files = save_channels(folder, 0)
    return Desk(folder, files, folder / "separate.json", folder / "joint.json")
