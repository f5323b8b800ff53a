"""The pages of the reference name everything that there is."""

import re

from docs.blocks import ROOT

import ndflow
from ndflow.cli.app import COMMANDS

REFERENCE = ROOT / "docs" / "reference"


def test_the_page_of_python_names_every_public_name_once() -> None:
    page = (REFERENCE / "python.md").read_text(encoding="utf-8")
    names = re.findall(r"^   (\w+)$", page, re.MULTILINE)
    modules = re.findall(r"^## ndflow\.(\w+)$", page, re.MULTILINE)
    assert sorted([*names, *modules, "normalize"]) == sorted(ndflow.__all__)
    parts = re.findall(r"^   (density|transport|population)\.(\w+)$", page, re.MULTILINE)
    assert {module for module, _ in parts} == {*modules}
    for module, name in parts:
        assert hasattr(getattr(ndflow, module), name), name


def test_the_page_of_the_command_line_has_every_command_in_the_order_of_the_help() -> None:
    page = (REFERENCE / "command-line.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ndflow (\w+)$", page, re.MULTILINE) == [*COMMANDS]
    assert re.findall(r"^```\{ndflow-command\} (\w+)$", page, re.MULTILINE) == [*COMMANDS]
    assert "```{ndflow-settings}" in page
