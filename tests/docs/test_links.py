"""Links within the documentation lead somewhere; ``make linkcheck`` tries those to other places."""

from pathlib import Path

import pytest
from docs.blocks import ROOT
from docs.links import Link, anchors_of, links_of

from docs.notebooks import Notebook

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")),
]
FIGURES = ROOT / "docs" / "figures"


def text_of(page: Path) -> str:
    if page.suffix == ".ipynb":
        cells = [cell for cell in Notebook(page).cells if cell["cell_type"] == "markdown"]
        return "\n\n".join("".join(cell["source"]) for cell in cells)
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_and_headings_that_are_linked_exist(page: Path) -> None:
    for link in links_of(text_of(page)):
        if link.is_address:
            continue
        target = (page.parent / link.target).resolve() if link.target else page
        assert target.exists(), f"{link.target}: there is no such file"
        assert target.is_relative_to(ROOT), f"{link.target} is outside of the repository"
        if link.anchor and target.suffix == ".md":
            near = [anchor for anchor in anchors_of(target) if anchor[:4] == link.anchor[:4]]
            said = f"{link.target}#{link.anchor}: no such heading; {near} are near"
            assert link.anchor in anchors_of(target), said


def test_every_figure_is_shown_somewhere_and_drawn_by_a_script() -> None:
    shown = {
        (page.parent / link.target).resolve()
        for page in PAGES
        for link in links_of(text_of(page))
        if link.image
    }
    stored = {path for path in FIGURES.iterdir() if path.is_file()}
    assert {path.name for path in stored - shown} == set()
    scripts = "".join(path.read_text("utf-8") for path in (ROOT / "experiments").glob("*.py"))
    for path in stored:
        several = f"{path.stem.partition('-')[0]}-*{path.suffix}"
        assert path.name in scripts or several in scripts, f"which script draws {path.name}?"


def test_links_are_found_and_those_in_code_are_not(tmp_path: Path) -> None:
    text = 'a [b [c]](d.md#e) ![f](g.svg "h") `[i](j)`\n```sh\n[k](l)\n```\n[m](https://n.org/o)'
    assert [*links_of(text)] == [
        Link("d.md", "e", image=False),
        Link("g.svg", "", image=True),
        Link("https://n.org/o", "", image=False),
    ]
    page = tmp_path / "page.md"
    page.write_text("# A `map`: of *two*\n## Same\n## Same\n(made)=\n## [Link](x.md) – 5 %\n")
    assert anchors_of(page) == {"a-map-of-two", "same", "same-1", "made", "link--5-"}
