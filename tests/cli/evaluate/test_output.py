"""``ndflow evaluate``: the tables, figures and record that it writes."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from studies import SiteStudy, contents, read_json, read_tsv

QUICK = ("--trees", 5, "--permutations", 2)
FIGURES = ("populations", "fitness", "tissues", "predictions", "pair")
PANELS = ("tissues_WM", "tissues_GM", "tissues_CSF", "entropy", "confidence")
TABLES = ("sites", "classification", "fitness", "fitness_scans", "predictions", "repeats")
TABLES += ("tissue", "tissue_scans", "contrast", "reliability", "features")


def record(folder: Path) -> Any:
    return read_json(folder / "evaluation.json")


def test_tables_figures_and_record_are_written_and_reproducible(
    run: Run, process: Run, flow: Path
) -> None:
    words = ("evaluate", flow, *QUICK, "--covariate", "age")
    ran = run(*words)
    assert ran.code == 0
    assert ran.err.splitlines()[:2] == ["read: 9 scans", "classify: 5 conditions"]
    assert ran.err.splitlines()[2] == "shuffle sites: 9 shuffles"
    assert ran.err.splitlines()[3] == "figures: 10 figures"
    out = flow / "evaluation"
    first = contents(out)
    names = {f"{name}.tsv" for name in (*TABLES, "covariate")} | {"summary.txt", "evaluation.json"}
    names |= {"verdict.txt"} | {f"{name}.svg" for name in PANELS}
    assert set(first) == names | {f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png")}
    verdict = first["verdict.txt"].decode()
    assert ran.out.startswith(verdict)
    assert first["summary.txt"].decode().startswith(verdict)
    assert max(map(len, ran.out.removesuffix(str(out)).splitlines()[:-2])) <= 100
    assert ran.out.splitlines()[-2:] == [f"tables     {out / 'summary.txt'}", f"figures    {out}"]
    for name in FIGURES:
        assert first[f"{name}.png"].startswith(b"\x89PNG\r\n\x1a\n")
        assert b"<svg" in first[f"{name}.svg"][:1000]
    made = record(out)
    assert made["command"] == ["ndflow", *map(str, words)]
    assert made["settings"] == {"covariate": ["age"], "permutations": 2, "trees": 5, "seed": 0}
    assert made["conditions"] == ["unnormalised", "affine", "flow"]
    assert made["scans"] == [f"s{number}" for number in range(9)]
    assert (made["failed"], made["notes"]) == ([], [])
    assert {row["condition"] for row in read_tsv(out / "tissue.tsv")} == set(made["conditions"])
    whole = first["summary.txt"].decode().splitlines()
    for condition in made["conditions"]:
        assert sum(line.startswith(f"{condition} ") for line in whole) == 6 + 2 * 3
        assert sum(line.startswith(f"{condition} ") for line in ran.out.splitlines()) == 1

    ran = run("evaluate", flow, *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert ran.errors == [
        f"error: {out}: not empty; choose another folder, or --force to write there"
    ]
    assert contents(out) == first

    again = process(*words, "--force", "-j", 2, PYTHONHASHSEED="7")
    assert again.code == 0
    second = contents(out)
    assert second.pop("evaluation.json") != first.pop("evaluation.json")
    assert second == first
    assert {**record(out), "command": 0} == {**made, "command": 0}


def test_other_seeds_make_other_forests_and_nothing_else(
    run: Run, flow: Path, tmp_path: Path, unseen: None
) -> None:
    for seed in (0, 1):
        assert run("evaluate", flow, "-o", tmp_path / f"{seed}", *QUICK, "--seed", seed).code == 0
    one, other = contents(tmp_path / "0"), contents(tmp_path / "1")
    differ = {name for name in one if one[name] != other[name]}
    expected = {"classification.tsv", "predictions.tsv", "summary.txt", "evaluation.json"}
    assert differ - {"verdict.txt"} == expected


def test_several_studies_need_an_output_folder_and_are_compared_there(
    run: Run, studies: SiteStudy, tmp_path: Path, unseen: None
) -> None:
    runs = (studies.folder / "flow", studies.folder / "nyul")
    ran = run("evaluate", *runs, *QUICK)
    assert (ran.code, ran.out, len(ran.errors)) == (2, "", 1)
    assert "--output DIR" in ran.errors[0]
    ran = run("evaluate", *runs, "-o", tmp_path / "out", *QUICK)
    assert ran.code == 0
    assert not any((one / "evaluation").exists() for one in runs)
    assert record(tmp_path / "out")["conditions"] == ["unnormalised", "affine", "flow", "nyul"]
    assert record(tmp_path / "out")["runs"] == {one.name: str(one) for one in runs}
    for name in ("fitness", "sites", "classification", "repeats"):
        found = [row["condition"] for row in read_tsv(tmp_path / "out" / f"{name}.tsv")]
        floors = ["ranks", "anatomy"] if name == "classification" else []
        assert found == ["unnormalised", "affine", "flow", "nyul", *floors]


def test_files_of_an_earlier_evaluation_are_removed(run: Run, flow: Path, unseen: None) -> None:
    assert run("evaluate", flow, *QUICK, "--covariate", "age").code == 0
    assert (flow / "evaluation" / "covariate.tsv").exists()
    (flow / "evaluation" / "mine.txt").write_text("precious")
    assert run("evaluate", flow, *QUICK, "--force").code == 0
    assert record(flow / "evaluation")["settings"]["covariate"] == []
    assert not (flow / "evaluation" / "covariate.tsv").exists()
    assert (flow / "evaluation" / "mine.txt").read_text() == "precious"


@pytest.mark.parametrize("name", ["fitness.svg", "summary.txt", "tissue.tsv"])
def test_files_of_anybody_else_are_never_replaced(
    run: Run, flow: Path, tmp_path: Path, unseen: None, name: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("precious")
    ran = run("evaluate", flow, "-o", out, *QUICK, "--force")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [  # before any work
        f"error: {out / name}: exists, and was not written by ndflow; "
        "move it elsewhere, or choose another folder"
    ]
    assert contents(out) == {name: b"precious"}


def test_a_damaged_record_is_noticed_before_any_work(run: Run, flow: Path, unseen: None) -> None:
    assert run("evaluate", flow, *QUICK).code == 0
    made = flow / "evaluation" / "evaluation.json"
    made.write_text(made.read_text()[:-20])
    before = contents(flow)
    ran = run("evaluate", flow, *QUICK, "--force")
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert ran.errors[0].startswith(f"error: {made}: ")
    assert ran.errors[0].endswith("; move it elsewhere, or choose another folder")
    assert contents(flow) == before


def test_an_evaluation_that_was_stopped_while_writing_is_replaced(
    run: Run, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("ndflow.evaluation.save.drawings", stop)
    assert run("evaluate", flow, *QUICK).code == 130
    assert (flow / "evaluation" / "summary.txt").exists()
    assert record(flow / "evaluation")["results"] == {}  # so that no report shows it
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
    assert run("evaluate", flow, *QUICK, "--force").code == 0
    assert record(flow / "evaluation")["results"] != {}


def test_without_permutations_there_is_no_chance_level(run: Run, flow: Path, unseen: None) -> None:
    assert run("evaluate", flow, "--trees", 5, "--permutations", 0).code == 0
    found = read_tsv(flow / "evaluation" / "classification.tsv")
    assert {(row["chance"], row["chance_95"]) for row in found} == {("n/a", "n/a")}
    assert all(0 <= float(row["balanced"]) <= 1 for row in found)


def test_an_evaluation_inside_a_run_renews_its_report(
    run: Run, flow: Path, tmp_path: Path, unseen: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    page = flow / "report.html"
    ran = run("evaluate", flow, "-o", tmp_path / "elsewhere", *QUICK)
    assert (ran.code, page.exists()) == (0, False)
    assert "report " not in ran.out
    ran = run("evaluate", flow, *QUICK, "--no-report")
    assert (ran.code, page.exists()) == (0, False)

    ran = run("evaluate", flow, *QUICK, "--force")
    assert (ran.code, ran.errors) == (0, [])
    assert ran.out.splitlines()[-1] == f"report     {page}"
    first = page.read_text(encoding="utf-8")
    sites = {row["condition"]: row["between"] for row in read_tsv(flow / "evaluation/sites.tsv")}
    assert f"{float(sites['flow']):.3g}" in first
    # Several runs, one of which holds the evaluation.
    other = tmp_path / "other"
    shutil.copytree(flow, other, ignore=shutil.ignore_patterns("evaluation", "report.html"))
    ran = run("evaluate", flow, other, "-o", flow / "evaluation", *QUICK, "--force", "-q")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert page.read_text(encoding="utf-8") != first
    assert not (other / "report.html").exists()
