"""Which scans and which studies a report shows."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import Run, typed
from pages import report_of
from phantoms import head, save
from studies import SMALL, SiteStudy, edit


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures, which would take longer than everything else."""
    drawn = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
    section = "ndflow.reporting.density_section"
    monkeypatch.setattr(f"{section}.density_picture", lambda *_, **__: None)
    monkeypatch.setattr(f"{section}.svg", lambda _: drawn)


def test_a_sample_has_the_size_asked_for_and_flagged_scans_first(
    run: Run, study: SiteStudy, tmp_path: Path, sketched: None
) -> None:
    rows = []
    for number in range(5):
        # The fourth has too few voxels; the others are ordinary.
        shape = SMALL if number == 3 else (26, 30, 24)
        save(tmp_path / f"b{number}.nii.gz", head(number, shape=shape))
        rows.append({"image": tmp_path / f"b{number}.nii.gz", "site": "AB"[number % 2]})
    typed("cohort", study.table("big", rows), tmp_path / "out", "-q")
    names = {f"b{number}" for number in range(5)}
    for sample, viewer in ((0, 9), (1, 1), (2, 0), (3, 1), (3, 2), (99, 99)):
        ran = run("report", tmp_path / "out", "--sample", sample, "--viewer", viewer)
        assert (ran.code, ran.err) == (0, "")
        page = report_of(tmp_path / "out")
        assert set(page.rows) == names
        assert page.pictured() == page.sliced() == names
        embedded, viewed = page.embedded(), page.viewed()
        assert len(viewed) == min(viewer, 5)
        assert viewed <= embedded
        assert len(embedded) == max(min(sample, 5), len(viewed))
        assert "b3" in embedded or not sample
        assert "b3" in viewed or not viewer
        assert next(iter(page.rows)) == "b3"
        (flag,) = (text for text in page.texts("li") if text.startswith("b3 "))
        assert "voxels" in flag
        # After the flagged scans, one of each site in turn.
        if sample == 3:
            assert embedded == {"b3", "b0", "b1"}
        assert bool(page.texts("script", id="niivue")) == bool(viewed)


@pytest.mark.parametrize("option", ["--sample", "--viewer"])
def test_a_negative_number_of_scans_is_refused(
    run: Run, flow: Path, sketched: None, option: str
) -> None:
    ran = run("report", flow, option, -1)
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert option.strip("-") in ran.errors[0]
    assert not (flow / "report.html").exists()


KINDS: dict[str, tuple[Any, list[str], tuple[object, ...], str, str]] = {
    # rows, columns, options; what the headline begins with, and what the methods say
    "nyul": (6, ["image", "site"], ("--method", "nyul"), "sites", "11 percentiles"),
    "zscore": (6, ["image", "site"], ("--method", "zscore"), "sites", "of their voxels alone"),
    "by site": (
        6,
        ["image", "site"],
        ("--mode", "site", "--set", "objective=cramer"),
        "sites",
        "by minimising their Cramér distance (regularisation 0.001)",
    ),
    "one site": (2, ["image", "site"], (), "scans", "2 images were normalised"),
    "no site": (3, ["image"], ("--set", "average=quantile"), "scans", "3 images were normalised"),
    "one scan": (1, ["image", "site"], (), "scans", "Intensities of 1 image were normalised"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_studies_of_any_kind_get_a_report(
    run: Run, study: SiteStudy, tmp_path: Path, kind: str
) -> None:
    count, columns, words, what, methods = KINDS[kind]
    table = study.table(kind.replace(" ", "-"), study.rows[:count], columns)
    typed("cohort", table, tmp_path / "out", "-q", *words)
    ran = run("report", tmp_path / "out", "--sample", 1, "--viewer", 1)
    assert (ran.code, ran.err) == (0, "")
    page = report_of(tmp_path / "out")
    assert len(page.rows) == count
    assert ("Sites" in page.texts("h2")) == (what == "sites")
    (sentence,) = page.texts("p", **{"class": "lead"})
    number = 3 if what == "sites" else count
    begin = f"Histograms of the {number} {what} lie " if count > 1 else "There is one scan"
    assert sentence.startswith(begin)
    assert methods in page.texts("p", id="methods-text")[0]
    assert "nan" not in sentence
    if count > 1:
        assert float(page.facts["normalised"]) < float(page.facts["unnormalised"])
    if kind == "no site":
        assert page.facts["Sites"] == "not named"


def test_a_folder_that_holds_no_finished_study_is_named_in_one_line(
    run: Run, flow: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    edit(flow / "provenance.json", finished=False)
    said = dict.fromkeys(("nowhere", "file", "empty"), "holds no study")
    for name, words in {**said, "flow": "was stopped; run the same command again"}.items():
        before = set(tmp_path.rglob("*"))
        ran = run("report", tmp_path / name)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
        assert ran.errors[0].startswith(f"error: {tmp_path / name}")
        assert words in ran.errors[0]
        assert set(tmp_path.rglob("*")) == before


def test_a_missing_scan_is_named_in_the_report(
    run: Run, study: SiteStudy, tmp_path: Path, sketched: None
) -> None:
    shutil.copy(study.folder / "s0.nii.gz", tmp_path / "s0.nii.gz")
    rows = [{"image": tmp_path / "s0.nii.gz"}]
    typed("cohort", study.table("gone", rows, ["image"]), tmp_path / "out", "-q")
    (tmp_path / "s0.nii.gz").unlink()
    ran = run("report", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"It cannot be shown in the viewer: {tmp_path / 's0.nii.gz'}" in page


def test_an_evaluation_of_other_results_is_not_shown(
    run: Run, study: SiteStudy, tmp_path: Path, sketched: None
) -> None:
    table = study.table("again", study.rows, ["image", "site"])
    typed("cohort", table, tmp_path / "out", "-q")
    words = ("--trees", 5, "--permutations", 0)
    assert run("evaluate", tmp_path / "out", *words).code == 0
    assert run("report", tmp_path / "out").code == 0
    assert "Evaluation" in report_of(tmp_path / "out").texts("h2")
    typed("cohort", table, tmp_path / "out", "-q", "--force", "--method", "affine")
    assert run("report", tmp_path / "out").code == 0
    assert "Evaluation" not in report_of(tmp_path / "out").texts("h2")
