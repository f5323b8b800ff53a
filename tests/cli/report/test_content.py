"""What the report of a study says, and that it loads and runs nothing else."""

import csv
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run, typed
from pages import QUOTED, SCRIPT, ReportPage, report_of
from phantoms import voxels_of
from studies import SiteStudy

from ndflow._version import __version__
from ndflow.reporting.evaluation_section import evaluation_section
from ndflow.subject.records import EvaluationRecord
from ndflow.values import JSON


@pytest.fixture(scope="module")
def full(study: SiteStudy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with one failed scan, whose report was written by ``ndflow cohort``."""
    folder = tmp_path_factory.mktemp("full")
    (study.folder / "bad.nii.gz").write_bytes(b"no image")
    odd = study.folder / "odd"
    odd.mkdir()
    shutil.copy(study.folder / "s4.nii.gz", odd / "s5.nii.gz")
    rows = [
        *study.rows[1::2],
        {"image": "bad.nii.gz", "site": "Bonn", "subject": "p9"},
        # Has the file name of another image, so that its name includes the subject.
        {"image": "odd/s5.nii.gz", "site": SCRIPT, "subject": QUOTED},
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NDFLOW_NO_REPORT")
        typed(
            "cohort", study.table("full", rows), folder / "out", "--channels", "T1w", "-q", code=1
        )
    return folder / "out"


@pytest.fixture(scope="module")
def page(full: Path) -> ReportPage:
    return report_of(full)


def test_a_report_loads_nothing_from_elsewhere(page: ReportPage) -> None:
    for tag, own, _ in page.elements:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
            if name in own and not own[name].startswith(("#", "data:", "blob:")):
                # A link loads nothing until it is followed.
                assert (tag, name) == ("a", "href")
                assert "niivue" in own[name]
        assert "url(" not in re.sub(r"url\((#|data:)", "", " ".join(own.values()))
        assert not [name for name in own if name.startswith("on")]
    styles = " ".join(page.texts("style"))
    assert "@import" not in styles
    assert "url(" not in re.sub(r"url\((#|data:)", "", styles)
    (policy,) = (own["content"] for _, own, _ in page.elements if "http-equiv" in own)
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


def test_names_are_never_markup(full: Path, page: ReportPage) -> None:
    assert f"{SCRIPT} (2)" in page.facts["Sites"]
    assert [text for text in page.texts("h3") if text.startswith(SCRIPT)] == [f"{SCRIPT} 2 scans"]
    assert SCRIPT in page.texts("option")
    assert "<script>alert" not in page.source
    assert QUOTED not in page.source
    assert "b" not in {tag for tag, _, _ in page.elements}
    kinds = [own.get("type", "code") for tag, own, _ in page.elements if tag == "script"]
    # The data of all scans, and the volumes of each; the viewer; the scripts of the page.
    assert kinds == ["application/json"] * 5 + ["text/plain", "code"]
    with (full / "scans.tsv").open(newline="") as file:
        names = {row["name"]: row["site"] for row in csv.DictReader(file, delimiter="\t")}
    assert names.pop("bad") == "Bonn"
    assert {name: cells[0] for name, cells in page.rows.items()} == names
    assert page.pictured() == page.viewed() == set(names)


def test_the_report_says_what_was_run_and_what_failed(full: Path, page: ReportPage) -> None:
    facts = page.facts
    assert facts["Scans"] == "4 normalised, 1 failed"
    assert facts["Sites"].startswith("<script>")
    assert "Aachen (1), Bonn (1)" in facts["Sites"]
    assert facts["Images"] == "T1w"
    command = json.loads((full / "provenance.json").read_text())["command"]
    assert all(word in facts["Command"] for word in command)
    for word in ("method ndflow", "mode individual", "objective cramer", "regularisation 0.001"):
        assert word in facts["Settings"]
    for word in (f"ndflow {__version__}", f"numpy {np.__version__}", "Python 3."):
        assert word in facts["Versions"]
    with (full / "failures.tsv").open(newline="") as file:
        (failure,) = csv.DictReader(file, delimiter="\t")
    assert "One scan failed" in page.texts("h2")
    assert failure["scan"] == "bad"
    assert "bad" in page.texts("th")
    assert {failure["cause"], failure["try"]} <= set(page.texts("td"))


def quantiles(image: Path) -> Any:
    """Return the quantiles at 1/200, 2/200, … of the voxels of an image that are not 0."""
    voxels = voxels_of(image)
    return np.quantile(voxels[voxels != 0], np.arange(1, 200) / 200)


def test_the_headline_is_the_distance_between_sites(full: Path, page: ReportPage) -> None:
    scans: dict[str, list[list[Any]]] = {}
    with (full / "scans.tsv").open(newline="") as file:
        images = {row["name"]: row["image"] for row in csv.DictReader(file, delimiter="\t")}
    for name, cells in page.rows.items():
        raw = quantiles(Path(images[name]))
        after = quantiles(full / "images" / f"{name}.nii.gz")
        known = json.loads((full / "models" / f"{name}.json").read_text())["mixture"]
        weights, means = np.array(known["weights"]), np.ravel(known["means"])
        mean = weights @ means
        second = weights @ (1 / np.ravel(known["precisions"]) + means**2)
        scans.setdefault(cells[0], []).append(
            [raw, (raw - mean) / (second - mean**2) ** 0.5, after]
        )
    expected = []
    for condition in range(3):
        spread = np.mean([scan[condition].std() for own in scans.values() for scan in own])
        sites = [np.mean([scan[condition] for scan in own], axis=0) for own in scans.values()]
        pairs = itertools.combinations(sites, 2)
        expected.append(float(np.mean([np.abs(a - b).mean() / spread for a, b in pairs])))
    names = ("unnormalised", "aligned in mean and sd", "normalised")
    found = [page.facts[name] for name in names]
    assert [float(value) for value in found] == pytest.approx(expected, rel=6e-3, abs=1e-3)
    assert expected[0] > expected[1] > expected[2]
    (sentence,) = page.texts("p", **{"class": "lead"})
    assert all(value in sentence for value in found)
    assert sentence.startswith(
        f"Histograms of the 3 sites lie {found[2]} standard deviations apart;"
    )
    assert "%" not in sentence


def test_methods_and_citation_are_ready_for_a_paper(page: ReportPage) -> None:
    (paragraph,) = page.texts("p", id="methods-text")
    for words in (
        f"Intensities of 4 T1w images from 3 sites were normalised with ndflow {__version__}",
        "Dirichlet-process Gaussian mixture",
        "average quantiles of all aligned scans",
        "Cramér distance (regularisation 0.001)",
        "(Castro & Glocker, 2018)",
    ):
        assert words in paragraph
    assert "10.1007/978-3-030-00928-1_24" in page.texts("pre", id="citation-text")[0]


def test_tables_and_figures_of_an_evaluation_are_shown(
    run: Run, flow: Path, page: ReportPage
) -> None:
    assert "Evaluation" not in page.texts("h2")
    ran = run("evaluate", flow, "--trees", 5, "--permutations", 2, "-q")
    assert (ran.code, ran.err) == (0, "")
    assert run("report", flow, "--sample", 0).code == 0
    page = report_of(flow)
    assert "Evaluation" in page.texts("h2")
    titles = {"fitness": "Histograms compared with the average density of the aligned scans"}
    titles |= {"sites": "Distances between and within sites"}
    titles |= {"classification": "Site classification by random forests"}
    assert set(titles.values()) <= set(page.texts("h3"))
    cells = set(page.texts("td")) | set(page.texts("th"))
    for name in titles:
        with (flow / "evaluation" / f"{name}.tsv").open(newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                assert row.pop("condition") in cells
                for text in set(row.values()) - {"n/a"}:
                    assert (text if text.isdigit() else f"{float(text):.3g}") in cells
    labels = {own.get("aria-label", "") for tag, own, _ in page.elements if tag == "svg"}
    assert {"Entropy of the predicted sites", "Confidence of the predicted sites"} <= labels
    (verdict,) = (text for text in page.texts("h3") if text.startswith("flow, compared with"))
    said = (flow / "evaluation" / "verdict.txt").read_text()
    assert said.startswith(f"{verdict}\n")
    once = " ".join(said.split())
    sentences = [text for text in page.texts("li") if text[-1:] == "." and f"- {text}" in once]
    assert len(sentences) == said.count("\n- ")


def test_a_condition_whose_name_is_a_number_keeps_its_name(tmp_path: Path) -> None:
    EvaluationRecord(results={"2.50": "abc"}).write(tmp_path / "evaluation.json")
    (tmp_path / "fitness.tsv").write_text("condition\tw1\n2.50\t0.123456\nnan\tn/a\n")
    (table,) = evaluation_section(tmp_path, "abc")["tables"]
    assert table.rows == [["2.50", "0.123"], ["nan", "–"]]
    assert not evaluation_section(tmp_path, "of other results")


def test_effects_and_reliability_have_one_row_per_condition(tmp_path: Path) -> None:
    settings: dict[str, JSON] = {"covariate": ["age", "sex"]}
    record = EvaluationRecord(results={"x": "abc"}, settings=settings)
    record.write(tmp_path / "evaluation.json")
    head = "condition covariate tissue correlation correlation_low correlation_high p"
    rows = [f"{c} age {t} 0.5 -0.25 0.75 {p}" for c in "ab" for t, p in (("WM", 0.01), ("GM", 0.2))]
    rows = ["\t".join(row.split()) for row in (head, *rows)]
    (tmp_path / "covariate.tsv").write_text("\n".join(rows) + "\n")
    head = "condition tissue subjects scans icc icc_low icc_high model"
    rows = [f"{c} {t} 3 6 0.91234 -0.1 0.99 ICC(1,1)" for c in "ab" for t in ("WM", "GM")]
    rows = ["\t".join(row.split()) for row in (head, *rows)]
    (tmp_path / "reliability.tsv").write_text("\n".join(rows) + "\n")
    agree, effects = evaluation_section(tmp_path, "abc")["tables"]
    assert agree.head == ["condition", "subjects", "icc WM", "icc GM"]
    icc = "0.91 [−0.10, 0.99]".replace(" ", "\N{NO-BREAK SPACE}")
    assert agree.rows == [[one, "3", icc, icc] for one in "ab"]
    assert effects.title == "Effect of age and sex on tissue medians"
    assert effects.head == ["condition", "covariate", "WM", "GM"]
    cells = [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in effects.rows[0]]
    assert cells == ["a", "age", "0.50* [−0.25, 0.75]", "0.50 [−0.25, 0.75]"]


def test_the_command_names_the_table_that_was_cut_short(run: Run, flow: Path) -> None:
    assert run("evaluate", flow, "--trees", 2, "--permutations", 2, "-q").code == 0
    table = flow / "evaluation" / "fitness.tsv"
    table.write_bytes(table.read_bytes()[:-9])
    ran = run("report", flow)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {table}: cut short")
    assert len(ran.err.splitlines()) == 1


def test_a_report_can_be_regenerated_byte_for_byte(run: Run, full: Path) -> None:
    before = (full / "report.html").read_bytes()
    (full / "report.html").unlink()
    ran = run("report", full)
    assert (ran.code, ran.out, ran.err) == (0, f"wrote {full / 'report.html'}\n", "")
    assert (full / "report.html").read_bytes() == before
    assert not [path for path in full.iterdir() if path.name.endswith(".tmp")]
