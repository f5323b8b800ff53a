"""``ndflow evaluate``: tables, figures and a record of finished studies."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from phantoms import head, save
from studies import SiteStudy, contents, read_json, read_tsv, write_tsv

QUICK = ("--trees", 2, "--permutations", 1)
NAMES = [f"s{number}" for number in range(6)]


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures, which would take longer than everything else."""
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])


def record(folder: Path) -> Any:
    return read_json(folder / "evaluation.json")


def test_tables_figures_and_record_are_written_and_reproducible(
    run: Run, process: Run, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("evaluate", out, *QUICK, "--covariate", "age")
    ran = process(*words, "-j", 2, PYTHONHASHSEED="7")
    assert ran.code == 0, ran.err
    folder = out / "evaluation"
    first = contents(folder)
    tables = {path.stem for path in folder.glob("*.tsv")}
    assert {"sites", "classification", "fitness", "repeats", "tissue", "covariate"} < tables
    assert (folder / "tissues.png").read_bytes()[:4] == b"\x89PNG"
    assert ran.out.startswith((folder / "verdict.txt").read_text())
    made = record(folder)
    assert made["settings"] == {"covariate": ["age"], "permutations": 1, "trees": 2, "seed": 0}
    assert (made["scans"], made["failed"]) == (NAMES, [])
    for table in ("fitness", "classification", "sites"):
        found = [row["condition"] for row in read_tsv(folder / f"{table}.tsv")]
        assert found[:3] == made["conditions"] == ["unnormalised", "affine", "out"]
    assert run(*words).code == 2  # not without --force
    assert contents(folder) == first
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
    assert run(*words, "--force").code == 0
    tables = [name for name in contents(folder) if name != "evaluation.json"]
    assert {name: contents(folder)[name] for name in tables} == {
        name: first[name] for name in tables
    }


def test_options_reach_the_forests(run: Run, out: Path, tmp_path: Path, unseen: None) -> None:
    for name, words in {"a": (0,), "b": (0, "--seed", 1)}.items():
        words = ("--trees", 5, "--permutations", *words)
        assert run("evaluate", out, "-o", tmp_path / name, *words).code == 0
    one, other = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert {name for name in one if one[name] != other[name]} - {"verdict.txt"} == {
        "classification.tsv", "predictions.tsv", "summary.txt", "evaluation.json"
    }  # fmt: skip
    found = read_tsv(tmp_path / "a" / "classification.tsv")
    assert {row["chance"] for row in found} == {"n/a"}


def test_studies_are_compared_on_their_common_scans(
    run: Run, study: SiteStudy, tmp_path: Path, unseen: None
) -> None:
    table = write_tsv(study.folder / "fewer.tsv", study.rows[1:])
    assert run("cohort", table, tmp_path / "nyul", "--method", "nyul", "-q").code == 0
    both = (study.folder / "out", tmp_path / "nyul")
    ran = run("evaluate", *both, *QUICK)
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert "--output" in ran.errors[0]
    assert run("evaluate", *both, "-o", tmp_path / "e", *QUICK).code == 0
    made = record(tmp_path / "e")
    assert made["conditions"] == ["unnormalised", "affine", "out", "nyul"]
    assert made["scans"] == NAMES[1:]
    assert {row["scan"] for row in read_tsv(tmp_path / "e" / "fitness_scans.tsv")} == {*NAMES[1:]}


def test_images_alone_are_enough(run: Run, study: SiteStudy, tmp_path: Path) -> None:
    table = write_tsv(study.folder / "bare.tsv", study.rows[:3], ["image"])
    assert run("cohort", table, tmp_path / "out", "-q").code == 0
    ran = run("evaluate", tmp_path / "out", *QUICK)
    assert (ran.code, ran.errors) == (0, [])
    assert len(record(tmp_path / "out" / "evaluation")["notes"]) == 3
    made = {path.name for path in (tmp_path / "out" / "evaluation").glob("*.tsv")}
    assert made == {"fitness.tsv", "fitness_scans.tsv", "features.tsv"}


@pytest.mark.parametrize("kind", ["image", "map", "tissue"])
def test_a_scan_that_fails_is_named_and_the_others_are_compared(
    run: Run, out: Path, unseen: None, kind: str
) -> None:
    wrong = {"image": out / "images/s4.nii.gz", "map": out / "maps/s4.json"}.get(kind)
    if kind == "image":
        wrong.write_bytes(wrong.read_bytes()[:-200])
    elif kind == "map":
        wrong.write_text("{}")
    else:
        wrong = save(out / "tissue.nii", head(4))  # of another shape
        rows = read_tsv(out / "scans.tsv")
        rows[4]["gm"] = str(wrong)
        write_tsv(out / "scans.tsv", rows)
    ran = run("evaluate", out, *QUICK)
    assert (ran.code, len(ran.errors)) == (1, 1)
    assert str(wrong) in ran.errors[0]
    made = record(out / "evaluation")
    assert (made["failed"], len(made["scans"])) == (["s4"], 5)
    assert len(read_tsv(out / "evaluation" / "fitness_scans.tsv")) == 3 * 5
    for path in (out / "maps").iterdir():
        path.write_text("{}")
    assert run("evaluate", out, *QUICK, "-o", out.parent / "none").code == 2
    assert not (out.parent / "none").exists()


@pytest.mark.parametrize("name", ["s0.nii.gz", "out/images/s0.nii.gz", "out/models/s0.json"])
def test_a_file_that_is_not_the_one_of_the_study_is_noticed(
    run: Run, study: SiteStudy, tmp_path: Path, unseen: None, name: str
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    for number in range(6):
        shutil.copy(study.folder / f"s{number}.nii.gz", folder)
    rows = [{"image": f"s{number}.nii.gz"} for number in range(6)]
    assert run("cohort", write_tsv(folder / "t.tsv", rows), folder / "out", "-q").code == 0
    other = (folder / name).with_name((folder / name).name.replace("s0", "s1"))
    shutil.copyfile(other, folder / name)
    ran = run("evaluate", folder / "out", *QUICK)
    assert ran.code == 1
    assert str(folder / name) in ran.errors[0]
    assert record(folder / "out" / "evaluation")["failed"] == ["s0"]


def test_files_of_others_are_never_replaced_and_old_ones_of_ours_are_removed(
    run: Run, out: Path, tmp_path: Path, unseen: None
) -> None:
    assert run("evaluate", out, *QUICK, "--covariate", "age").code == 0
    (out / "evaluation" / "mine.txt").write_text("precious")
    assert run("evaluate", out, *QUICK, "--force").code == 0
    assert not (out / "evaluation" / "covariate.tsv").exists()
    assert (out / "evaluation" / "mine.txt").read_text() == "precious"
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "fitness.tsv").write_text("precious")
    ran = run("evaluate", out, "-o", folder, *QUICK, "--force")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert str(folder / "fitness.tsv") in ran.errors[0]
    assert contents(folder) == {"fitness.tsv": b"precious"}


def test_an_evaluation_that_was_stopped_while_writing_is_replaced(
    run: Run, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("ndflow.evaluation.save.drawings", stop)
    assert run("evaluate", out, *QUICK).code == 130
    assert record(out / "evaluation")["results"] == {}  # so that no report shows it
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
    assert run("evaluate", out, *QUICK, "--force").code == 0
    assert record(out / "evaluation")["results"] != {}
