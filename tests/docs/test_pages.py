"""Every code block of the documentation runs, and every link leads somewhere."""

import json
import re
import sys
import tempfile
from pathlib import Path

import pytest
from docs.blocks import ROOT, Page, captured, pages, run_page
from docs.folders import FOLDERS, Folders

import ndflow
from ndflow.cli.app import COMMANDS

PAGES = pages()
LANGUAGES = {"sh", "python", "json", "yaml", "text"}

_LINK = re.compile(r"!?\[(?:[^][]|\[[^]]*\])*\]\(<?(?![a-z]+:)([^)\s>#]*)#?([^)\s>]*)>?\)")


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("docs"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.has_code and not page.needs_torch],
    ids=lambda page: page.name,
)
def test_the_page_runs(page: Page, folders: Folders) -> None:
    with folders.copy_for(page) as folder:
        run_page(page, folder)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])  # which take seconds
    names = {"__name__": "a_study"}
    text = (ROOT / "docs" / "notebooks" / "a-study.ipynb").read_text(encoding="utf-8")
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] or cell["execution_count"], "run make notebooks"
            with captured():
                exec(compile("".join(cell["source"]), "a-study.ipynb", "exec"), names)
    sys.modules["matplotlib.pyplot"].close("all")


def anchors_of(path: Path) -> set[str]:
    """Return the anchors of headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,6} +(.*?) *$", path.read_text("utf-8"), re.MULTILINE)
    plain = (re.sub(r"!?\[([^]]*)\]\([^)]*\)|[`*]", r"\1", one).lower() for one in headings)
    return {re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_say_what_they_are_and_links_lead_somewhere(page: Page) -> None:
    assert {block.language for block in page.blocks} <= LANGUAGES
    assert {*page.folders} <= {*FOLDERS}
    assert page.folders or not page.has_code, "write <!-- runs with: NAME --> below the title"
    for file, anchor in _LINK.findall(page.prose):
        target = (page.path.parent / file).resolve() if file else page.path
        assert target.exists(), file
        assert not anchor or anchor in anchors_of(target), f"{file}#{anchor}"
    tops = [ROOT, ROOT / "src" / "ndflow", ROOT / "docs"]
    example = {"methods/percentile.py", "study/brightness_step.py"}
    for name in re.findall(r"`((?:\w+/)+\w+\.py)\b", page.text):
        assert name in example or any((top / name).exists() for top in tops), name


def test_the_reference_names_every_public_name_and_command() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    named = re.findall(r"^(?:   |## ndflow\.)(\w+)$", page, re.MULTILINE)
    assert sorted([*named, "normalize"]) == sorted(ndflow.__all__)
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert re.findall(r"^```\{ndflow-command\} (\w+)$", page, re.MULTILINE) == [*COMMANDS]
