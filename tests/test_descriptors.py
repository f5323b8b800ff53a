"""The Boutiques descriptors say what the command line says."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

GENERATOR = Path(__file__).parents[1] / "recipes" / "boutiques" / "make_descriptors.py"


@pytest.fixture(scope="module")
def making() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_descriptors", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_are_up_to_date(making: ModuleType) -> None:
    for command in making.OUTPUTS:
        written = json.loads(making.path_of(command).read_text(encoding="utf-8"))
        assert making.descriptor(command) == written, "run recipes/boutiques/make_descriptors.py"
