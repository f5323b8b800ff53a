"""Tasks run in order and independently: one that fails does not affect the others."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ndflow.errors import FileError, InvalidValueError
from ndflow.study.tasks import Failure, Task, record_failures, run_tasks


def worker() -> Callable[[int], int]:
    """Return a function that can fail in different ways, local so that workers need no import."""

    def work(number: int) -> int:
        if number == 1:
            raise FileError("one.nii", "a cause", "a hint")
        if number == 2:
            raise InvalidValueError("a value makes no sense")
        if number == 3:
            raise MemoryError
        if number == 4:
            raise ZeroDivisionError("by accident")
        return 10 * number

    return work


def tasks(*numbers: int) -> list[Task]:
    return [Task(f"scan{number}", {"number": number}) for number in numbers]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_is_an_outcome_and_the_others_go_on(jobs: int) -> None:
    outcomes = list(run_tasks(worker(), tasks(0, 1, 2, 3, 4, 5), jobs=jobs))
    assert [outcome.result for outcome in outcomes] == [0, None, None, None, None, 50]
    assert [outcome.scan for outcome in outcomes] == [f"scan{n}" for n in range(6)]
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    assert [failure.message for failure in failures[:2]] == [
        "one.nii: a cause; a hint",
        "scan2: a value makes no sense",
    ]
    assert (failures[0].cause, failures[0].hint) == ("one.nii: a cause", "a hint")
    assert failures[2].message.startswith("scan3: not enough memory; ")
    assert failures[3].message.startswith("scan4: unexpected ZeroDivisionError: by accident; ")
    assert "report" in failures[3].hint
    for failure in failures:
        assert "\n" not in failure.message
        assert failure.details.startswith("Traceback")


# ── the list of failures ──────────────────────────────────────────────────────────────────────────


def test_failures_are_listed_with_a_line_each(tmp_path: Path) -> None:
    failures = [
        Failure("tab\there", "line\none", "", "", ""),
        Failure("caf\udce9.nii", "größer", "look for it", "", ""),
    ]
    record_failures(tmp_path, {"fit": []}, {"fit": failures})
    lines = (tmp_path / "failures.tsv").read_text(encoding="utf-8").split("\n")
    assert lines == [
        "scan\tstage\tcause\ttry",
        "'\\tab\\there\tfit\t'\\line\\none\tn/a",
        "'\\caf\\udce9.nii\tfit\tgrößer\tlook for it",
        "",
    ]
    assert list(tmp_path.iterdir()) == [tmp_path / "failures.tsv"]


def test_a_scan_leaves_the_list_when_it_succeeds_and_the_others_stay(tmp_path: Path) -> None:
    def listed() -> list[list[str]]:
        lines = (tmp_path / "failures.tsv").read_text(encoding="utf-8").splitlines()
        return [line.split("\t")[:2] for line in lines[1:]]

    names = ["a\tb.nii", "c.nii"]
    failures = [Failure(name, "cause", "hint", "", "") for name in names]
    record_failures(tmp_path, {"fit": names}, {"fit": failures})
    record_failures(tmp_path, {"normalise": names}, {"normalise": failures[:1]})
    assert listed() == [["'\\a\\tb.nii", "fit"], ["c.nii", "fit"], ["'\\a\\tb.nii", "normalise"]]
    record_failures(tmp_path, {"fit": names[:1]}, {"fit": []})
    assert listed() == [["c.nii", "fit"], ["'\\a\\tb.nii", "normalise"]]
    record_failures(tmp_path, {"fit": names, "normalise": names}, {})
    assert list(tmp_path.iterdir()) == []
    record_failures(tmp_path, {"normalise": names}, {})


def test_work_that_is_kept_apart_has_another_process_even_if_it_is_one_job() -> None:
    def process_id(scan: str) -> int:
        return os.getpid()

    tasks = [Task(name, {"scan": name}) for name in "ab"]
    found = {outcome.result for outcome in run_tasks(process_id, tasks, apart=True)}
    assert found.isdisjoint({os.getpid(), None})
    assert len(found) == 1
    assert [*run_tasks(process_id, [], apart=True)] == []


def test_a_foreign_list_of_failures_is_left_alone(tmp_path: Path) -> None:
    (path := tmp_path / "failures.tsv").write_text("mine\n")
    record_failures(tmp_path, {"fit": ["a"]}, {})
    with pytest.raises(FileError, match="not written by ndflow"):
        record_failures(tmp_path, {"fit": ["a"]}, {"fit": [Failure("a", "cause", "", "", "")]})
    assert path.read_text() == "mine\n"
