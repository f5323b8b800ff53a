"""The files of an evaluation, and the function that makes it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import typed
from compared_runs import Desk
from studies import contents, read_json, read_tsv

import ndflow
from ndflow.errors import FileError, InvalidValueError, NdflowError
from ndflow.evaluation import save
from ndflow.evaluation.figures import Drawing
from ndflow.evaluation.save import check_evaluation
from ndflow.study.tasks import Outcome
from ndflow.subject.records import EvaluationRecord


class Stages:
    """Progress that is recorded instead of shown."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.steps = 0

    def begin(self, stage: str, total: int) -> None:
        self.begun.append((stage, total))

    def step(self, stage: str, outcome: Outcome) -> None:
        assert outcome.failure is None
        self.steps += 1


# Save.


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
    (row,) = (row for row in read_tsv(tmp_path / "sites.tsv") if row["condition"] == "affine")
    assert float(row["between_share"]) == 1.0
    assert row["between"] == repr(float(row["between"]))
    assert len(row["between"]) > 12
    rows = read_tsv(tmp_path / "fitness.tsv")
    assert next(row["jump"] for row in rows if row["condition"] == "unnormalised") == "n/a"
    record = EvaluationRecord.read(tmp_path / "evaluation.json")
    assert set(record.outputs) == contents(tmp_path).keys() - {"evaluation.json"}
    assert set(record.outputs) <= set(save.FILES)
    assert "covariate.tsv" in record.outputs
    assert record.runs == {"flow": str(flow)}
    assert record.conditions == ("unnormalised", "affine", "flow")
    assert len(record.scans) == 12
    (tmp_path / "mine.txt").touch()
    ndflow.evaluate(flow, output=tmp_path, force=True, **QUICK)
    assert not (tmp_path / "covariate.tsv").exists()
    assert (tmp_path / "mine.txt").exists()
    assert "covariate.tsv" not in read_json(tmp_path / "evaluation.json")["outputs"]


def test_a_figure_that_cannot_be_drawn_is_named(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spill() -> Any:
        raise OSError("the ink is spilt")

    monkeypatch.setattr(save, "drawings", lambda _: [Drawing("pair", spill)])
    with pytest.raises(NdflowError, match=r"^pair: unexpected OSError: the ink is spilt"):
        ndflow.evaluate(desk.run("flow"), output=tmp_path, **QUICK)
    assert EvaluationRecord.read(tmp_path / "evaluation.json").results == {}  # not finished


# Evaluate.

FEW = ("--permutations", 1, "--trees", 5, "--seed", 3, "-q")
Written = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def written() -> Written:
    """Return a function that reads an evaluation, apart from the command that was run."""

    def files(folder: Path) -> dict[str, bytes]:
        found = contents(folder)
        record = json.loads(found["evaluation.json"])
        del record["command"]
        return found | {"evaluation.json": json.dumps(record).encode()}

    return files


def test_the_function_writes_the_files_of_the_command(
    desk: Desk,
    tmp_path: Path,
    written: Written,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Those of the command are the same each time, which tests/cli/evaluate looks at.
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
    runs = [desk.run("flow"), desk.run("nyul", method="nyul")]
    found = ndflow.evaluate(
        runs, output=tmp_path / "function", covariate="age", permutations=1, trees=5, seed=3
    )
    words = ("-o", tmp_path / "command", "--covariate", "age", *FEW)
    typed("evaluate", *runs, *(word for word in words if word != "-q"))
    assert written(tmp_path / "function") == written(tmp_path / "command")
    assert found.folder == tmp_path / "function"
    assert capsys.readouterr().out.startswith(f"{found.verdict}\n{found.overview}\n")
    assert found.text == (found.folder / "summary.txt").read_text(encoding="utf-8")
    assert repr(found) == found.text
    assert [condition.name for condition in found.comparison.conditions] == [
        *("unnormalised", "affine", "flow", "nyul")
    ]


def test_wrong_choices_are_refused_before_anything_is_made(desk: Desk, tmp_path: Path) -> None:
    runs = [desk.run("flow"), desk.run("nyul", method="nyul")]
    with pytest.raises(InvalidValueError, match="--output"):
        ndflow.evaluate(runs)
    with pytest.raises(FileError, match="holds no study"):
        ndflow.evaluate(desk.folder, output=tmp_path / "new")
    for wrong in ({"trees": 0}, {"seed": -1}, {"permutations": -1}, {"covariate": "height"}):
        with pytest.raises(InvalidValueError, match=next(iter(wrong))):
            ndflow.evaluate(runs, output=tmp_path / "new", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("package", ["matplotlib", "sklearn"])
def test_a_missing_package_is_named_with_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setattr(save, "find_spec", lambda name: None if name == package else 1)
    with pytest.raises(InvalidValueError, match=rf"{package}.*\[evaluate\]"):
        check_evaluation(tmp_path, force=False)


def test_one_study_is_evaluated_in_its_own_folder(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
    out, seen = desk.run("alone"), Stages()
    found = ndflow.evaluate(str(out), permutations=0, trees=2, progress=seen)
    assert found.folder == out / "evaluation"
    assert [stage for stage, _ in seen.begun] == ["read", "classify", "figures"]
    assert seen.begun[:2] == [("read", 12), ("classify", 5)]
    assert seen.steps == 17
    with pytest.raises(FileError, match="not empty"):
        ndflow.evaluate(out, permutations=0, trees=2)
    ndflow.evaluate(out, permutations=0, trees=2, force=True)
