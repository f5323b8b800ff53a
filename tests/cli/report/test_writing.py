"""When the report of a study is written, and what happens where it cannot be."""

import csv
import shutil
from pathlib import Path

import pytest
from commands import Run
from pages import report_of
from phantoms import head, save
from studies import SITES, SMALL, SiteStudy


@pytest.mark.parametrize("how", ["--no-report", "NDFLOW_NO_REPORT"])
def test_no_report_is_written_where_none_is_wanted(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a page was asked for")

    monkeypatch.setattr("ndflow.cli.endings.write_page", refuse)
    words: tuple[str, ...] = ()
    if how.startswith("--"):
        monkeypatch.delenv("NDFLOW_NO_REPORT")
        words = (how,)
    ran = run("cohort", study.table("two", study.rows[:2]), tmp_path / "out", "-q", *words)
    assert ran.code == 0
    assert not (tmp_path / "out" / "report.html").exists()


def test_the_group_level_of_bids_writes_a_report_and_participants_do_not(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    raw, out = tmp_path / "raw", tmp_path / "out"
    for number in (0, 2):
        anat = raw / f"sub-{number}" / "anat"
        anat.mkdir(parents=True)
        shutil.copy(study.folder / f"s{number}.nii.gz", anat / f"sub-{number}_T1w.nii.gz")
    (raw / "participants.tsv").write_text("participant_id\tsite\nsub-0\tUlm\nsub-2\tTrier\n")
    (raw / "dataset_description.json").write_text('{"Name": "x", "BIDSVersion": "1.10.0"}')
    assert run("bids", raw, out, "participant", "-q").code == 0
    assert not (out / "report.html").exists()
    assert run("bids", raw, out, "group", "-q").code == 0
    page = report_of(out)
    assert set(page.rows) == {"sub-0_T1w", "sub-2_T1w"}
    assert page.facts["Sites"] == "Trier (1), Ulm (1)"
    assert "report.html" in (out / ".bidsignore").read_text()


def test_a_report_is_removed_with_the_results_it_describes(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, table = tmp_path / "out", study.table("all")
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    assert run("cohort", table, out, "--mode", "site", "-q").code == 0
    before = (out / "report.html").read_bytes()
    assert len(list(out.glob("map_*.json"))) == len(SITES)
    assert run("cohort", table, out, "--mode", "site", "-q", "--no-report").code == 0
    assert (out / "report.html").read_bytes() == before  # nothing has changed
    assert run("cohort", table, out, "-q", "--no-report", "--force").code == 0
    assert not (out / "report.html").exists()
    assert not list(out.glob("map_*.json"))  # the maps of sites are gone
    assert len(list(out.glob("reference_*.json"))) == len(SITES)


def test_scans_that_fail_late_are_counted_in_the_reference(
    run: Run, study: SiteStudy, tmp_path: Path
) -> None:
    twofold = save(
        tmp_path / "twofold.nii.gz",
        head(9, shape=SMALL, tissues=((300.0, 60.0), (1000.0, 40.0), (1000.0, 40.0))),
    )
    rows = [*study.rows, {"image": str(twofold), "site": "Bonn", "subject": "p9"}]
    out = tmp_path / "out"
    words = (
        "--channels",
        "T1w",
        "-q",
        "--set",
        "freeze=2",
    )  # a third component, which one scan lacks
    assert run("cohort", study.table("late", rows), out, *words).code == 1
    assert run("report", out, "--sample", 0).code == 0
    page = report_of(out)
    assert page.facts["Reference"] == "made from 7 scans"
    (paragraph,) = page.texts("p", id="methods-text")
    assert "6 T1w images" in paragraph
    assert "average quantiles of 7 aligned scans" in paragraph
    assert "Components chosen by index, weight or mean intensity (2) stayed fixed" in paragraph
    with (out / "failures.tsv").open(newline="") as file:
        (failure,) = csv.DictReader(file, delimiter="\t")
    assert (failure["scan"], failure["try"]) == ("twofold", "write an index from 0 to 1")


def test_a_report_that_cannot_be_written_is_an_error_though_all_scans_are_done(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    out = tmp_path / "out"
    (out / "report.html").mkdir(parents=True)
    ran = run("cohort", study.table("one", study.rows[:1]), out, "-q", "--force")
    assert ran.code == 1
    (line,) = ran.err.splitlines()
    assert line.startswith(f"error: {out / 'report.html'}: could not be written: ")
    assert "exists, and was not written by ndflow" in line
    assert (out / "images" / "s0.nii.gz").exists()


def test_a_report_that_fails_in_any_way_does_not_lose_the_study(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no ink")

    monkeypatch.delenv("NDFLOW_NO_REPORT")
    monkeypatch.setattr("ndflow.reporting.build.report", fail)
    out = tmp_path / "out"
    ran = run("cohort", study.table("one", study.rows[:1]), out)
    assert (ran.code, ran.errors) == (
        1,
        [f"error: {out / 'report.html'}: could not be written: no ink"],
    )
    assert "report     could not be written" in ran.out
    assert (out / "images" / "s0.nii.gz").exists()


@pytest.mark.parametrize("linked", [False, True])
def test_a_page_of_anybody_else_is_never_replaced(
    run: Run, flow: Path, tmp_path: Path, linked: bool
) -> None:
    page = tmp_path / "mine.html" if linked else flow / "report.html"
    page.write_text("<html><head><title>Mine</title></head><body>ndflow: precious</body></html>")
    if linked:
        (flow / "report.html").symlink_to(page)
    before = page.read_text()
    ran = run("report", flow, "--sample", 0)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"error: {flow / 'report.html'}: exists, and was not written by ndflow; move it elsewhere"
    ]
    assert page.read_text() == before
    (flow / "report.html").unlink()
    assert run("report", flow, "--sample", 0).code == 0
    assert run("report", flow, "--sample", 1).code == 0  # its own page it does replace


def test_a_study_leaves_a_page_of_anybody_else_even_with_force(
    run: Run, study: SiteStudy, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    (flow / "report.html").write_text("<title>Mine</title>")
    ran = run("cohort", study.table("all"), flow, "-q", "--mode", "site", "--force")
    where = f"{flow / 'report.html'}: could not be written"
    assert f"{where}: exists, and was not written by ndflow" in ran.err
    assert (flow / "report.html").read_text() == "<title>Mine</title>"


def test_without_the_packages_for_reports_a_study_is_run_silently(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    monkeypatch.setattr("ndflow.cli.endings.find_spec", lambda name: None)
    ran = run("cohort", study.table("two", study.rows[:2]), tmp_path / "out", "-q")
    assert (ran.code, ran.err) == (0, "")
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_package_that_is_missing_is_named_with_the_extra_that_has_it(
    run: Run, flow: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setattr(
        "ndflow.reporting.build.find_spec", lambda name: None if name == package else 1
    )
    ran = run("report", flow)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert f"needs {package}, which is not installed" in ran.errors[0]
    assert "pip install 'ndflow[report]'" in ran.errors[0]
    assert not (flow / "report.html").exists()
