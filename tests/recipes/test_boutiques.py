import json
import shlex
from dataclasses import is_dataclass
from typing import Any

from recipe_place import ROOT, Place, block_of_page, command_of_page
from studies import content

from ndflow.cli.app import app

DESCRIPTORS = {
    path.stem.removeprefix("ndflow-"): json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "recipes/boutiques").glob("*.json"))
}

# Prints the command line that Boutiques makes of each invocation in a file.
_RENDER = """
import json, sys
from boutiques.localExec import LocalExecutor
options = {"forcePathType": True, "sandbox": False, "skipDataCollect": True}
lines = []
for number, (path, invocation) in enumerate(json.load(open(sys.argv[1]))):
    with open(f"{number}.json", "w") as file:
        json.dump(invocation, file)
    lines.append(LocalExecutor(path, f"{number}.json", options).cmd_line[0])
print(json.dumps(lines))
"""


def test_descriptors_are_valid_and_the_page_normalises_a_scan(place: Place) -> None:
    place.well("for one in recipes/boutiques/*.json; do bosh validate $one || exit; done")
    images = place.by_hand()
    (place.path / "by hand/reference.json").rename(place.path / "reference.json")
    invocation = block_of_page("json", "images")
    (place.path / "invocation.json").write_text(invocation, encoding="utf-8")
    place.well(command_of_page("bosh"))
    assert content(place.path / "normalised.nii.gz") == images["sub-01"]


def test_every_input_reaches_the_parser(place: Place) -> None:
    cases = [
        (command, one, invocation(descriptor, one))
        for command, descriptor in DESCRIPTORS.items()
        for one in descriptor["inputs"]
    ]
    (place.path / "file").touch()
    paths = {name: f"recipes/boutiques/ndflow-{name}.json" for name in DESCRIPTORS}
    asked = [(paths[command], given) for command, _, given in cases]
    (place.path / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    (place.path / "render.py").write_text(_RENDER, encoding="utf-8")
    lines = json.loads(place.well("python render.py asked.json").splitlines()[-1])
    for (command, one, given), line in zip(cases, lines, strict=True):
        program, *words = shlex.split(line)
        assert (program, words[0]) == ("ndflow", command)
        bound = app.parse_args(words, exit_on_error=False, print_error=False)[1].arguments
        name = one["id"].removesuffix("_by_word").removesuffix("_by_channel")
        name = "expert" if name == "set" else name
        assert shown(found(bound, name)) == shown(given[one["id"]]), line


def invocation(descriptor: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Return the least that the command needs, and one more input."""
    groups = descriptor.get("groups", [])
    mine = next((group for group in groups if one["id"] in group["members"]), None)
    needed = [other for other in descriptor["inputs"] if not other["optional"]]
    firsts = [group["members"][0] for group in groups if group.get("one-is-required")]
    if mine is not None:
        firsts = [first for first in firsts if first not in mine["members"]]
    needed += [other for other in descriptor["inputs"] if other["id"] in firsts]
    return {other["id"]: value(other) for other in (*needed, one)}


def value(one: dict[str, Any]) -> Any:
    """Return a value for an input, other than its default."""
    plain = {"File": "file", "Flag": True, "Number": 7, "String": "a b"}[one["type"]]
    single = one.get("value-choices", [plain])[-1]
    if not one.get("list"):
        return single
    return [3, 7] if one["type"] == "Number" else [single, "file"]


def found(bound: dict[str, Any], name: str) -> Any:
    """Return an argument, by itself or among the settings that are given together."""
    groups = [bound]
    for group in groups:
        if name in group:
            return group[name]
        groups += [vars(one) for one in group.values() if is_dataclass(one)]
    raise KeyError(name)


def shown(given: Any) -> str:
    several = given if isinstance(given, list | tuple) else [given]
    return " ".join(f"{one:g}" if isinstance(one, float | int) else str(one) for one in several)
