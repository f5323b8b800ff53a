"""Nine scans of three sites with tissue maps, and finished studies of them."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from phantoms import save, tissue_shares
from studies import SMALL, SiteStudy


@pytest.fixture(scope="package")
def studies(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    made = SiteStudy(tmp_path_factory.mktemp("studies"), per_site=3, drift=0.03)
    for tissue, share in tissue_shares(SMALL).items():
        save(made.folder / f"{tissue}.nii.gz", share.astype(np.float32))
    for number, row in enumerate(made.rows):
        row["subject"] = f"p{number // 2}"
        row |= {"age": str(20 + number * 4 % 9), "born": "1950", "hand": "l"}
        row |= {tissue: f"{tissue}.nii.gz" for tissue in ("wm", "gm", "csf")}
    made.run("flow")
    made.run("nyul", "--method", "nyul")
    return made


@pytest.fixture
def flow(studies: SiteStudy, tmp_path: Path) -> Path:
    """A copy of a finished study, which may be changed."""
    shutil.copytree(studies.folder / "flow", tmp_path / "flow")
    return tmp_path / "flow"


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures, which would take longer than everything else."""
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
