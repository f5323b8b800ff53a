"""The recipes of docs/guides/workflows.md, run by the programs that they are for.

``make test-recipes`` installs Snakemake, Nipype and Boutiques into an environment of their own,
because they need other versions of some packages, and names it in ``NDFLOW_RECIPES``. Without that,
nothing here is collected. The commands are those on the page.
"""

import os
import shutil
from pathlib import Path

import pytest
from recipe_place import ROOT, Place, place_in

if "NDFLOW_RECIPES" not in os.environ:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A study of two scans, in a folder whose name has a space, and the recipes."""
    folder = tmp_path / "my study"
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    return place_in(folder)
