"""The files of an evaluation, and the function that makes it."""

from pathlib import Path
from typing import Any

import pytest
from compared_runs import Desk
from studies import contents, read_json, read_tsv

import ndflow
from ndflow.errors import FileError, InvalidValueError, NdflowError
from ndflow.evaluation import save
from ndflow.evaluation.figures import Drawing
from ndflow.evaluation.save import check_evaluation
from ndflow.subject.records import EvaluationRecord


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    check_evaluation(tmp_path, force=False)
    check_evaluation(tmp_path / "new", force=False)
    (tmp_path / "mine.txt").touch()
    with pytest.raises(FileError, match="not empty"):
        check_evaluation(tmp_path, force=False)
    check_evaluation(tmp_path, force=True)
    for taken in (tmp_path / "mine.txt", tmp_path / "not" / "yet"):
        with pytest.raises(FileError):
            check_evaluation(taken, force=True)


QUICK: dict[str, Any] = {"permutations": 0, "trees": 2}


def test_numbers_are_written_with_all_their_digits_and_old_files_are_removed(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save, "drawings", lambda _: [])
    flow = desk.run("flow")
    texts = ndflow.evaluate(flow, output=tmp_path, covariate="age", **QUICK)
    assert (tmp_path / "summary.txt").read_text(encoding="utf-8") == texts.text
    assert (tmp_path / "verdict.txt").read_text(encoding="utf-8") == texts.verdict
    assert max(map(len, texts.overview.splitlines())) <= 100
    (row,) = (row for row in read_tsv(tmp_path / "measures.tsv") if row["condition"] == "affine")
    assert row["between"] == repr(float(row["between"]))
    assert len(row["between"]) > 12
    rows = read_tsv(tmp_path / "fitness.tsv")
    assert next(row["jump"] for row in rows if row["condition"] == "unnormalised") == "n/a"
    record = EvaluationRecord.read(tmp_path / "evaluation.json")
    assert set(record.outputs) == contents(tmp_path).keys() - {"evaluation.json"}
    assert "covariate.tsv" in record.outputs
    (tmp_path / "mine.txt").touch()
    ndflow.evaluate(flow, output=tmp_path, force=True, **QUICK)
    assert not (tmp_path / "covariate.tsv").exists()
    assert (tmp_path / "mine.txt").exists()
    assert "covariate.tsv" not in read_json(tmp_path / "evaluation.json")["outputs"]
    (tmp_path / "covariate.tsv").write_text("mine")
    with pytest.raises(FileError, match="was not written by ndflow"):
        ndflow.evaluate(flow, output=tmp_path, covariate="age", force=True, **QUICK)
    assert (tmp_path / "covariate.tsv").read_text() == "mine"


def test_a_figure_that_cannot_be_drawn_is_named(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spill() -> Any:
        raise OSError("the ink is spilt")

    monkeypatch.setattr(save, "drawings", lambda _: [Drawing("pair", spill)])
    with pytest.raises(NdflowError, match=r"^pair: unexpected OSError: the ink is spilt"):
        ndflow.evaluate(desk.run("flow"), output=tmp_path, **QUICK)
    assert not any(tmp_path.iterdir())


def test_wrong_choices_are_refused_before_anything_is_made(desk: Desk, tmp_path: Path) -> None:
    runs = [desk.run("flow"), desk.run("nyul", method="nyul")]
    with pytest.raises(InvalidValueError, match="--output"):
        ndflow.evaluate(runs)
    for wrong in ({"trees": 0}, {"seed": -1}, {"permutations": -1}, {"covariate": "height"}):
        with pytest.raises(InvalidValueError, match=next(iter(wrong))):
            ndflow.evaluate(runs, output=tmp_path / "new", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()
