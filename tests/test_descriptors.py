"""The Boutiques descriptors say what the command line says."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from ndflow.cli.app import app

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


def test_every_option_has_an_input(making: ModuleType) -> None:
    for command in making.OUTPUTS:
        inputs = making.descriptor(command)["inputs"]
        known = {one.get("command-line-flag") for one in inputs}
        for argument in app[command].assemble_argument_collection():
            assert argument.index is not None or argument.name in {*known, "*"}


def test_a_value_that_may_be_a_file_or_a_word_has_two_inputs(making: ModuleType) -> None:
    inputs = {one["id"]: one for one in making.descriptor("normalise")["inputs"]}
    assert inputs["mask"]["type"] == "File"
    assert inputs["mask_by_word"]["value-choices"] == ["auto", "brain"]
    assert inputs["to_by_word"]["value-choices"] == ["builtin:T1w"]
    assert inputs["set"]["list-separator"] == " --set "
    assert inputs["dtype"]["default-value"] == "float32"
    assert "positive" in inputs["scale"]["value-choices"]
    assert inputs["output"]["optional"] is False
