"""Scans of three sites, and two studies of them compared."""

import pytest
from compared_runs import Desk, Rows, compared, numbers

from ndflow.evaluation.comparison import Comparison


@pytest.fixture(scope="package")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("scans"))


@pytest.fixture(scope="package")
def comparison(desk: Desk) -> Comparison:
    return compared(desk.run("flow"))


@pytest.fixture(scope="package")
def several(desk: Desk) -> Rows:
    runs = [desk.run("flow"), desk.run("nyul", method="nyul")]
    return numbers(compared(*runs), "age")
