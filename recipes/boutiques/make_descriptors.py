"""Write the Boutiques descriptors of `ndflow` from its own command line.

    python recipes/boutiques/make_descriptors.py

Names, types, defaults, choices and explanations are those of ``ndflow COMMAND --help``, taken from
the same parser; only the files that a command writes are listed here. The same source gives the
same files, and a test fails when they are out of date.

What the help shows in the place of a value says what the value is: ``FILE|auto|brain...`` is a list
of files, or one of two words. Boutiques has one type per input, so this becomes two inputs,
``mask`` and ``mask_by_word``, of which one may be given. ``ndflow cohort`` has no descriptor: its
scans are named in a table, where platforms that bring files to the tool do not see them.
"""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import ndflow.cli.app as command_line
from ndflow._version import __version__

HERE = Path(__file__).parent

FILES = ("BIDS_DIR", "DIR", "FILE", "IMAGE", "MODEL_OR_IMAGE")
STRINGS = (
    "ADDRESS",
    "FILE.html",
    "LABEL",
    "NAME",
    "NAME=IMAGE",
    "NAME=VALUE",
    "OUT",
    "PART/PARTS",
    "TISSUE=FILE",
)
SAME_AS = {"REFERENCE": "FILE|builtin:T1w", "TARGET": "FILE|builtin:T1w"}
IMAGES = [".nii.gz", ".nii", ".mgz", ".mgh"]

# For each command, what it writes: id, name, path, and whether it may be absent.
OUTPUTS: dict[str, tuple[tuple[str, str, str, bool], ...]] = {
    "fit": (("mixture", "The mixture, or a folder of mixtures", "[OUTPUT]", False),),
    "reference": (("reference", "The reference", "[OUTPUT]", False),),
    "normalise": (
        ("image", "The normalised image, or a folder of images", "[OUTPUT]", False),
        ("sidecar", "The sidecar of the image, with its intensity map", "[OUTPUT].json", True),
        ("page", "The page that shows what happened", "[REPORT]", True),
    ),
    "bids": (
        ("derivative", "The BIDS derivative", "[OUT]", False),
        ("report", "The page that shows what happened", "[OUT]/report.html", True),
        ("common_reference", "The average density of all scans", "[OUT]/reference.json", True),
        ("failures", "The scans that failed, and why", "[OUT]/failures.tsv", True),
    ),
}


def path_of(command: str) -> Path:
    """Return where the descriptor of a command is."""
    return HERE / f"ndflow-{command}.json"


def descriptor(command: str) -> dict[str, Any]:
    """Return the descriptor of a command."""
    parser = command_line.app[command]
    text = inspect.cleandoc(str(parser.help)).partition("\n\nParameters\n")[0]
    # Without examples, which show how the command is typed.
    example = re.compile(r".*: `ndflow \w+ .*`\s*", re.DOTALL)
    paragraphs = [one for one in text.split("\n\n") if not example.fullmatch(one)]
    inputs: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    for argument in parser.assemble_argument_collection(parse_docstring=True):
        if argument.name == "*":  # a group of options, each of which is listed by itself
            continue
        alternatives = list(_inputs(argument))
        inputs += alternatives
        if len(alternatives) > 1:
            groups.append(_group(argument, alternatives))
    _name_apart(inputs, groups)
    # Arguments come first, so that no option with several values takes them for its own.
    keys = [one["value-key"] for one in inputs]
    return {
        "name": f"ndflow {command}",
        "description": _plain(" ".join(paragraphs)),
        "tool-version": __version__,
        "schema-version": "0.5",
        "command-line": " ".join(["ndflow", command, *keys]),
        "inputs": inputs,
        **({"groups": groups} if groups else {}),
        "output-files": [_output(*one) for one in OUTPUTS[command]],
        "error-codes": list(_error_codes()),
        "tags": {"domain": ["neuroinformatics", "MRI", "intensity normalisation"]},
    }


def _inputs(argument: Any) -> Iterator[dict[str, Any]]:
    """Yield the inputs for one argument or option: several, if its values are of several kinds."""
    for suffix, kind in _kinds(argument):
        name = argument.names[0].removeprefix("--")
        key = f"{name.replace('-', '_')}{suffix}"
        yield {
            "id": key.lower(),
            "name": f"{name.lower().replace('-', ' ')}{suffix.replace('_', ' ')}",
            "description": _plain(str(argument.parameter.help or "")),
            "value-key": f"[{key.upper()}]",
            **({} if argument.index is not None else {"command-line-flag": argument.names[0]}),
            "optional": not argument.required,
            **kind,
            **_default(argument, kind),
        }


