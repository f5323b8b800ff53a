import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from deepbet_stand_in import StandIn, standing_in
from hypothesis import settings

# Deterministic, so that a failure can be reproduced; EXPLORE=1 searches for new examples.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("explore", deadline=None, max_examples=400)
settings.load_profile("explore" if os.environ.get("EXPLORE") else "repeatable")

# Reports take seconds; tests of reports unset this.
os.environ["NDFLOW_NO_REPORT"] = "1"


@pytest.fixture(scope="session")
def cohort_folder() -> Path:
    """Return the folder of the real cohort, on machines that have it."""
    beside_the_project = Path(__file__).parents[2] / "shared" / "cohort"
    folder = Path(os.environ.get("NDFLOW_COHORT") or beside_the_project)
    if not folder.is_dir():
        pytest.skip("no cohort: NDFLOW_COHORT is not set, and there is none beside the project")
    return folder


@pytest.fixture
def deepbet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """Something that finds brains without a network, in the place of deepbet."""
    with standing_in(tmp_path_factory.mktemp("packages") / "site") as stand_in:
        yield stand_in
