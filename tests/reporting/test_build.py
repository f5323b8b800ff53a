"""``ndflow.report`` writes the page that ``ndflow report`` writes."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from pages import ReportPage, report_of
from phantoms import save, tissue_shares, voxels_of
from studies import SITES, SMALL, SiteStudy, edit, read_json

import ndflow
from ndflow.evaluation.tissues import weighted_quantile
from ndflow.study.bids_names import dataset_name
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
    assert sorted(page.rows) == [f"s{number}" for number in range(6)]
    assert page.pictured() == page.sliced() == set(page.rows)
    assert len(page.embedded()) == 3
    assert len(page.viewed()) == 1
    assert page.viewed() <= page.embedded()
    ndflow.report(out, sample=0, viewer=0, title="Mine — <b>")
    assert not report_of(out).embedded()
    assert report_of(out).texts("h1") == ["Mine — <b>"]


def test_the_page_says_to_what_tissues_are_known_and_which_sites_are_hardly_adapted(
    tmp_path: Path,
) -> None:
    scans = SiteStudy(tmp_path, per_site=2)
    out = scans.run("out", "--proportions", "adaptive", "--mode", "two-level")
    ndflow.report(out)
    means = [
        500 + 125 * one.mean()[0] for one in ndflow.load(out / "reference.json").tissues.densities
    ]
    for scan in report_of(out).data["scans"]:
        sidecar = read_json(out / "maps" / f"{scan['name']}.json")
        for mean, (name, half) in zip(
            means, sidecar["match"]["target"]["intervals"].items(), strict=True
        ):
            reach = half * (means[2] - means[1])
            assert scan["bands"][name] == pytest.approx([mean - reach, mean + reach], rel=1e-4)
    trust = read_json(out / "provenance.json")["trust"]
    trust |= {"Bonn": trust["Bonn"] | {"determined": 0.04}}
    edit(out / "provenance.json", trust=trust)
    ndflow.report(out)
    (known,) = [text for text in report_of(out).texts("p") if "medians over scans" in text]
    assert "hardly adapted to people’s own proportions of tissue (Bonn)" in known
    assert "4 %" in report_of(out).texts("td")


def test_the_page_says_by_how_much_the_tissues_of_a_person_change(tmp_path: Path) -> None:
    scans, shares = SiteStudy(tmp_path, per_site=2), tissue_shares(SMALL)
    for tissue, share in shares.items():
        save(tmp_path / f"{tissue}.nii.gz", share.astype(np.float32))
    people = ["ann", "ann", "bob", "eve", "bob", "bob"]
    maps = {tissue: f"{tissue}.nii.gz" for tissue in shares}
    rows = [row | maps | {"subject": who} for row, who in zip(scans.rows, people, strict=True)]
    out = scans.run("out", "--mode", "individual", table=scans.table("t", rows, columns=rows[0]))
    ndflow.report(out)
    page = report_of(out)
    said = "2 people were scanned 2 to 3 times, 1 of them at several sites; their scans at "
    assert any(text.startswith(said) for text in page.texts("p"))
    images = [voxels_of(out / "images" / row["image"]) for row in rows]
    medians = np.array(
        [
            [weighted_quantile(x[x != 0], shares[t][x != 0], 0.5) for t in ("csf", "gm", "wm")]
            for x in images
        ]
    )
    gap = np.diff(medians[:, 1:].mean(axis=0)).item()
    pairs = [("ann", "Aachen", 0, 1), ("bob", "Bonn → Celle", 2, 4), ("bob", "Bonn → Celle", 2, 5)]
    table, largest = page.source.split('id="visits"')[1].split("</section>")[0], []
    for (person, site, first, later), row in zip(pairs, table.split("<tr>")[2:], strict=True):
        cells = [" ".join(cell.split()) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t", row)]
        assert cells[:4] == [person, site, f"s{first}", f"s{later}"]
        changes = [float(cell.removesuffix(" %").replace("−", "-")) for cell in cells[4:]]
        expected = 100 * (medians[later] - medians[first]) / gap
        assert changes == pytest.approx(expected.tolist(), abs=3)  # small heads
        largest.append(max(map(abs, changes)))
    assert max(largest) > 6


def test_the_page_says_what_was_excluded_as_a_lesion_and_outlines_it(tmp_path: Path) -> None:
    study = SiteStudy(tmp_path, per_site=2)
    lesion = np.zeros(SMALL, np.uint8)
    lesion[5:9, 6:10, 4:8] = 1
    save(tmp_path / "l.nii.gz", lesion)
    rows = [row | {"lesion": "l.nii.gz" if row["subject"] == "p3" else ""} for row in study.rows]
    out = study.run("ill", table=study.table("ill", rows, columns=rows[0]))
    ndflow.report(out, sample=3, viewer=0)
    page = report_of(out)
    column = page.texts("th", scope="col").index("Lesion")
    cells = {name: cells[column - 1] for name, cells in page.rows.items()}
    assert cells == {f"s{number}": "0.512" if number == 3 else "–" for number in range(6)}
    paths = [own["d"] for tag, own, _ in page.elements if tag == "path" and "d" in own]
    (slices,) = (scan["slices"] for scan in page.data["scans"] if "lesion" in scan["slices"])
    assert paths.count(slices["lesion"]) == 2  # before and after
    assert page.facts["Lesion masks"] == "of 1 scan"


@pytest.mark.parametrize(
    ("tool", "title"),
    [("MRIQC", "Ours & theirs"), ("Ours", "raw"), (None, "Ours & theirs"), (7, "raw")],
)
def test_a_page_is_called_like_the_dataset_of_its_scans_unless_that_is_of_a_tool(
    tmp_path: Path, tool: object, title: str
) -> None:
    known = {"Name": "Ours & theirs" if tool != 7 else 7, "GeneratedBy": [{"Name": tool}]}
    inner, outer = tmp_path / "derived", tmp_path / "dataset_description.json"
    inner.mkdir()
    (inner / outer.name).write_text(json.dumps(known), "utf-8")
    outer.write_text('{"Name": "raw"}', "utf-8")
    assert dataset_name([inner / "sub-1/x.nii", inner / "sub-2/x.nii"]) == title
    assert dataset_name([inner / "sub-1/x.nii", tmp_path / "sub-2/x.nii"]) == "raw"


def test_a_study_from_python_has_its_report_unless_it_cannot_be_written(tmp_path: Path) -> None:
    study = SiteStudy(tmp_path, dict(list(SITES.items())[:1]), per_site=2)
    table, out = study.table("all"), tmp_path / "out"
    ndflow.cohort(table, out, report=False)
    page = out / "report.html"
    assert not page.exists()
    page.write_text("of somebody else")
    with pytest.warns(UserWarning, match=r"not written: .*report\.html"):
        assert ndflow.cohort(table, out).done == 2
    assert page.read_text() == "of somebody else"
    page.unlink()
    assert ndflow.cohort(table, out)[:3] == (2, 2, [])
    before = page.stat().st_mtime_ns
    ndflow.cohort(table, out)  # nothing has changed
    assert page.stat().st_mtime_ns == before


def test_a_page_is_made_again_when_scans_were_prepared_again(out: Path) -> None:
    ndflow.report(out, viewer=0)
    assert page_is_current(out)
    (out / "prepared").mkdir()
    StudyRecord(settings={}).write(out / "prepared/provenance.json")
    assert not page_is_current(out)
    shutil.rmtree(out / "prepared")
    assert page_is_current(out)
