import json

from recipe_place import Place, block_of_page, command_of_page

from ndflow.cli.app import app

# Runs the examples of the interfaces, and prints their options, by command.
_LOOK = """
import doctest, json, ndflow_nipype
assert doctest.testmod(ndflow_nipype) == (0, 2)
options = {}
for one in (ndflow_nipype.Fit, ndflow_nipype.Normalise, ndflow_nipype.Reference):
    words = [trait.argstr for trait in one.input_spec().traits().values()]
    options[one._cmd] = [word.split()[0] for word in words if word and word.startswith("--")]
print(json.dumps(options))
"""


def test_workflow_and_node_of_the_page_give_what_the_commands_give(place: Place) -> None:
    place.well(command_of_page("python"))
    assert place.images("results/images/{}_T1w_ndflow.nii.gz") == place.by_hand()
    (place.path / "by hand/reference.json").rename(place.path / "reference.json")
    code = block_of_page("python", "Normalise")
    (place.path / "recipes/nipype/own.py").write_text(code, encoding="utf-8")
    said = place.well("python recipes/nipype/own.py")
    assert "sub-01_T1w_ndflow.json" in said.splitlines()[-1]


def test_interfaces_have_options_that_exist(place: Place) -> None:
    for name in ("scan.nii.gz", "brain.nii.gz", "reference.json"):  # of the examples
        (place.path / name).touch()
    (place.path / "recipes/nipype/look.py").write_text(_LOOK, encoding="utf-8")
    found = json.loads(place.well("python recipes/nipype/look.py").splitlines()[-1])
    assert {"--mask", "--to", "--output"} <= {*found["ndflow normalise"]}
    for command, options in found.items():
        arguments = app[command.split()[1]].assemble_argument_collection()
        assert {*options} <= {name for one in arguments for name in one.names}
