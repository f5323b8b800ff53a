"""Every code block of the documentation runs; `docs.blocks` says how."""

from pathlib import Path

import pytest
from docs.blocks import Block, Page, blocks_of, pages
from docs.folders import FOLDERS
from docs.run_blocks import BlockFailedError, run_block, run_page
from docs.with_folders import Folders

PAGES = pages()
WITH_CODE = [page for page in PAGES if page.has_code and not page.needs_torch]


def page_of(tmp_path: Path, text: str) -> Page:
    page = Page(Path(__file__).parents[2] / "docs" / "some.md", text)
    run_page(page, tmp_path)
    return page


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_the_page_runs(page: Page, folders: Folders) -> None:
    with folders.copy_for(page) as folder:
        run_page(page, folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Page) -> None:
    for block in page.blocks:
        where = f"{page.name}, line {block.line}"
        assert block.not_run is None or len(block.not_run) > 10, f"{where}: not run, but why?"
        assert not block.comment.startswith("not run") or block.not_run is not None, where
        assert block.language, f"{where}: write sh, python or text after the fence"
    if page.has_code:
        known = ", ".join((*FOLDERS, "reports"))
        assert page.folders is not None, (
            f"{page.name} has code: write <!-- runs with: NAME --> below its title, "
            f"where NAME is one of {known}"
        )
        assert {*page.folders} <= {*FOLDERS, "reports"}, f"{page.name}: known are {known}"


def test_few_blocks_are_not_run() -> None:
    """So that this stays the exception: what cannot be run is to install, submit or connect."""
    left = [
        f"{page.name}, line {block.line}: {block.not_run}"
        for page in PAGES
        for block in page.blocks
        if block.not_run is not None
    ]
    run = sum(block.language in ("sh", "python") for page in PAGES for block in page.blocks)
    assert len(left) < run / 2, "\n".join(left)


# ── the runner itself ────────────────────────────────────────────────────────────────────────────


def test_blocks_are_found_in_lists_and_directives_with_their_comments() -> None:
    text = (
        "<!-- file: a.tsv -->\n```text\na\n```\n"
        "- one\n\n  ```sh\n  ndflow\n  ```\n"
        "````{note}\n```python\nx = 1\n```\n````\n"
    )
    assert [*blocks_of(text)] == [
        Block("text", "a\n", 2, "file: a.tsv"),
        Block("sh", "ndflow\n", 7),
        Block("python", "x = 1\n", 11),
    ]


def test_names_and_files_stay_for_the_blocks_below(tmp_path: Path) -> None:
    page_of(
        tmp_path,
        "<!-- file: words/a.txt -->\n```text\none\n```\n"
        "```python\nfrom pathlib import Path\nword = Path('words/a.txt').read_text()\n```\n"
        "```python\n>>> word.strip()\n'one'\n```\n"
        "```sh\ncp words/a.txt b.txt  # a comment\nword=$(cat b.txt)\ntest $word = one\n```\n",
    )
    assert (tmp_path / "b.txt").exists()


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("sh", "ndflow verify nowhere\n", "nowhere"),
        ("sh", "ls nowhere\n", "nowhere"),
        ("sh", "true | false\n", "ended with 1"),
        ("python", "1 / 0\n", "division by zero"),
        ("python", ">>> 1 + 1\n3\n", "Got:"),
        ("json", "{,}\n", "Expecting"),
        ("yaml", "a: [\n", "parsing"),
        ("toml", "a =\n", "Invalid"),
        ("", "ndflow\n", "a block of no language"),
    ],
)
def test_a_block_that_does_not_run_fails(
    tmp_path: Path, language: str, text: str, said: str
) -> None:
    with pytest.raises(BlockFailedError, match=r"docs/some\.md, line 2") as failure:
        page_of(tmp_path, f"\n```{language}\n{text}```\n")
    assert said in str(failure.value)


def test_a_block_that_is_not_run_is_not_run() -> None:
    run_block(Block("python", "1 / 0", 1, "not run: it divides by zero"), {})
