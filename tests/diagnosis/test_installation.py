"""What is installed, compared with what the metadata of the package ask for."""

import importlib.metadata
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import ndflow
from ndflow.diagnosis.installation import EXTRAS, Extra, Installation, installation

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
FOR_DEVELOPERS = {"all", "dev", "docs", "study"}  # `all` is made of others


class Site:
    """A folder of installed packages that comes before all others."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.syspath_prepend(folder)

    def install(self, name: str, version: str, *lines: str) -> None:
        metadata = self.folder / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        first = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
        metadata.write_text("\n".join([*first, *lines, ""]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def extra(found: Installation, name: str) -> Extra:
    (one,) = (extra for extra in found.extras if extra.name == name)
    return one


def test_every_extra_for_users_is_known() -> None:
    assert set(EXTRAS) == set(PROJECT["project"]["optional-dependencies"]) - FOR_DEVELOPERS


def test_extras_that_bring_torch_are_known() -> None:
    brings = {"torchio", "monai", "deepbet", "torch"}
    for name, needs in PROJECT["project"]["optional-dependencies"].items():
        if name in EXTRAS:
            torch = bool(brings & {Requirement(one).name for one in needs})
            assert Extra(name, ()).needs_torch == torch, name


def test_what_is_needed_is_compared_with_what_is_there(site: Site) -> None:
    site.install(
        "ndflow",
        ndflow.__version__,
        "Requires-Dist: numpy>=2.0",
        "Requires-Dist: nowhere-to-be-found",
        "Requires-Dist: much-too-old>=2.0,<3",
        "Requires-Dist: unknown; python_version < '3.11'",
        "Requires-Dist: incomplete; extra == 'report'",
        "Requires-Dist: numpy>=2.0; extra == 'report'",
        "Requires-Dist: scipy>=1.13; extra == 'evaluate'",
        "Provides-Extra: dev",
        "Provides-Extra: report",
        "Provides-Extra: evaluate",
    )
    site.install("much-too-old", "1.9")
    site.install("incomplete", "1", "Requires-Dist: left-out", "Requires-Dist: x; extra == 'all'")
    found = installation()
    assert found.broken == ("nowhere-to-be-found", "much-too-old<3,>=2.0 (here 1.9)")
    assert [one.name for one in found.extras] == ["report", "evaluate"]
    assert extra(found, "report").missing == ("left-out (for incomplete)",)
    assert extra(found, "report").install == "pip install 'ndflow[report]'"
    assert extra(found, "evaluate").missing == ()
    (scipy,) = extra(found, "evaluate").packages
    assert scipy.version == importlib.metadata.version("scipy")


def test_metadata_of_another_version_are_noticed(site: Site) -> None:
    site.install("ndflow", "0.0.9")
    found = installation()
    assert (found.ndflow, found.metadata) == (ndflow.__version__, "0.0.9")


def test_a_source_that_was_not_installed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("ndflow.diagnosis.installation.distribution", nothing)
    found = installation()
    assert (found.metadata, found.packages, found.extras) == ("", (), ())


def test_without_packaging_names_are_compared(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("packaging", "packaging.requirements", "packaging.specifiers"):
        monkeypatch.setitem(sys.modules, name, None)  # it cannot be imported
    site.install(
        "ndflow",
        ndflow.__version__,
        "Requires-Dist: numpy>=2.0",
        "Requires-Dist: packaging>=24.0",
        "Requires-Dist: nowhere-to-be-found[fast]>=1",
        "Requires-Dist: unknown; python_version < '3.11'",
        "Requires-Dist: left-out>=1; extra == 'report'",
        "Requires-Dist: left-out-too; extra == 'evaluate'",
        "Provides-Extra: report",
    )
    found = installation()
    assert found.broken == ("packaging", "nowhere-to-be-found")
    assert extra(found, "report").missing == ("left-out",)
