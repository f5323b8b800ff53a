"""``ndflow.report`` writes the page that ``ndflow report`` writes."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from channel_phantoms import NAMES, save_channels
from commands import typed
from pages import ReportPage, report_of
from phantoms import save, voxels_of
from studies import SITES, SMALL, SiteStudy, read_tsv, write_tsv

import ndflow
from ndflow.errors import FileError
from ndflow.study.finished import page_is_current
from ndflow.subject.records import StudyRecord

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return SiteStudy(tmp_path_factory.mktemp("scans"), per_site=2).run("out")


def test_the_page_names_all_scans_and_shows_a_sample(out: Path) -> None:
    ndflow.report(out, sample=3, viewer=1)
    page: ReportPage = report_of(out)
    assert list(page.rows) == [f"s{number}" for number in range(6)]
    assert page.pictured() == page.sliced() == set(page.rows)
    assert len(page.embedded()) == 3
    assert len(page.viewed()) == 1
    assert page.viewed() <= page.embedded()
    ndflow.report(out, sample=0, viewer=0)
    assert not report_of(out).embedded()


def test_the_page_names_the_scale_and_its_numbers_do_not_depend_on_it(tmp_path: Path) -> None:
    study = SiteStudy(tmp_path, dict(list(SITES.items())[:2]), per_site=2)
    pages = {}
    for scale in ("positive", "standard"):
        out = study.run(scale, "--mode", "two-level", "--scale", scale)
        ndflow.report(out, sample=0, viewer=0)
        pages[scale] = report_of(out)
        assert f"scale {scale}," in pages[scale].facts["Settings"]
    one, other = pages.values()
    assert one.rows == other.rows
    assert one.texts("p", **{"class": "overview"}) == other.texts("p", **{"class": "overview"})
    sentences = [
        [text for text in page.texts("p") if " standard deviations" in text]
        for page in pages.values()
    ]
    assert sentences[0] == sentences[1] != []
    assert "mean of 500 and a standard deviation of 125" in one.source
    assert "mean of 0 and a standard deviation of 1." in other.source


def test_the_page_says_what_was_excluded_as_a_lesion_and_outlines_it(tmp_path: Path) -> None:
    study = SiteStudy(tmp_path, per_site=2)
    lesion = np.zeros(SMALL, np.uint8)
    lesion[5:9, 6:10, 4:8] = 1
    save(tmp_path / "l.nii.gz", lesion)
    rows = [row | {"lesion": "l.nii.gz" if row["subject"] == "p3" else ""} for row in study.rows]
    out = study.run("ill", table=study.table("ill", rows, columns=rows[0]))
    ndflow.report(out, sample=3, viewer=0)
    page = report_of(out)
    column = page.texts("th", scope="col").index("lesion")
    cells = {name: cells[column - 1] for name, cells in page.rows.items()}
    assert cells == {f"s{number}": "0.51" if number == 3 else "–" for number in range(6)}
    paths = [own["d"] for tag, own, _ in page.elements if tag == "path" and "d" in own]
    (slices,) = (scan["slices"] for scan in page.data["scans"] if "lesion" in scan["slices"])
    assert paths.count(slices["lesion"]) == 2  # before and after
    assert page.facts["Lesion masks"] == "of 1 scan"


def test_a_report_that_was_edited_is_replaced_only_by_force(out: Path) -> None:
    page = ndflow.report(out, title="Mine — <b>", viewer=0)
    assert report_of(out).texts("h1") == ["Mine — <b>"]
    edited = page.read_text("utf-8").replace("</h1>", ", edited</h1>", 1)
    page.write_text(edited, "utf-8")
    with pytest.raises(FileError, match="edited since ndflow wrote it"):
        ndflow.report(out)
    assert page.read_text("utf-8") == edited
    typed("report", out, "-q", "--force", "--viewer", 0)
    assert report_of(out).texts("h1") == ["out"]


def test_a_page_is_made_again_when_scans_were_prepared_again(out: Path) -> None:
    ndflow.report(out, viewer=0)
    assert page_is_current(out)
    (out / "prepared").mkdir()
    StudyRecord(settings={}).write(out / "prepared/provenance.json")
    assert not page_is_current(out)
    shutil.rmtree(out / "prepared")
    assert page_is_current(out)


def test_the_evaluation_of_each_channel_of_a_joint_study_is_shown_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])  # which take seconds
    scans = [save_channels(tmp_path, seed, gains=(1 + seed, 1.0)) for seed in range(3)]
    table = write_tsv(
        tmp_path / "t.tsv", [{name: path.name for name, path in one.items()} for one in scans]
    )
    out = tmp_path / "out"
    ndflow.cohort(table, out, channels=NAMES, joint=True, report=False)
    typed("evaluate", out, "--trees", 2, "--permutations", 0, "--no-report")
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in ("T1w:", "FLAIR:")] == ["T1w:", "FLAIR:"]
    voxels = voxels_of(out / "images" / "0_FLAIR.nii.gz")
    row = read_tsv(out / "evaluation" / "FLAIR" / "features.tsv")[-3]
    assert (row["condition"], row["scan"]) == ("out", "0_T1w")
    inside = voxels[voxels != 0]
    mean, sd = (float(row[name]) for name in ("mean", "sd"))
    assert mean / sd == pytest.approx((inside.mean() - 500) / inside.std(), abs=0.02)
    assert not page_is_current(out)
    ndflow.report(out)
    assert page_is_current(out)
    titles = report_of(out).texts("h3")
    for name in NAMES:
        assert [title for title in titles if title.startswith(f"{name}: ")]
    assert ndflow.verify(out).findings == ()
