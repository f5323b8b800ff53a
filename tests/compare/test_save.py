"""The folder of an evaluation: what may stand in its way, and what is replaced."""

from pathlib import Path
from typing import Any

import pytest
from compared_runs import Desk, compared
from studies import contents, read_json, read_tsv

from ndflow.compare import save
from ndflow.compare.draw import Drawing
from ndflow.compare.save import check_evaluation, write_evaluation
from ndflow.errors import FileError, InvalidValueError, NdflowError
from ndflow.scan.records import EvaluationRecord


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


@pytest.mark.parametrize("package", ["matplotlib", "sklearn"])
def test_a_missing_package_is_named_with_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setattr(save, "find_spec", lambda name: None if name == package else 1)
    with pytest.raises(InvalidValueError, match=rf"{package}.*ndflow\[evaluate\]"):
        check_evaluation(tmp_path, force=False)


def test_numbers_are_written_with_all_their_digits_and_old_files_are_removed(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save, "drawings", lambda _: [])
    comparison = compared(desk.run("flow"))
    options: dict[str, Any] = {"settings": {"seed": 0}, "command": ("ndflow", "evaluate")}
    texts = write_evaluation(comparison, tmp_path, covariates=["age"], **options)
    assert (tmp_path / "summary.txt").read_text(encoding="utf-8") == texts.whole
    assert (tmp_path / "verdict.txt").read_text(encoding="utf-8") == texts.verdict
    (row,) = (row for row in read_tsv(tmp_path / "sites.tsv") if row["condition"] == "affine")
    assert float(row["between_share"]) == 1.0
    assert row["between"] == repr(float(row["between"]))
    assert len(row["between"]) > 12
    rows = read_tsv(tmp_path / "fitness.tsv")
    assert next(row["jump"] for row in rows if row["condition"] == "unnormalised") == "n/a"
    record = EvaluationRecord.read(tmp_path / "evaluation.json")
    assert set(record.files) == contents(tmp_path).keys() - {"evaluation.json"}
    assert set(record.files) <= set(save.FILES)
    assert "covariate.tsv" in record.files
    assert record.runs == {"flow": str(desk.run("flow"))}
    assert record.conditions == ("unnormalised", "affine", "flow")
    assert len(record.scans) == 12
    (tmp_path / "mine.txt").touch()
    write_evaluation(comparison, tmp_path, covariates=[], **options)
    assert not (tmp_path / "covariate.tsv").exists()
    assert (tmp_path / "mine.txt").exists()
    assert "covariate.tsv" not in read_json(tmp_path / "evaluation.json")["files"]


def test_a_figure_that_cannot_be_drawn_is_named(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spill() -> Any:
        raise OSError("the ink is spilt")

    monkeypatch.setattr(save, "drawings", lambda _: [Drawing("pair", spill)])
    options: dict[str, Any] = {"settings": {}, "command": (), "covariates": []}
    with pytest.raises(NdflowError, match=r"^pair: unexpected OSError: the ink is spilt"):
        write_evaluation(compared(desk.run("flow")), tmp_path, **options)
    assert EvaluationRecord.read(tmp_path / "evaluation.json").results == {}  # not finished
