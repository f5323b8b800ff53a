"""``ndflow.evaluate`` does what ``ndflow evaluate`` does."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import typed
from compared_runs import Desk
from studies import contents

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.study.parallel.tasks import Outcome

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
    monkeypatch.setattr("ndflow.compare.save.drawings", lambda _: [])
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


def test_one_study_is_evaluated_in_its_own_folder(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.compare.save.drawings", lambda _: [])
    out, seen = desk.run("alone"), Stages()
    found = ndflow.evaluate(str(out), permutations=0, trees=2, progress=seen)
    assert found.folder == out / "evaluation"
    assert [stage for stage, _ in seen.begun] == ["read", "classify", "figures"]
    assert seen.begun[:2] == [("read", 12), ("classify", 10)]
    assert seen.steps == 22
    with pytest.raises(FileError, match="not empty"):
        ndflow.evaluate(out, permutations=0, trees=2)
    ndflow.evaluate(out, permutations=0, trees=2, force=True)


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


def test_there_must_be_a_study_to_evaluate(tmp_path: Path) -> None:
    for output in (None, tmp_path / "out"):
        with pytest.raises(InvalidValueError, match="at least one study"):
            ndflow.evaluate([], output=output)
