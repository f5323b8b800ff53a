"""What needs torch: run by ``make test-torch``, and not collected where deepbet is missing.

``make test-torch`` fails if nothing is collected.
"""

import os
from importlib import util
from pathlib import Path

import pytest

if util.find_spec("deepbet") is None or util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def heads() -> Path:
    """Return a folder of raw heads, on machines that have it."""
    beside_the_project = Path(__file__).parents[3] / "shared" / "scans" / "heads"
    folder = Path(os.environ.get("NDFLOW_HEADS") or beside_the_project)
    if not folder.is_dir():
        pytest.skip("no heads: NDFLOW_HEADS is not set, and there are none beside the project")
    return folder
