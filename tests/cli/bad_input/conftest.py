"""A fresh folder of valid inputs for each test."""

from pathlib import Path

import pytest
from bad_input import Desk
from commands import Run


@pytest.fixture
def desk(tmp_path: Path, run: Run) -> Desk:
    return Desk(tmp_path, run)
