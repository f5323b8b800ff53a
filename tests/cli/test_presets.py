"""Presets: what a study decides by itself, and where it says so."""

from pathlib import Path

import numpy as np
import pytest
from commands import Run
from pages import report_of
from phantoms import save, tissue_shares
from studies import SMALL, SiteStudy, read_json

import ndflow
from ndflow.study.finished import read_finished

TWO_LEVEL = (
    "auto: two-level, adaptive proportions, averaged quantiles, because there are 2 sites with "
    "5 scans each and no tissue maps"
)
SITES = {"Aachen": (300.0, 700.0, 1.0), "Bonn": (250.0, 820.0, 2.5)}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    """Five scans of each of two sites, and tissue maps: ours, and others for the second site."""
    made = SiteStudy(tmp_path_factory.mktemp("scans"), SITES, per_site=5)
    shares = tissue_shares(SMALL)
    moved = 0.6 * shares["gm"]
    other = {"csf": shares["csf"], "gm": shares["gm"] - moved, "wm": shares["wm"] + moved}
    for kind, maps in (("ours", shares), ("theirs", other)):
        for tissue, share in maps.items():
            save(made.folder / f"{kind}_{tissue}.nii.gz", np.maximum(share, 0))
    return made


TISSUES = ("csf", "gm", "wm")


def with_maps(study: SiteStudy, name: str, second: str) -> Path:
    rows = [
        row | {t: f"{second if row['site'] == 'Bonn' else 'ours'}_{t}.nii.gz" for t in TISSUES}
        for row in study.rows
    ]
    return study.table(name, rows, columns=rows[0])


def line(text: str, label: str) -> str:
    (found,) = (one for one in text.splitlines() if one.strip().startswith(label))
    return found.strip()[len(label) :].strip()


def test_the_choice_and_its_reason_are_said_everywhere(run: Run, study: SiteStudy) -> None:
    out = study.folder / "auto"
    words = ("cohort", study.table("all"), out)
    ran = run(*words)
    assert ran.code == 0
    assert line(ran.out, "preset") == TWO_LEVEL
    understood = " ".join(ran.err.split())
    assert f"preset {TWO_LEVEL}" in understood
    provenance = read_json(out / "provenance.json")
    assert provenance["preset"] == {
        "name": "auto",
        "settings": "two-level, adaptive proportions, averaged quantiles",
        "reason": "2 sites with 5 scans each and no tissue maps",
        "chosen": [],
    }
    chosen = provenance["settings"]
    assert (chosen["mode"], chosen["proportions"]) == ("two-level", "adaptive")
    assert (chosen["average"], chosen["objective"]) == ("quantile", "cramer")
    assert chosen["regularisation"] == 1e-3
    because = "because there were 2 sites with 5 scans each and no tissue maps."
    ndflow.report(out, sample=0, viewer=0)
    (page,) = report_of(out).texts("body")
    assert TWO_LEVEL in page
    assert because in page
    assert "nothing to do" in run(*words).out
    again = ndflow.cohort(study.table("all"), out, report=False)
    assert again.kept == 10
    assert again.preset is not None
    assert again.preset.text == TWO_LEVEL
    explicit = run(
        *("cohort", study.table("all"), out, "--no-report", "--preset", "paper", "--mode"),
        *("two-level", "--proportions", "adaptive"),
        *("--set", "average=quantile", "--set", "objective=cramer"),
    )
    assert "10 done (10 kept" in explicit.out  # results depend on settings, not on who chose them


def test_options_go_before_the_preset(run: Run, study: SiteStudy) -> None:
    out = study.folder / "chosen"
    words = ("cohort", study.table("all"), out, "--no-report", "--dry-run")
    ran = run(*words, "--mode", "individual", "--proportions", "average", "--set", "objective=l2")
    assert (
        "individual (chosen), average proportions (chosen), averaged quantiles, objective l2 ("
        in (" ".join(ran.err.split()))
    )
    paper = run(*words, "--preset", "paper", "--set", "average=quantile")
    assert line(paper.err, "preset") == (
        "paper: individual, average proportions, averaged quantiles (chosen)"
    )
    other = run("cohort", study.table("all"), out, "--no-report", "--method", "affine")
    assert line(other.out, "preset") == "none, the method affine has no presets"
    assert "preset" not in read_json(out / "provenance.json")
    refused = run(*words, "--method", "nyul", "--set", "objective=l2")
    assert refused.errors == [
        "error: objective is not an option of the method 'nyul'; leave it out"
    ]


