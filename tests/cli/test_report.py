"""``ndflow report``, and the report that a study ends with."""

from pathlib import Path

import pytest
from commands import Run, typed
from pages import ReportPage, report_of
from studies import SITES, SiteStudy, read_json, read_tsv

QUICK = ("--trees", 5, "--permutations", 0, "-q")


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let studies end with a report."""
    monkeypatch.delenv("NDFLOW_NO_REPORT")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four scans, of which one has failed."""
    folder = tmp_path_factory.mktemp("three")
    study = SiteStudy(folder, SITES, per_site=1)
    (folder / "bad.nii.gz").write_bytes(b"no image")
    table = study.table("t", [*study.rows, {"image": "bad.nii.gz", "site": "Bonn"}])
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NDFLOW_NO_REPORT")
        typed("cohort", table, folder / "out", "--channels", "T1w", "-q", code=1)
    return folder / "out"


@pytest.fixture(scope="module")
def page(three: Path) -> ReportPage:
    return report_of(three)


def test_it_says_what_was_run_and_what_failed_byte_for_byte(
    process: Run, three: Path, page: ReportPage
) -> None:
    command = read_json(three / "provenance.json")["command"]
    assert all(word in page.facts["Command"] for word in command)
    assert {row["scan"] for row in read_tsv(three / "failures.tsv")} <= {*page.texts("th")}
    for row in read_tsv(three / "failures.tsv"):
        assert {row["cause"], row["try"]} <= {*page.texts("td")}
    assert len(page.rows) == len(page.pictured()) == 3
    assert "10.1007/978-3-030-00928-1_24" in page.texts("pre", id="citation-text")[0]
    before = (three / "report.html").read_bytes()
    (three / "report.html").unlink()
    assert process("report", three).well
    assert (three / "report.html").read_bytes() == before


def test_an_evaluation_is_shown_while_it_is_of_these_results(
    run: Run, study: SiteStudy, out: Path, wanted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
    assert run("evaluate", out, *QUICK).code == 0  # which makes the report, too
    page = report_of(out)
    assert "Tables of the evaluation" in page.texts("summary")
    cells = {*page.texts("td"), *page.texts("th")}
    for row in read_tsv(out / "evaluation" / "measures.tsv"):
        assert row["condition"].replace("affine", "z-scored") in cells
        shown = (row[name] for name in ("between", "within"))
        assert all(f"{float(text):.3g}" in cells for text in shown if text != "n/a")
    table = study.table("all")
    assert run("cohort", table, out, "-q", "--force", "--method", "affine").code == 0
    assert "Tables of the evaluation" not in report_of(out).texts("summary")


def test_no_report_is_written_where_it_cannot_be_made(
    run: Run, study: SiteStudy, tmp_path: Path, wanted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.cli.endings.not_installed", lambda *names: names)
    table = study.table("one", study.rows[:1])
    assert run("cohort", table, tmp_path / "out", "-q") == (0, "", "")
    assert not (tmp_path / "out" / "report.html").exists()


def test_a_report_that_fails_does_not_lose_the_study(
    run: Run, study: SiteStudy, tmp_path: Path, wanted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr("ndflow.reporting.build.report", fail)
    ran = run("cohort", study.table("one", study.rows[:1]), tmp_path / "out")
    assert (ran.code, len(ran.errors)) == (1, 1)
    assert "no ink" in ran.errors[0]
    assert (tmp_path / "out" / "images" / "s0.nii.gz").exists()
