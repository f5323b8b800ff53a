"""``ndflow evaluate``: tables, figures and a record of finished studies."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from studies import contents, read_json, read_tsv

QUICK = ("--trees", 2, "--permutations", 0)
NAMES = [f"s{number}" for number in range(6)]


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures, which would take longer than everything else."""
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])


def record(folder: Path) -> Any:
    return read_json(folder / "evaluation.json")


def test_tables_figures_and_record_are_written_and_reproducible(
    run: Run, process: Run, out: Path, unseen: None
) -> None:
    words = ("evaluate", out, "--trees", 2, "--permutations", 1, "--covariate", "age")
    ran = process(*words, PYTHONHASHSEED="7")
    assert ran.code == 0, ran.err
    folder = out / "evaluation"
    first = contents(folder)
    tables = {path.stem for path in folder.glob("*.tsv")}
    assert {"measures", "changes", "classification", "fitness", "tissue", "covariate"} < tables
    assert (folder / "tissues_WM.png").read_bytes()[:4] == b"\x89PNG"
    assert ran.out.startswith((folder / "verdict.txt").read_text())
    made = record(folder)
    assert made["settings"] == {"covariate": ["age"], "permutations": 1, "trees": 2, "seed": 0}
    found = [row["condition"] for row in read_tsv(folder / "fitness.tsv")]
    assert found == ["unnormalised", "affine", "out"]
    assert run(*words).code == 2  # not without --force
    assert contents(folder) == first
    (folder / "mine.txt").write_text("precious")
    assert run(*words, "--force").code == 0
    again = {name: part for name, part in contents(folder).items() if name != "evaluation.json"}
    assert again.pop("mine.txt") == b"precious"
    assert again == {name: first[name] for name in again}


def test_scans_that_fail_are_named_and_the_others_are_compared(
    run: Run, out: Path, unseen: None
) -> None:
    image, model, sidecar = out / "images/s1.nii.gz", out / "models/s3.json", out / "maps/s5.json"
    image.write_bytes(image.read_bytes()[:-200])
    shutil.copyfile(out / "models/s2.json", model)
    sidecar.write_text("{}")
    ran = run("evaluate", out, *QUICK)
    assert (ran.code, len(ran.errors)) == (1, 3)
    for path, error in zip((image, model, sidecar), ran.errors, strict=True):
        assert str(path) in error
    rows = read_tsv(out / "evaluation" / "fitness_scans.tsv")
    assert {row["scan"] for row in rows} == {"s0", "s2", "s4"}
    for path in (out / "maps").iterdir():
        path.write_text("{}")
    assert run("evaluate", out, *QUICK, "-o", out.parent / "none").code == 2
    assert not (out.parent / "none").exists()


def test_an_evaluation_that_was_stopped_while_writing_leaves_nothing(
    run: Run, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
    with monkeypatch.context() as patched:
        patched.setattr("ndflow.files.model_files.list_outputs", stop)
        assert run("evaluate", out, *QUICK).code == 130
    assert not any((out / "evaluation").iterdir())
    assert run("evaluate", out, *QUICK).code == 0