def test_maps_of_one_labeller_are_used(run: Run, study: SiteStudy) -> None:
    out = study.folder / "maps"
    ran = run("cohort", with_maps(study, "maps", "ours"), out, "--no-report")
    assert line(ran.out, "preset").endswith("scans each and tissue maps of all scans")
    chosen = read_json(out / "provenance.json")["settings"]
    assert (chosen["mode"], chosen["proportions"]) == ("two-level", "tissue")
    assert ndflow.load(out / "reference.json").tissues.source == "maps"


def test_maps_of_different_labellers_are_left_out(run: Run, study: SiteStudy) -> None:
    out, table = study.folder / "odd", with_maps(study, "odd", "theirs")
    words = ("cohort", table, out, "--no-report")
    ran = run(*words)
    assert "tissue proportions" in " ".join(ran.err.split())  # what the table makes one expect
    assert "warning: tissue maps differ by site" in ran.err
    decided = (
        "two-level, adaptive proportions, averaged quantiles, because there are 2 sites with 5 "
    )
    assert (
        line(ran.out, "preset") == f"auto: {decided}scans each and tissue maps that differ by site"
    )
    assert read_json(out / "provenance.json")["settings"]["proportions"] == "adaptive"
    assert ndflow.load(out / "reference.json").tissues.source == "components"
    plain = study.run("none", "--no-report")  # the same without any maps
    for name in ("s0", "s7"):
        there = [ndflow.load(one / "maps" / f"{name}.json") for one in (out, plain)]
        assert there[0] == there[1]
    assert "nothing to do" not in ran.out
    assert "10 kept" in run(*words).out
    rehearsed = run(*words, "--dry-run").out.splitlines()
    assert all("keep" in one and "up to date" in one for one in rehearsed)
    (finished,) = read_finished([out])
    assert finished.study.options.proportions == "adaptive"


def test_images_without_three_tissues_go_to_the_plain_average(run: Run, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = []
    for number in range(10):
        flat = generator.normal(500 + 10 * number, 40, SMALL).round().astype(np.int16)
        save(tmp_path / f"s{number}.nii.gz", flat)
        rows.append(f"s{number}.nii.gz")
    (tmp_path / "all.tsv").write_text("image\n" + "\n".join(rows) + "\n", encoding="utf-8")
    ran = run("cohort", tmp_path / "all.tsv", tmp_path / "out", "--no-report", "--jobs", 1)
    assert ran.code == 0, ran.err
    assert line(ran.out, "preset") == (
        "auto: individual, average proportions, averaged quantiles, because there are no named "
        "sites, no tissue maps and no tissues that can be told apart"
    )


def test_a_single_scan_goes_by_what_the_reference_knows(run: Run, study: SiteStudy) -> None:
    made = study.folder / "auto" / "reference.json"
    if not made.exists():
        study.run("auto", "--no-report")
    scan, out = study.folder / "s0.nii.gz", study.folder / "one.nii.gz"

    def preset(*words: object) -> dict[str, object]:
        ran = run("normalise", scan, "-o", out, "--force", *words)
        assert ran.code == 0, ran.err
        record = read_json(out.with_name("one.json"))
        found: dict[str, object] = record["preset"] | {"target": record["settings"]["proportions"]}
        return found

    known = preset("--to", made)
    assert (known["target"], known["reason"]) == (
        "adaptive",
        "no tissue maps and a reference of 10 scans",
    )
    assert preset("--to", study.folder / "s7.nii.gz")["reason"] == "a target of one scan"
    assert preset("--to", made, "--preset", "paper")["settings"] == "average proportions"
    assert preset("--to", made, "--proportions", "average")["chosen"] == ["proportions"]


def test_the_names_of_images_say_that_they_are_not_t1w(run: Run, study: SiteStudy) -> None:
    rows = []
    for row in study.rows:
        image = study.folder / row["image"]
        other = image.with_name(image.name.replace(".nii", "_T2w.nii"))
        if not other.exists():
            other.symlink_to(image)
        rows.append(row | {"image": other.name})
    table = study.table("t2", rows)
    said = [
        " ".join(run("cohort", one, study.folder / "new", "--dry-run").err.split())
        for one in (table, study.table("all"))
    ]
    assert ["no tissues that can be told apart" in one for one in said] == [True, False]
    assert ["adaptive proportions" in one for one in said] == [False, True]