def _kinds(argument: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what kinds of values an argument takes, each with an ending for the name."""
    hint, several = _single(argument.hint)
    if hint is bool:
        yield "", {"type": "Flag"}
        return
    lists = _list(argument, several)
    if get_origin(hint) is Literal:
        yield "", {"type": "String", "value-choices": list(get_args(hint)), **lists}
        return
    if hint in (int, float):
        yield "", {"type": "Number", **({"integer": True} if hint is int else {}), **lists}
        return
    shown = str(argument.parameter.metavar)
    words = []
    for alternative in SAME_AS.get(shown, shown).split("|"):
        label = re.sub(r"^\[.*?\]", "", alternative.removesuffix("..."))  # [NAME=]DIR: DIR
        if label in FILES:
            yield "", {"type": "File", **lists}
        elif label in STRINGS:
            yield ("_by_channel" if label == "NAME=IMAGE" else ""), {"type": "String", **lists}
        elif re.fullmatch(r"[a-z]+(:\w+)?", label):
            words.append(label)
        else:
            raise SystemExit(
                f"{argument.name}: it is not known whether {label} is a file or a word; "
                f"add it to FILES or STRINGS in {Path(__file__).name}"
            )
    if choices := [word for word in words if word != "none"]:  # the same as leaving it out
        yield "_by_word", {"type": "String", "value-choices": choices}


def _single(hint: Any) -> tuple[Any, int | None]:
    """Return the type of one value, and how many there are: 1, another number, or None for any."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is tuple:
        values = get_args(hint)
        return values[0], None if values[-1] is Ellipsis else len(values)
    return hint, 1


def _list(argument: Any, several: int | None) -> dict[str, Any]:
    if several == 1:
        return {}
    if several is not None:
        return {"list": True, "min-list-entries": several, "max-list-entries": several}
    if argument.index is None and not argument.parameter.consume_multiple:  # repeated: -x 1 -x 2
        return {"list": True, "list-separator": f" {argument.names[0]} "}
    return {"list": True, "min-list-entries": 1}


def _default(argument: Any, kind: dict[str, Any]) -> dict[str, Any]:
    value, shown = argument.field_info.default, argument.parameter.show_default
    if value is None and isinstance(shown, str):  # what the help shows
        value = shown
    if argument.required or kind["type"] == "Flag" or value is None or value == ():
        return {}
    return {"default-value": list(value) if isinstance(value, tuple) else value}


def _group(argument: Any, alternatives: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rule that one of several inputs is given, and make each of them optional."""
    for one in alternatives:
        one["optional"] = True
    return {
        "id": f"{alternatives[0]['id']}_group",
        "name": f"one kind of {alternatives[0]['name']}",
        "members": [one["id"] for one in alternatives],
        "mutually-exclusive": True,
        **({"one-is-required": True} if argument.required else {}),
    }


def _name_apart(inputs: list[dict[str, Any]], groups: list[dict[str, Any]]) -> None:
    """Refuse two inputs of one name, which Boutiques could not tell apart."""
    names = [one["id"] for one in (*inputs, *groups)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SystemExit(f"there are two inputs called {', '.join(sorted(twice))}")


def _output(key: str, name: str, path: str, optional: bool) -> dict[str, Any]:
    strip = {"path-template-stripped-extensions": IMAGES} if path.endswith("].json") else {}
    return {"id": key, "name": name, "path-template": path, "optional": optional, **strip}


def _error_codes() -> Iterator[dict[str, Any]]:
    """Yield the exit codes other than 0, from the table at the top of `ndflow.cli.app`."""
    rows = re.findall(r"^\| *(\d*) *\| (.*?) *\|$", str(command_line.__doc__), re.MULTILINE)
    found: dict[str, str] = {}
    last = ""
    for code, words in rows:
        last = code or last
        found[last] = f"{found.get(last, '')} {words}".strip()
    yield from ({"code": int(code), "description": found[code]} for code in found if code != "0")


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())


def main() -> None:
    """Write the descriptors."""
    for command in OUTPUTS:
        text = json.dumps(descriptor(command), indent=2, ensure_ascii=False)
        path_of(command).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
