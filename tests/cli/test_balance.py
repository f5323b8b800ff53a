"""``--balance``: scans are weighted so that covariates are alike at all sites."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run
from studies import SiteStudy, contents, read_json, results_of

import ndflow
from ndflow.study.finished import read_finished
from ndflow.study.references import make_references
from ndflow.subject.records import ScanModel

AGES = {"Aachen": (30, 40, 50, 60, 35, 70), "Bonn": (50, 60, 70, 80, 35, 75)}
SITES = {"Aachen": (300.0, 700.0, 1.0), "Bonn": (250.0, 820.0, 2.5)}


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    """Twelve scans of two sites whose ages overlap in part."""
    found = SiteStudy(tmp_path_factory.mktemp("study"), SITES, per_site=6)
    for number, row in enumerate(found.rows):
        row["age"] = str(AGES[row["site"]][number % 6])
        row["sex"] = "FM"[number % 2]
    return found


@pytest.fixture(scope="module")
def balanced(listed: SiteStudy) -> Path:
    return listed.run("balanced", "--mode", "site", "--balance", "age", "sex")


def without_overlap(listed: SiteStudy) -> list[dict[str, str]]:
    """Return the rows of the table with ages of 20 to 25 at one site and 60 to 65 at the other."""
    first = {"Aachen": 20, "Bonn": 60}
    return [row | {"age": str(first[row["site"]] + k % 6)} for k, row in enumerate(listed.rows)]


def weights_of(path: Path) -> dict[str, float]:
    provenance = ndflow.load(path).provenance
    return dict(zip(provenance["names"], provenance["weights"], strict=True))


def test_references_are_weighted_so_that_ages_are_alike(listed: SiteStudy, balanced: Path) -> None:
    ages = {Path(row["image"]).name.partition(".")[0]: int(row["age"]) for row in listed.rows}
    common = weights_of(balanced / "reference.json")
    means = []
    for site in SITES:
        own = weights_of(balanced / f"reference_{site}.json")
        assert own == {name: common[name] for name in own}
        means.append(np.average([ages[name] for name in own], weights=[*own.values()]))
    assert means[0] == pytest.approx(means[1], abs=1e-8)
    assert len({*common.values()}) > 6


def test_the_map_of_a_site_is_that_of_its_weighted_average(
    listed: SiteStudy, balanced: Path
) -> None:
    own = weights_of(balanced / "reference_Bonn.json")
    models = [ndflow.load(balanced / "models" / f"{name}.json") for name in own]
    expected = ndflow.reference(
        models,
        weights=[*own.values()],
        names=[*own],
        channel="intensity",
        average=read_json(balanced / "provenance.json")["settings"]["average"],
    )
    assert ndflow.load(balanced / "reference_Bonn.json").to_dict() == expected.to_dict()
    plain = listed.run("plain", "--mode", "site")
    assert read_json(plain / "map_Bonn.json") != read_json(balanced / "map_Bonn.json")


def test_effective_scans_are_in_the_record(balanced: Path) -> None:
    record = read_json(balanced / "provenance.json")
    assert record["settings"]["balance"] == ["age", "sex"]
    for site in SITES:
        found = record["balance"][site]
        own = np.array([*weights_of(balanced / f"reference_{site}.json").values()])
        assert found["effective"] == pytest.approx(own.sum() ** 2 / (own**2).sum())
        assert (found["scans"], found["unknown"], found["reach"]) == (6, 0, "means")
        assert set(found["after"]) == {"age", "sex F", "sex M"}
    assert record["of_study"] == []


def test_a_second_run_has_nothing_to_do_and_another_balance_has(
    listed: SiteStudy, balanced: Path, run: Run
) -> None:
    table = listed.folder / "all.tsv"
    words = ("cohort", table, balanced, "--mode", "site", "--no-report", "--balance", "age")
    ran = run(*words, "sex", "--dry-run")
    assert "weighted so that sites are alike in age, sex" in ran.err
    assert ran.out.count(" keep ") == 12
    line = r"^balance    age, sex; effective scans Aachen \d\.\d, Bonn \d\.\d$"
    assert re.search(line, run(*words, "sex").out, re.MULTILINE)
    assert run(*words, "--dry-run", "--force").out.count(" write ") == 12


def test_python_does_the_same(listed: SiteStudy, balanced: Path) -> None:
    out = listed.folder / "python"
    how: Any = {"mode": "site", "balance": ("age", "sex"), "report": False}
    assert set(ndflow.cohort(listed.folder / "all.tsv", out, **how).balance) == set(SITES)
    assert results_of(out) == results_of(balanced)


def test_sites_without_overlap_are_named(listed: SiteStudy, run: Run) -> None:
    rows = without_overlap(listed)
    table = listed.table("apart", rows)
    ran = run(
        "cohort", table, listed.folder / "apart", "--mode=site", "--no-report", "--balance=age"
    )
    assert ran.code == 0
    assert ran.err.count("warning: sites not balanced: at ") == 2
    assert "sites not balanced" in ran.out


def test_without_balance_different_ages_are_named_where_sites_have_maps(
    listed: SiteStudy, run: Run
) -> None:
    rows = without_overlap(listed)
    table = listed.table("ages", rows)
    ran = run("cohort", table, listed.folder / "ages", "--mode", "site", "--no-report")
    assert (
        "warning: ages differ by site: the mean age is 22.5 at Aachen and 62.5 at Bonn" in ran.err
    )
    assert "weight the scans with --balance age" in ran.err
    alone = run("cohort", table, listed.folder / "alone", "--mode", "individual", "--no-report")
    assert "ages differ" not in alone.err


def test_a_scan_without_age_is_normalised_but_has_no_part(listed: SiteStudy, run: Run) -> None:
    rows = [row | ({"age": "n/a"} if row["image"] == "s0.nii.gz" else {}) for row in listed.rows]
    table = listed.table("unknown", rows)
    out = listed.folder / "unknown"
    ran = run("cohort", table, out, "--mode", "site", "--no-report", "--balance", "age")
    assert "warning: covariates not known: age of 1 scan is not known: s0" in ran.err
    assert (out / "images" / "s0.nii.gz").exists()
    assert "s0" not in weights_of(out / "reference_Aachen.json")
    assert read_json(out / "provenance.json")["balance"]["Aachen"]["unknown"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--balance", "iq"], "no scan has a covariate 'iq'; the covariates are: age, sex"),
        (["--balance", "age", "age"], "the same twice"),
        (["--balance", "age", "--reference", "builtin:T1w"], "leave out one of them"),
    ],
)
def test_a_wrong_choice_is_refused_before_any_work(
    listed: SiteStudy, run: Run, words: list[str], message: str
) -> None:
    before = contents(listed.folder)
    ran = run("cohort", listed.table("all"), listed.folder / "wrong", *words)
    assert ran.code == 2
    assert message in ran.err
    assert contents(listed.folder) == before


def test_the_report_says_how_scans_were_weighted(balanced: Path) -> None:
    page = ndflow.report(balanced, sample=0, viewer=0).read_text("utf-8")
    own = read_json(balanced / "provenance.json")["balance"]["Bonn"]
    said = f"they count as {own['effective']:.1f} of 6 scans; on average, age"
    ages = "\N{NO-BREAK SPACE}".join(
        ["", f"{own['before']['age']:.1f}", "→", f"{own['after']['age']:.1f}"]
    )
    assert f"{said}{ages}" in page


def test_the_paragraph_says_how_scans_were_weighted(balanced: Path) -> None:
    text = ndflow.report(balanced, sample=0, viewer=0).read_text("utf-8")
    assert "weighted by entropy balancing (Hainmueller, 2012)" in text
    assert "hainmueller2012" in text


def test_the_references_of_an_evaluation_are_weighted_too(
    balanced: Path,
) -> None:
    (finished,) = read_finished([balanced])
    scans = [scan for scan in finished.study.scans if scan.name not in ("s0", "s11")]
    models = {scan.name: ScanModel.read(finished.study.model(scan)).model for scan in scans}
    made = make_references(finished.study, scans, models, nested=True)
    assert len(made.weights.of) == 10
    after = [own.after["age"] for own in made.weights.sites.values()]
    assert after[0] == pytest.approx(after[1])
