"""The package around the code: versions that agree, containers, recipes, the citation."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import ndflow

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = SETTINGS["project"]
ON_CONDA = {"isal": "python-isal", "matplotlib": "matplotlib-base", "dask": "dask-core"}


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("CITATION.cff", r"^version: (.*)$"),
        ("Dockerfile", r"^ARG VERSION=(.*)$"),
        ("apptainer.def", r"^ +org.opencontainers.image.version (.*)$"),
        ("conda/meta.yaml", r'^{% set version = "(.*)" %}$'),
        ("CHANGELOG.md", r"^## \[(.*?)\]"),  # the first is the newest
    ],
)
def test_every_file_names_this_version(name: str, pattern: str) -> None:
    assert re.findall(pattern, text(name), re.MULTILINE)[0] == ndflow.__version__


def test_containers_hold_what_the_build_reads_and_nothing_else() -> None:
    read = {"pyproject.toml", *PROJECT["license-files"], "README.md", "src"}
    assert {*re.findall(r"^!(.*)$", text(".dockerignore"), re.MULTILINE)} == read
    assert {*re.findall(r"^ +(\S+) /source/", text("apptainer.def"), re.MULTILINE)} == read


def on_conda(requirements: list[str]) -> list[str]:
    parsed = map(Requirement, requirements)
    return sorted(f"{ON_CONDA.get(one.name, one.name)} {one.specifier}" for one in parsed)


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    recipe = yaml.safe_load(re.sub(r"{%.*?%}|{{.*?}}", "", text("conda/meta.yaml")))
    python, needs = f"python {PROJECT['requires-python']}", recipe["requirements"]
    built = on_conda(SETTINGS["build-system"]["requires"])
    assert sorted(needs["run"]) == sorted([python, *on_conda(PROJECT["dependencies"])])
    assert sorted(needs["host"]) == sorted([python, "pip", *built])
    extras = PROJECT["optional-dependencies"]
    offered = [one for name in ("report", "evaluate", "cluster") for one in extras[name]]
    assert {*needs["run_constrained"]} <= {*on_conda(offered)}


def test_boutiques_descriptors_are_up_to_date() -> None:
    making = runpy.run_path(str(ROOT / "recipes" / "boutiques" / "make_descriptors.py"))
    for command in making["OUTPUTS"]:
        written = json.loads(making["path_of"](command).read_text(encoding="utf-8"))
        assert making["descriptor"](command) == written, "run recipes/boutiques/make_descriptors.py"
