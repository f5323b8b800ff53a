"""Pages of single subjects: on request, of their scans alone, and never in anybody's way."""

from pathlib import Path

import pytest
from commands import Run, typed
from pages import Html, ReportPage
from studies import SiteStudy


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = SiteStudy(tmp_path_factory.mktemp("subjects"), per_site=2)
    for number, row in enumerate(study.rows):
        row["subject"] = ["ann", "ann", "b/c", "dora", "dora", "eve"][number]
    table = study.table("t", study.rows, ["image", "site", "subject"])
    typed("cohort", table, study.folder / "out", "-q")
    return study.folder / "out"


def page_of(out: Path, subject: str) -> ReportPage:
    return ReportPage((out / f"report-{subject}.html").read_text("utf-8"))


def test_each_subject_has_a_page_of_its_own_scans(run: Run, out: Path) -> None:
    assert run("report", out, "--title", "Four people", "--subject-pages").code == 0
    names = {path.name for path in out.glob("report-*.html")}
    assert names == {f"report-{name}.html" for name in ("ann", "b%2Fc", "dora", "eve")}
    page = page_of(out, "ann")
    assert page.texts("h1") == ["Four people: ann"]
    assert set(page.rows) == page.embedded() == page.pictured() == {"s0", "s1"}
    assert not page.viewed()
    assert page_of(out, "b%2Fc").texts("h1") == ["Four people: b/c"]
    (sentence,) = page.texts("p", **{"class": "lead"})
    assert sentence.startswith("2 scans of this subject lie ")
    assert "Sites" not in page.texts("h2")
    (lead,) = page_of(out, "eve").texts("p", **{"class": "lead"})
    assert lead.startswith("1 scan of this subject lies ")


def test_the_study_knows_these_pages_and_a_changed_study_removes_them(
    run: Run, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("report", out, "--subject-pages").code == 0
    assert run("verify", out).code == 0
    mine = out / "report-mine.html"
    mine.write_text("<title>Mine</title>")
    ran = run("verify", out)
    assert ran.code == 1
    assert [line for line in ran.out.splitlines() if "foreign" in line] == [
        f"foreign: {mine}: not a file of this study"
    ]
    again = run("cohort", out.parent / "t.tsv", out, "-q", "--mode", "site")
    assert again.code == 0
    assert [path.name for path in out.glob("report*.html")] == ["report-mine.html"]
    mine.unlink()


def test_a_page_of_anybody_else_is_not_replaced(run: Run, out: Path) -> None:
    theirs = out / "report-eve.html"
    theirs.write_text("<title>Eve</title>")
    ran = run("report", out, "--subject-pages")
    assert ran.code == 2
    assert f"{theirs}: exists, and was not written by ndflow" in ran.err
    assert Html(theirs.read_text()).elements[0][0] == "title"
    theirs.unlink()


def test_scans_without_a_subject_have_no_page_of_one(
    run: Run, study: SiteStudy, tmp_path: Path
) -> None:
    table = study.table("nobody", study.rows[:2], ["image"])
    typed("cohort", table, tmp_path / "out", "-q")
    assert run("report", tmp_path / "out", "--subject-pages").code == 0
    assert [path.name for path in (tmp_path / "out").glob("report*")] == ["report.html"]
