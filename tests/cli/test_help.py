"""The help of each command: two groups of options, each explained in plain sentences."""

import re
from typing import Any

import pytest
from commands import Run

from ndflow.cli.app import COMMANDS, app


def options(command: str) -> list[Any]:
    """Return the options of a command with their help, as its parser knows them."""
    arguments = app[command].assemble_argument_collection(parse_docstring=True)
    return [one for one in arguments if one.name.startswith("-") and one.parse and one.show]


def sections(text: str) -> dict[str, list[str]]:
    """Return the options that a page of help shows, by the title of their group."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if title := re.match(r"╭─ (.*?) ─", line):
            found[title[1]] = []
        elif name := re.match(r"│ (?:\*  |   )? ?(--?[a-z-]+|[A-Z_]+) ", line):
            found[list(found)[-1]].append(name[1])
    return found


@pytest.mark.parametrize("width", ["80", "100"])
@pytest.mark.parametrize("command", COMMANDS)
def test_arguments_come_first_then_few_options_then_the_rest(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    shown = run(command, "--help").out
    assert max(map(len, shown.splitlines())) <= int(width)
    found = sections(shown)
    titles = ["Options"] if command == "doctor" else ["Arguments", "Options", "Advanced options"]
    assert list(found) == titles
    assert 2 <= len(found["Options"]) <= 10
    names = {one.name for one in options(command)}
    assert {*found["Options"], *found.get("Advanced options", ())} == names


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_is_explained_in_sentences_and_offers_a_choice(command: str) -> None:
    for option in options(command):
        text = " ".join(option.parameter.help.split())
        assert re.fullmatch(r"[A-Z].*\.", text), (option.name, text)
        assert len(option.get_choices() or "ab") > 1, option.name
        # What is left out is a flag that is off, or the help names the default.
        without = option.field_info.default in (None, ()) and not option.required
        told = re.search("Default: |Instead of ", text) or option.name in ("--scale", "--range")
        assert told or not without, (option.name, text)


def test_what_most_people_need_is_the_same_in_cohort_and_bids(run: Run) -> None:
    for command in ("cohort", "bids"):
        first = sections(run(command, "--help").out)["Options"]
        assert {"--mask", "--preset", "--jobs", "--dry-run", "--quiet"} <= {*first}
        assert {"--set", "solver=--max-bytes", "--effective-count"}.isdisjoint(first)
