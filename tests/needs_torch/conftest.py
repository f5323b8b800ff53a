"""What needs torch: run by ``make test-torch``, and not collected where deepbet is missing.

``make test-torch`` fails if nothing is collected.
"""

import os
from importlib import util
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import head, radii

from ndflow.integrations import normaliser

if util.find_spec("deepbet") is None or util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


SHAPE = (24, 22, 20)
SOFT = np.clip(5.5 - 5 * radii(SHAPE), 0, 1).astype("f4")  # a mask, as after linear resampling
# The phantoms are unlike the built-in reference, and said to be.
UNLIKE = pytest.mark.filterwarnings("ignore:.*given once per process:UserWarning")


def voxels(seed: int = 0) -> NDArray[np.float32]:
    """Return a head of 32-bit floats, with a few zeros inside its brain mask."""
    generator = np.random.default_rng(seed)
    scan = head(seed, shape=SHAPE) + generator.random(SHAPE)
    return np.where(radii(SHAPE) < 1, scan * (generator.random(SHAPE) > 0.001), 0).astype("f4")


@pytest.fixture
def silent_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have given no warnings."""
    monkeypatch.setattr(normaliser, "_GIVEN", set())


@pytest.fixture(scope="session")
def heads() -> Path:
    """Return a folder of raw heads, on machines that have it."""
    beside_the_project = Path(__file__).parents[3] / "shared" / "scans" / "heads"
    folder = Path(os.environ.get("NDFLOW_HEADS") or beside_the_project)
    if not folder.is_dir():
        pytest.skip("no heads: NDFLOW_HEADS is not set, and there are none beside the project")
    return folder
