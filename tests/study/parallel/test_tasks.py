"""Several scans: in order, each for itself, whatever becomes of the others."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from phantoms import head, save

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.scan.normalise import normalise_scan
from ndflow.scan.outputs import make_folder, one_each, outputs_for
from ndflow.scan.target import read_target
from ndflow.settings import Fitting, Matching, Reading, Writing
from ndflow.study.parallel.tasks import Failure, Outcome, Task, record_failures, run_tasks


def worker() -> Callable[[int], int]:
    """A function that can fail in different ways; a local one, which workers need not import."""

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


@pytest.mark.parametrize("jobs", [1, 2, -1])
def test_outcomes_come_in_the_order_of_the_tasks(jobs: int) -> None:
    outcomes = list(run_tasks(worker(), tasks(5, 0, 7, 6), jobs=jobs))
    assert outcomes == [Outcome(f"scan{n}", 10 * n, None) for n in (5, 0, 7, 6)]


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


def test_a_worker_that_is_killed_takes_no_other_scan_with_it() -> None:
    # As Linux does where memory runs out, which is how too many --jobs end.
    def work(number: int) -> int:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * number

    outcomes = list(run_tasks(work, tasks(0, 1, 2, 3), jobs=2))
    assert [outcome.result for outcome in outcomes] == [0, None, 20, 30]
    failure = outcomes[1].failure
    assert failure is not None
    assert failure.message.startswith("scan1: ")
    assert "memory" in failure.message
    assert "jobs" in failure.hint


LEAKS = """
from joblib.externals.loky.backend import resource_tracker
from ndflow.study.parallel.tasks import Task, each
assert [outcome.result for outcome in each(dict, [Task("scan", {"a": 1})] * 2, jobs=2)]
resource_tracker.register("/loky-of-a-worker-that-was-killed", "semlock")
"""


def test_what_a_killed_worker_leaves_is_cleared_away_without_a_word() -> None:
    command = [sys.executable, "-c", LEAKS]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_scan_is_done_when_its_turn_comes_and_not_before() -> None:
    # So that a bar can move, and an interrupted run has its first results.
    seen: list[int] = []

    def noted(number: int) -> None:
        seen.append(number)

    outcomes = run_tasks(noted, tasks(0, 1, 2))
    assert seen == []
    next(outcomes)
    assert seen == [0]


def test_an_interruption_is_not_a_failure() -> None:
    def interrupted(number: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_tasks(interrupted, tasks(0, 1)))


@pytest.mark.parametrize("jobs", [0, -2])
def test_a_number_of_jobs_that_makes_no_sense_is_refused(jobs: int) -> None:
    with pytest.raises(InvalidValueError, match="jobs"):
        list(run_tasks(worker(), tasks(5, 6), jobs=jobs))


def test_no_task_is_no_work() -> None:
    assert list(run_tasks(worker(), [], jobs=2)) == []


def test_workers_give_the_same_bytes(tmp_path: Path) -> None:
    target = read_target(head(9, gain=2))
    images = [save(tmp_path / f"{n}.nii.gz", head(n)) for n in range(3)]
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        folder.mkdir()
        shared = {
            "target": target,
            "mask": None,
            "exclude": None,
            "reading": Reading(),
            "fitting": Fitting(),
            "matching": Matching(),
            "writing": Writing(),
        }
        work = [
            Task(str(image), {"image": image, "output": folder / image.name, **shared})
            for image in images
        ]
        outcomes = list(run_tasks(normalise_scan, work, jobs=jobs))
        assert [outcome.failure for outcome in outcomes] == [None] * 3
        assert [outcome.result.image for outcome in outcomes] == [None] * 3
    names = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert len(names) == 6
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


# ── the list of failures ─────────────────────────────────────────────────────────────────────────


def test_failures_are_listed_with_a_line_each(tmp_path: Path) -> None:
    failures = [
        Failure("a.nii", "a.nii: no such file", "look for it", "", ""),
        Failure("tab\there", "line\none", "", "", ""),
        Failure("caf\udce9.nii", "größer", "", "", ""),
    ]
    record_failures(tmp_path, {"fit": []}, {"fit": failures})
    lines = (tmp_path / "failures.tsv").read_text(encoding="utf-8").split("\n")
    assert lines == [
        "scan\tstage\tcause\ttry",
        "a.nii\tfit\ta.nii: no such file\tlook for it",
        "tab\\there\tfit\tline\\none\tn/a",
        "caf\\udce9.nii\tfit\tgrößer\tn/a",
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
    assert listed() == [["a\\tb.nii", "fit"], ["c.nii", "fit"], ["a\\tb.nii", "normalise"]]
    record_failures(tmp_path, {"fit": names[:1]}, {"fit": []})
    assert listed() == [["c.nii", "fit"], ["a\\tb.nii", "normalise"]]
    record_failures(tmp_path, {"fit": names, "normalise": names}, {})
    assert list(tmp_path.iterdir()) == []
    record_failures(tmp_path, {"normalise": names}, {})


def test_a_list_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "failures.tsv"
    path.write_text("mine\n")
    record_failures(tmp_path, {"fit": ["a"]}, {})
    with pytest.raises(FileError, match="not written by ndflow"):
        record_failures(tmp_path, {"fit": ["a"]}, {"fit": [Failure("a", "cause", "", "", "")]})
    assert path.read_text() == "mine\n"


# ── where results go ─────────────────────────────────────────────────────────────────────────────


def same_name(image: str) -> str:
    return Path(image).name


def test_one_image_goes_to_a_file(tmp_path: Path) -> None:
    assert outputs_for(["a.nii"], tmp_path / "b.nii.gz", same_name) == (
        None,
        [tmp_path / "b.nii.gz"],
    )


@pytest.mark.parametrize("existing", [False, True])
def test_several_images_go_to_a_folder(tmp_path: Path, existing: bool) -> None:
    folder = tmp_path / "out"
    if existing:
        folder.mkdir()
    found = outputs_for(["x/a.nii", "y/b.nii.gz"], folder, same_name)
    assert found == (folder, [folder / "a.nii", folder / "b.nii.gz"])


def test_one_image_goes_to_a_folder_that_exists_or_ends_with_a_slash(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for given in (tmp_path / "there", f"{tmp_path}/there", f"{tmp_path}/new/"):
        folder, files = outputs_for(["x/a.nii"], given, same_name)
        assert folder == Path(given)
        assert files == [Path(given) / "a.nii"]


@pytest.mark.parametrize("name", ["out.nii.gz", "out.json", "out.mgz", "out.hdr", "taken"])
def test_several_images_do_not_go_to_one_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "taken").write_bytes(b"mine")
    with pytest.raises(FileError, match="2 images") as caught:
        outputs_for(["a.nii", "b.nii"], tmp_path / name, same_name)
    assert "folder" in caught.value.hint


@pytest.mark.parametrize(
    "images",
    [("x/a.nii", "y/a.nii"), ("x/a.nii", "x/a.nii"), ("x/a.nii", "x/a.nii.gz"), ("a.img", "a.hdr")],
)
def test_two_results_of_one_name_are_refused(tmp_path: Path, images: tuple[str, str]) -> None:
    with pytest.raises(FileError) as caught:
        outputs_for(images, tmp_path / "out", same_name)
    assert caught.value.path == images[1]
    assert caught.value.hint


def test_a_folder_is_made_but_not_the_one_it_lies_in(tmp_path: Path) -> None:
    make_folder(None)
    make_folder(tmp_path / "out")
    make_folder(tmp_path / "out")  # once more does no harm
    assert (tmp_path / "out").is_dir()
    with pytest.raises(FileError, match="there is no folder"):
        make_folder(tmp_path / "no" / "out")
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(FileError):
        make_folder(tmp_path / "file" / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "out"]


def test_each_image_has_its_own_of_what_is_given() -> None:
    images = ["a", "b", "c"]
    assert one_each([], images, "--mask") == [None] * 3
    assert one_each(["auto"], images, "--mask") == ["auto"] * 3
    assert one_each(("x", "auto", "z"), images, "--mask") == ["x", "auto", "z"]
    assert one_each(["x"], ["a"], "--mask") == ["x"]
    for given in (["x"], ["x", "y"], ["auto", "auto"], ["w", "x", "y", "z"]):
        with pytest.raises(InvalidValueError, match=r"--mask: .*3 images"):
            one_each(given, images, "--mask")


def test_a_result_is_the_same_in_a_worker(tmp_path: Path) -> None:
    # What travels back from another process: records, maps and mixtures, all of it plain data.
    image = save(tmp_path / "a.nii.gz", head(0))
    names = ("image", "to", "effective_count")
    jobs = [
        Task("a", dict(zip(names, (image, head(1), count), strict=True))) for count in (1e3, 1e4)
    ]
    here, there = (list(run_tasks(ndflow.normalise, jobs, jobs=number)) for number in (1, 2))
    for one, two in zip(here, there, strict=True):
        assert one.failure is two.failure is None
        assert one.result.record == two.result.record
        assert one.result.imap == two.result.imap
        assert one.result.mixture == two.result.mixture
        assert np.array_equal(one.result.image.get_fdata(), two.result.image.get_fdata())
