"""``ndflow report``, and the report that a study ends with."""

import shutil
from pathlib import Path

import pytest
from commands import Run, typed
from pages import QUOTED, SCRIPT, ReportPage, report_of
from studies import SITES, SiteStudy, read_json, read_tsv

QUICK = ("--trees", 5, "--permutations", 0, "-q")


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let studies end with a report."""
    monkeypatch.delenv("NDFLOW_NO_REPORT")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose sites and subjects are markup, and of which one scan has failed."""
    folder = tmp_path_factory.mktemp("hostile")
    sites = {"Aachen": SITES["Aachen"], "Bonn": SITES["Bonn"], SCRIPT: SITES["Celle"]}
    study = SiteStudy(folder, sites, per_site=1)
    (folder / "bad.nii.gz").write_bytes(b"no image")
    (folder / "odd").mkdir()
    shutil.copy(folder / "s2.nii.gz", folder / "odd" / "s1.nii.gz")  # its name has its subject
    bad = {"image": "bad.nii.gz", "site": "Bonn", "subject": "p9"}
    odd = {"image": "odd/s1.nii.gz", "site": SCRIPT, "subject": QUOTED}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NDFLOW_NO_REPORT")
        table = study.table("t", [*study.rows, bad, odd])
        (folder / "s2.nii.gz").write_bytes(b"")  # so that no image is there twice
        typed("cohort", table, folder / "out", "--channels", "T1w", "-q", code=1)
    return folder / "out"


@pytest.fixture(scope="module")
def page(hostile: Path) -> ReportPage:
    return report_of(hostile)


def test_it_says_what_was_run_and_what_failed_byte_for_byte(
    process: Run, hostile: Path, page: ReportPage
) -> None:
    assert SCRIPT in page.texts("option")
    assert "<script>alert" not in page.source
    assert QUOTED not in page.source
    command = read_json(hostile / "provenance.json")["command"]
    assert all(word in page.facts["Command"] for word in command)
    assert {row["scan"] for row in read_tsv(hostile / "failures.tsv")} <= {*page.texts("th")}
    for row in read_tsv(hostile / "failures.tsv"):
        assert {row["cause"], row["try"]} <= {*page.texts("td")}
    assert len(page.rows) == len(page.pictured()) == 3
    assert "10.1007/978-3-030-00928-1_24" in page.texts("pre", id="citation-text")[0]
    before = (hostile / "report.html").read_bytes()
    (hostile / "report.html").unlink()
    assert process("report", hostile).well
    assert (hostile / "report.html").read_bytes() == before


def test_an_evaluation_is_shown_while_it_is_of_these_results(
    run: Run, study: SiteStudy, out: Path, wanted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
    assert run("evaluate", out, *QUICK).code == 0  # which makes the report, too
    page = report_of(out)
    assert "Evaluation" in page.texts("h2")
    cells = {*page.texts("td"), *page.texts("th")}
    for row in read_tsv(out / "evaluation" / "measures.tsv"):
        assert row["condition"].replace("affine", "z-scored") in cells
        shown = (row[name] for name in ("between", "within"))
        assert all(f"{float(text):.3g}" in cells for text in shown if text != "n/a")
    table = study.table("all")
    assert run("cohort", table, out, "-q", "--force", "--method", "affine").code == 0
    assert "Evaluation" not in report_of(out).texts("h2")


def test_no_report_is_written_where_it_cannot_be_made(
    run: Run, study: SiteStudy, tmp_path: Path, wanted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.cli.endings.find_spec", lambda name: None)
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
