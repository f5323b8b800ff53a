"""A study of three sites, and copies of it without a report."""

import shutil
from pathlib import Path

import pytest
from pages import SCRIPT
from studies import SITES, SiteStudy


@pytest.fixture(scope="package")
def study(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    sites = {"Aachen": SITES["Aachen"], "Bonn": SITES["Bonn"], SCRIPT: SITES["Celle"]}
    made = SiteStudy(tmp_path_factory.mktemp("study"), sites, per_site=2)
    made.run("flow")
    return made


@pytest.fixture
def flow(study: SiteStudy, tmp_path: Path) -> Path:
    """A copy of a finished study without a report, which may be changed."""
    shutil.copytree(study.folder / "flow", tmp_path / "flow")
    return tmp_path / "flow"
