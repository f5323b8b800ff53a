"""The demonstration: the files that it writes, and its numbers."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from ndflow.cli import main
from ndflow.demo import demonstration
from ndflow.demo.demonstration import Demonstration, check_demo, run_demo
from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.read import read_volume
from ndflow.study.listing.scan_table import read_scans
from ndflow.study.parallel.tasks import Failure
from ndflow.study.run import Summary

RUNS = ("individual", "site", "nyul", "affine")
LIMIT = 1 << 30


class Recorded:
    """Progress that is recorded instead of shown."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.steps = 0

    def begin(self, stage: str, total: int) -> None:
        self.begun.append((stage, total))

    def step(self, stage: str, outcome: Any) -> None:
        assert outcome.failure is None
        self.steps += 1


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recorded, Demonstration]:
    """A demonstration with two coarse subjects per site, small forests and few figures."""
    folder, progress = tmp_path_factory.mktemp("demo") / "out", Recorded()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demonstration, "_PERMUTATIONS", 1)
        patch.setattr(demonstration, "_TREES", 5)
        patch.setattr("ndflow.compare.save.figures", lambda _: [])
        made = run_demo(
            folder, progress, jobs=1, command=["ndflow", "demo"], resolution=6.0, subjects=2
        )
    return folder, progress, made


def test_the_demonstration_has_the_documented_layout(
    done: tuple[Path, Recorded, Demonstration],
) -> None:
    folder, progress, made = done
    assert {path.name for path in folder.iterdir()} == {"data", *RUNS}
    scans = read_scans(folder / "data" / "scans.tsv")
    assert (made.scans, len(scans)) == (6, 6)
    names = {Path(scan.path).name for scan in scans}
    for run in RUNS:
        assert {path.name for path in (folder / run / "images").iterdir()} == names
    assert made.page == folder / "individual" / "report.html"
    page = made.page.read_text("utf-8")
    for name in names:
        assert name.removesuffix(".nii.gz") in page
    for title in ("Tissue quartiles", "Distances between and within sites"):
        assert title in page
    assert (folder / "individual" / "evaluation" / "covariate.tsv").exists()
    assert list(folder.rglob("report.html")) == [made.page]
    stages = [f"{run}: {stage}" for run in RUNS for stage in ("fit", "normalise")]
    assert progress.begun[: len(stages)] == [(stage, 6) for stage in stages]
    assert progress.steps == sum(total for _, total in progress.begun)


def test_sites_come_together_and_maps_near_the_truth(
    done: tuple[Path, Recorded, Demonstration],
) -> None:
    _, _, made = done
    apart, missed = made.apart, made.missed
    assert set(apart) == {"unnormalised", *RUNS}
    assert apart["unnormalised"] > 3 * apart["affine"]
    assert apart["affine"] > 3 * apart["individual"] > 0
    assert apart["affine"] > apart["site"]
    assert set(missed) == set(RUNS)
    assert missed["affine"] > 1.1 * missed["individual"] > 0
    assert missed["affine"] > missed["site"]


@pytest.mark.parametrize("condition", ["unnormalised", "individual", "affine"])
def test_distances_are_those_of_the_voxels(
    done: tuple[Path, Recorded, Demonstration], condition: str
) -> None:
    folder, _, made = done
    scans: dict[str, list[Any]] = {}
    for scan in read_scans(folder / "data" / "scans.tsv"):
        image = scan.path
        if condition != "unnormalised":
            image = str(folder / condition / "images" / Path(scan.path).name)
        volumes = [read_volume(str(path), max_bytes=LIMIT) for path in (image, scan.mask)]
        values, mask = (volume.values(volume.flat) for volume in volumes)
        scans.setdefault(str(scan.site), []).append(values[mask > 0])
    sd = np.mean([scan.std() for own in scans.values() for scan in own])
    shares = np.linspace(0, 1, 4001)
    sites = [
        np.mean([np.quantile(scan / sd, shares) for scan in own], axis=0) for own in scans.values()
    ]
    pairs = [(0, 1), (0, 2), (1, 2)]
    expected = np.mean([wasserstein_distance(sites[i], sites[j]) for i, j in pairs])
    assert made.apart[condition] == pytest.approx(expected, rel=0.05, abs=0.003)


