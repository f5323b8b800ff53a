"""The package around the code: versions that agree, a container, a recipe, workflows, templates."""

import json
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
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
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


def test_the_day_of_this_version_is_that_of_the_changelog() -> None:
    day = parsed("CITATION.cff")["date-released"]
    assert f"## [{ndflow.__version__}] - {day}\n" in text("CHANGELOG.md")


def test_every_address_is_that_of_the_project() -> None:
    assert PROJECT["urls"]["Homepage"] == PROJECT["urls"]["Source"] == HOME
    assert PROJECT["urls"]["Issues"] == f"{HOME}/issues"
    owner = HOME.removeprefix("https://github.com/").partition("/")[0]
    names = ["Dockerfile", "apptainer.def", "conda/meta.yaml", "CITATION.cff", "SECURITY.md"]
    names += ["pyproject.toml", ".github/ISSUE_TEMPLATE/config.yml"]
    for name in names:
        places = re.findall(r"(?:github\.com|githubusercontent\.com)/([\w-]+/[\w-]+)", text(name))
        assert places, name
        assert set(places) == {f"{owner}/ndflow"}, name


def test_the_versions_of_python_that_are_claimed_are_tested() -> None:
    claimed = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if ":: 3." in one]
    assert claimed[0] == PROJECT["requires-python"].removeprefix(">=")
    workflow = parsed(".github/workflows/tests.yml")
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == claimed


# ── citation ─────────────────────────────────────────────────────────────────────────────────────


def test_the_paper_is_cited_as_in_the_bibliography() -> None:
    assert f"\n{PAPER}\n" in text("docs/references.bib")


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


# ── containers and recipe ────────────────────────────────────────────────────────────────────────


def test_the_dockerfile_is_sound() -> None:
    program = Path(sys.executable).parent / "hadolint"
    if not program.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run([program, "--no-color", ROOT / "Dockerfile"], capture_output=True)
    assert (done.returncode, done.stdout.decode()) == (0, "")


@pytest.mark.parametrize("name", ["Dockerfile", "apptainer.def"])
def test_a_container_installs_extras_that_exist_and_no_torch_by_default(name: str) -> None:
    found = re.search(r"^(?:ARG| +) ?EXTRAS=([\w,]+)$", text(name), re.MULTILINE)
    assert found is not None
    assert (
        set(found[1].split(",")) == {"report", "evaluate"} <= set(PROJECT["optional-dependencies"])
    )
    torch = re.search(r"TORCH=(\S+)$", text(name), re.MULTILINE)
    assert torch is not None
    assert f"TORCH := {torch[1]}\n" in text("Makefile")


def test_containers_are_bids_apps_and_nobody_is_root() -> None:
    docker = text("Dockerfile")
    entry = re.findall(r"^ENTRYPOINT (.*)$", docker, re.MULTILINE)
    assert [json.loads(one) for one in entry] == [["ndflow", "bids"]]
    assert re.findall(r"^USER (.*)$", docker, re.MULTILINE) == ["1000"]
    assert 'exec ndflow bids "$@"' in text("apptainer.def")


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


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_do_little_and_uses_targets_that_exist(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    assert True in workflow  # "on", which is a truth value in YAML 1.1
    targets = set(re.findall(r"^([\w-]+):.*## ", text("Makefile"), re.MULTILINE))
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v1)", step["uses"])
            for target in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
                assert target in targets


def test_a_release_is_published_without_a_password() -> None:
    jobs = parsed(".github/workflows/release.yml")["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"]["name"] == "pypi"
    assert not re.search(
        "password|secrets", text(".github/workflows/release.yml").partition("name")[2]
    )
    assert any("attest-build-provenance" in step.get("uses", "") for step in jobs["build"]["steps"])


def test_the_templates_ask_for_the_doctor() -> None:
    assert {path.stem for path in TEMPLATES} == {"bug", "config", "idea"}
    for path in TEMPLATES:
        template = yaml.safe_load(path.read_text("utf-8"))
        if path.stem != "config":
            assert all(template[key] for key in ("name", "description", "body"))
            fields = {field.get("id"): field for field in template["body"]}
            assert "`ndflow doctor`" in fields["doctor"]["attributes"]["label"]
            required = fields["doctor"].get("validations", {}).get("required", False)
            assert required == (path.stem == "bug")


def test_the_policy_names_the_supported_version() -> None:
    newest = ndflow.__version__.rpartition(".")[0]
    assert f"The newest minor version ({newest})" in text("SECURITY.md")
