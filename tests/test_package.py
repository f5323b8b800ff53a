"""The package around the code: versions that agree, a container, a recipe, workflows, templates."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import ndflow
from ndflow.methods.base import Method

HOME = "https://github.com/ndflow/ndflow"
PAPER = Method.bibtex
ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]
ON_CONDA = {"isal": "python-isal", "matplotlib": "matplotlib-base", "dask": "dask-core"}


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def parsed(name: str) -> Any:
    return yaml.safe_load(text(name))


# ── versions and addresses ───────────────────────────────────────────────────────────────────────


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
    found = re.search(pattern, text(name), re.MULTILINE)
    assert found is not None
    assert found[1] == ndflow.__version__


# ── citation ─────────────────────────────────────────────────────────────────────────────────────


# ── containers and recipe ────────────────────────────────────────────────────────────────────────


def test_the_dockerfile_is_sound() -> None:
    program = Path(sys.executable).parent / "hadolint"
    if not program.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run([program, "--no-color", ROOT / "Dockerfile"], capture_output=True)
    assert (done.returncode, done.stdout.decode()) == (0, "")


def test_containers_hold_what_the_build_reads_and_nothing_else() -> None:
    kept = re.findall(r"^!(.*)$", text(".dockerignore"), re.MULTILINE)
    read = {"pyproject.toml", *PROJECT["license-files"], "README.md", "src"}
    assert set(kept) == read
    copied = set(re.findall(r"^ +(\S+) /source/", text("apptainer.def"), re.MULTILINE))
    assert copied == read


def on_conda(requirement: str) -> str:
    one = Requirement(requirement)
    return f"{ON_CONDA.get(one.name, one.name)} {one.specifier}"


def test_the_recipe_needs_what_the_package_needs() -> None:
    plain = re.sub(r"{%.*?%}|{{.*?}}", "", text("conda/meta.yaml"))
    recipe = yaml.safe_load(plain)
    python = f"python {PROJECT['requires-python']}"
    needs = recipe["requirements"]
    assert needs["run"][0] == python
    assert sorted(needs["run"][1:]) == sorted(map(on_conda, PROJECT["dependencies"]))
    assert sorted(needs["host"]) == sorted([python, "pip", *map(on_conda, BUILD["requires"])])
    extras = PROJECT["optional-dependencies"]
    offered = {on_conda(one) for name in ("report", "evaluate", "cluster") for one in extras[name]}
    assert set(needs["run_constrained"]) <= offered
    script = PROJECT["scripts"]["ndflow"]
    assert recipe["build"]["entry_points"] == [f"ndflow = {script}"]


# ── GitHub ───────────────────────────────────────────────────────────────────────────────────────


def test_the_citation_file_says_the_same() -> None:
    cff = parsed("CITATION.cff")
    # What version 1.2 of the format requires.
    assert cff["cff-version"] == "1.2.0"
    assert all(cff[key] for key in ("message", "title", "authors"))
    assert all("name" in one or "family-names" in one for one in cff["authors"])
    paper = cff["preferred-citation"]
    assert all(paper[key] for key in ("type", "title", "authors"))
    assert (cff["license"], cff["url"]) == (PROJECT["license"], HOME)
    # And what it says about the paper.
    fields = dict(re.findall(r"^ +(\w+) += \{(.*)\},$", PAPER, re.MULTILINE))
    plain = {name: re.sub(r"[{}]", "", value) for name, value in fields.items()}
    names = [f"{one['family-names']}, {one['given-names']}" for one in paper["authors"]]
    assert " and ".join(names) == plain["author"]
    assert paper["title"] == plain["title"]
    assert paper["doi"] == plain["doi"]
    assert paper["collection-title"] == plain["booktitle"].replace("--", "–")
    assert f"{paper['start']}--{paper['end']}" == plain["pages"]
    assert (str(paper["year"]), str(paper["volume"])) == (plain["year"], plain["volume"])
    assert paper["publisher"]["name"] == plain["publisher"]
    assert paper["identifiers"][0]["value"] == f"arXiv:{plain['eprint']}"
