"""What the site adds to Sphinx: mathematics, links, docstrings and commands."""

import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest
from commands import execute
from docs.blocks import ROOT
from docs.run_blocks import captured

from ndflow.options import options_of

pytest.importorskip("sphinx", reason="make docs installs it")


@pytest.fixture(autouse=True)
def path() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        yield


def extension(name: str) -> ModuleType:
    return import_module(f"extensions.{name}")


@pytest.mark.parametrize(
    ("tex", "braced"),
    [
        (r"\tfrac12 \bar x_t", r"\tfrac{1}{2} \bar{x}_t"),
        (r"\frac{a}\pi + \sqrt 2", r"\frac{a}{\pi} + \sqrt{2}"),
        (r"\frac{\tfrac12}{\bar{x}}", r"\frac{\tfrac{1}{2}}{\bar{x}}"),
        (r"\hat\mu \vector", r"\hat{\mu} \vector"),
    ],
)
def test_arguments_of_one_token_get_their_braces(tex: str, braced: str) -> None:
    assert extension("mathml").with_braces(tex) == braced


def test_links_lead_to_pages_of_the_site_or_to_the_repository() -> None:
    mend = extension("repository_links").on_the_site
    repository = "https://github.com/ndflow/ndflow/blob/main"
    guide = "docs/guides/one.md"
    assert mend("[a](../study.md#b)", guide, guide) == "[a](../study.md#b)"
    assert mend("[a](../../CHANGELOG.md)", guide, guide) == "[a](../changelog.md)"
    assert mend("[a](../../LICENSE)", guide, guide) == f"[a]({repository}/LICENSE)"
    assert mend("[a](https://b.org/c)", guide, guide) == "[a](https://b.org/c)"
    top = mend("[a](docs/guides/one.md)", "CONTRIBUTING.md", "docs/contributing.md")
    assert top == "[a](guides/one.md)"


def test_descriptions_go_below_names_in_sections_of_names_alone() -> None:
    lines = ["Note : this", "", "Parameters", "----------", "a, b : the two", "    of them", ""]
    below = extension("house_docstrings").with_descriptions_below(lines)
    assert below == [*lines[:4], "a, b", "    the two", "    of them", ""]


def test_the_page_of_a_command_has_the_options_of_its_help() -> None:
    commands = extension("command_line")
    for name in commands.COMMANDS:
        with captured() as said:
            execute(name, "--help")
        helped = re.findall(r"^│ (?:\*  |   )?(--[a-z][a-z-]*)", said.getvalue(), re.MULTILINE)
        shown = re.findall(r"^`(--[a-z][a-z-]*)", commands.markdown_of(name), re.MULTILINE)
        assert [*dict.fromkeys(helped)] == shown, name


def test_the_expert_settings_are_those_of_set_help() -> None:
    listed = extension("command_line").expert_settings()
    expert = [one.name.replace("_", "-") for one in options_of() if one.metadata["expert"]]
    assert re.findall(r"^`([a-z-]+)`\n: ", listed, re.MULTILINE) == expert
