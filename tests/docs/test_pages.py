"""Every code block of the documentation runs, and every link leads somewhere."""

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.blocks import ROOT, Page, captured, pages, prose_of, run_page
from docs.folders import FOLDERS, Folders

import ndflow
from ndflow.cli.app import COMMANDS

PAGES = pages()
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LANGUAGES = {"sh", "python", "json", "yaml", "text"}

_LINK = re.compile(r"!?\[(?:[^][]|\[[^]]*\])*\]\(<?([^)\s>]+)>?\)")
_CODE = re.compile(r"(`+)(?:(?!\1).)*\1")


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Page) -> None:
    assert {block.language for block in page.blocks} <= LANGUAGES
    assert {*page.folders} <= {*FOLDERS}
    assert page.folders or not page.has_code, "write <!-- runs with: NAME --> below the title"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = {"__name__": path.stem}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] or cell["execution_count"], "run make notebooks"
            with captured():
                exec(compile("".join(cell["source"]), path.name, "exec"), names)
    sys.modules["matplotlib.pyplot"].close("all")


# ── links ────────────────────────────────────────────────────────────────────────────────────────


def links_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the files and anchors that a page links to, except addresses and what is in code."""
    for target in _LINK.findall(_CODE.sub("code", prose_of(text))):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield file, anchor


def anchors_of(text: str) -> set[str]:
    """Return the anchors of headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,6} +(.*?) *$", prose_of(text), re.MULTILINE)
    plain = (re.sub(r"!?\[([^]]*)\]\([^)]*\)|[`*]", r"\1", one).lower() for one in headings)
    return {re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_headings_that_are_linked_exist(page: Page) -> None:
    for file, anchor in links_of(page.text):
        target = (page.path.parent / file).resolve() if file else page.path
        assert target.exists(), file
        assert not anchor or anchor in anchors_of(target.read_text("utf-8")), f"{file}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_are_named_exist(page: Page) -> None:
    tops = [ROOT, ROOT / "src" / "ndflow", ROOT / "docs"]
    example = {"methods/percentile.py", "study/brightness_step.py", "methods/test_percentile.py"}
    for name in re.findall(r"`((?:\w+/)+\w+\.py)\b", page.text):
        assert name in example or any((top / name).exists() for top in tops), name


def test_the_docs_that_the_package_names_exist() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|bib)", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path.name}: {name}"


def test_the_reference_names_every_public_name_and_command() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    named = re.findall(r"^(?:   |## ndflow\.)(\w+)$", page, re.MULTILINE)
    assert sorted([*named, "normalize"]) == sorted(ndflow.__all__)
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert re.findall(r"^```\{ndflow-command\} (\w+)$", page, re.MULTILINE) == [*COMMANDS]


def test_links_lead_to_pages_of_the_site_or_to_the_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("sphinx", reason="make docs installs it")
    monkeypatch.syspath_prepend(ROOT / "docs")
    from extensions.repository_links import REPOSITORY, on_the_site

    guide = "docs/guides/one.md"
    assert on_the_site("[a](../study.md#b)", guide, guide) == "[a](../study.md#b)"
    assert on_the_site("[a](../../CHANGELOG.md)", guide, guide) == "[a](../changelog.md)"
    assert on_the_site("[a](../../LICENSE)", guide, guide) == f"[a]({REPOSITORY}/LICENSE)"
    top = on_the_site("[a](docs/guides/one.md)", "CONTRIBUTING.md", "docs/contributing.md")
    assert top == "[a](guides/one.md)"


# ── the runner itself ────────────────────────────────────────────────────────────────────────────


BROKEN = [("sh", "ndflow verify nowhere"), ("sh", "true | false"), ("python", "1/0"), ("json", "{")]


@pytest.mark.parametrize(("language", "text"), BROKEN)
def test_a_block_that_does_not_run_fails(tmp_path: Path, language: str, text: str) -> None:
    page = Page(ROOT / "docs" / "some.md", f"\n```{language}\n{text}\n```\n")
    with pytest.raises(AssertionError, match=r"docs/some\.md, line 2"):
        run_page(page, tmp_path)