def test_a_folder_that_holds_something_is_left_alone(
    done: tuple[Path, Recorded, Demonstration], tmp_path: Path
) -> None:
    folder, _, _ = done
    (tmp_path / "mine.txt").write_text("precious")
    for taken in (tmp_path, folder):
        with pytest.raises(FileError) as caught:
            check_demo(taken)
        assert str(taken) in str(caught.value)
    with pytest.raises(FileError, match="not empty"):
        run_demo(tmp_path, Recorded(), jobs=1, command=[], resolution=8.0, subjects=1)
    with pytest.raises(FileError, match="cannot be created"):
        run_demo(tmp_path / "mine.txt", Recorded(), jobs=1, command=[])
    with pytest.raises(FileError, match="there is no folder"):
        run_demo(tmp_path / "not" / "yet", Recorded(), jobs=1, command=[])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    check_demo(tmp_path / "empty")
    check_demo(tmp_path / "new")


def test_a_package_that_a_page_needs_is_missed_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ndflow.reporting.build.find_spec", lambda name: None if name == "jinja2" else 1
    )
    with pytest.raises(InvalidValueError, match=r"needs jinja2.*ndflow\[report\]"):
        run_demo(tmp_path / "out", Recorded(), jobs=1, command=[])
    assert not (tmp_path / "out").exists()


def test_a_scan_that_fails_stops_the_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = Failure("Ashford-01_T1w", "no", "", "Ashford-01_T1w: the disc is on fire", "")
    monkeypatch.setattr(demonstration, "run_cohort", lambda *_, **__: Summary(0, 0, [failure]))
    with pytest.raises(InvalidValueError, match="the disc is on fire"):
        run_demo(tmp_path / "out", Recorded(), jobs=1, command=[], resolution=8.0, subjects=1)


def test_the_command_ends_with_five_lines_on_results_and_next_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Path, int]] = []

    def done(folder: Path, progress: Any, *, jobs: int, command: Any) -> Demonstration:
        asked.append((folder, jobs))
        apart = dict(zip(("unnormalised", *RUNS), (1.234, 0.011, 0.022, 0.033, 0.444), strict=True))
        missed = dict(zip(RUNS, (0.055, 0.066, 0.077, 0.888), strict=True))
        return Demonstration(folder / "individual" / "report.html", 18, apart, missed)

    monkeypatch.setattr(demonstration, "run_demo", done)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ndflow", "demo", "-j", "3"])
    assert main() == 0
    assert asked == [(tmp_path / "ndflow-demo", 3)]
    said = capsys.readouterr()
    assert said.err == ""
    apart, missed, where, *then = said.out.splitlines()
    assert len(then) == 2
    assert [float(n) for n in re.findall(r"\d+\.\d+", apart)] == [1.23, 0.444, 0.011, 0.022]
    assert [float(n) for n in re.findall(r"\d+\.\d+", missed)] == [0.888, 0.077, 0.055, 0.066]
    assert "(18 scans)" in apart
    assert str(tmp_path / "ndflow-demo" / "individual" / "report.html") in where
    assert "ndflow cohort study.tsv OUT" in then[0]

    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("precious")
    monkeypatch.setattr(sys, "argv", ["ndflow", "demo", "taken"])
    assert main() == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n"), len(asked)) == ("", 1, 1)
    assert said.err.startswith(f"error: {tmp_path / 'taken'}: not empty")


def test_help_describes_the_demonstration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ndflow", "demo", "--help"])
    assert main() == 0
    said = capsys.readouterr().out
    words = ("--jobs", "--quiet", "three scanners", "ndflow demo", "ndflow-demo")
    assert [word for word in words if word not in said] == []


def test_a_page_that_cannot_be_written_is_an_error_after_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = dict.fromkeys(("unnormalised", *RUNS), 0.1)
    page = tmp_path / "individual" / "report.html"
    doubts = {"Ashford-01_T1w": (Doubt("steep map", "It is steep.", "look at it"),)}
    done = Demonstration(page, 18, numbers, numbers, doubts, "the disc is full")
    monkeypatch.setattr(demonstration, "run_demo", lambda *_, **__: done)
    monkeypatch.setattr(sys, "argv", ["ndflow", "demo", str(tmp_path)])
    assert main() == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert err.splitlines() == [
        "warning: steep map: 1 of 18 scans (Ashford-01_T1w): look at it",
        f"error: {page}: could not be written: the disc is full",
    ]


def test_a_page_that_cannot_be_written_does_not_hide_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path) -> Path:
        raise FileError(folder, "the disc is full", "make room")

    monkeypatch.setattr(demonstration, "report", full)
    done = run_demo(tmp_path / "out", Recorded(), jobs=1, command=[], resolution=8.0, subjects=2)
    assert "the disc is full" in done.problem
    assert done.missed["individual"] > 0
