"""The demonstration: the files that it writes, and its numbers."""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import wasserstein_distance
from studies import contents

from ndflow.cli import main
from ndflow.demo import run as demonstration
from ndflow.demo.run import Demonstration, DemoResult, Recovery, run_demo
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.read import read_volume
from ndflow.image.subject import Subject
from ndflow.study.checks import SiteDistances
from ndflow.study.plan import Study
from ndflow.study.run import Summary
from ndflow.study.table import read_table
from ndflow.study.tasks import Failure

pytestmark = pytest.mark.slow

FIRST = "auto"
RUNS = (FIRST, "auto-without-maps", "site", "paper", "nyul", "affine")
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
        patch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
        made = run_demo(
            folder, progress, jobs=1, command=["ndflow", "demo"], resolution=6.0, subjects=2
        )
    return folder, progress, made


def test_the_demonstration_has_the_documented_layout(
    done: tuple[Path, Recorded, Demonstration],
) -> None:
    folder, progress, made = done
    assert {path.name for path in folder.iterdir()} == {"data", *RUNS}
    scans = read_table(folder / "data" / "scans.tsv").subjects
    assert made.summary.done == len(made.study.scans) == len(scans) == 6
    names = {Path(scan.path).name for scan in scans}
    for run in RUNS:
        assert {path.name for path in (folder / run / "images").iterdir()} == names
    assert made.page == folder / FIRST / "report.html"
    page = made.page.read_text("utf-8")
    for name in names:
        assert name.removesuffix(".nii.gz") in page
    for title in ("Tissue quartiles", "How well the scans agree, measured against the truth"):
        assert title in page
    assert (folder / FIRST / "evaluation" / "covariate.tsv").exists()
    assert list(folder.rglob("report.html")) == [made.page]
    stages = [f"{run}: {stage}" for run in RUNS for stage in ("fit", "normalise")]
    assert [one for one in progress.begun if one[0] in stages] == [(stage, 6) for stage in stages]
    # No figures are drawn here, see above.
    announced = [total for stage, total in progress.begun if stage != "figures"]
    assert progress.steps == sum(announced)


def test_sites_come_together_and_scans_agree(done: tuple[Path, Recorded, Demonstration]) -> None:
    _, _, made = done
    assert [one.name for one in made.results] == ["unnormalised", *reversed(RUNS)]
    apart = {one.name: one.apart for one in made.results}
    spread = {one.name: one.recovery.spread for one in made.results if one.recovery}
    assert apart["unnormalised"] > 3 * apart["affine"]
    for run in RUNS[:-1]:
        assert apart["affine"] > 3 * apart[run] > 0
        assert spread["affine"] > 1.5 * spread[run] > 0
    assert spread["paper"] > spread[FIRST]


def test_the_table_names_every_method_with_its_numbers_and_its_command(
    done: tuple[Path, Recorded, Demonstration],
) -> None:
    folder, _, made = done
    with (folder / FIRST / "evaluation" / "recovery.tsv").open(newline="") as file:
        rows = {row["condition"]: row for row in csv.DictReader(file, delimiter="\t")}
    assert list(rows) == ["unnormalised", *reversed(RUNS)]
    assert rows["unnormalised"]["spread"] == rows["unnormalised"]["command"] == "n/a"
    for one in made.results:
        assert float(rows[one.name]["between_sites"]) == one.apart
        if one.recovery:
            assert float(rows[one.name]["spread"]) == one.recovery.spread
            assert float(rows[one.name]["error"]) == one.recovery.error
    assert rows["paper"]["command"] == "ndflow cohort --preset paper"
    assert rows["nyul"]["command"] == "ndflow cohort --method nyul"


@pytest.mark.parametrize("run", [FIRST, "site"])
def test_the_options_that_are_shown_give_the_same_images(
    done: tuple[Path, Recorded, Demonstration],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: str,
) -> None:
    folder, _, made = done
    options = {one.name: one.options for one in made.results}[run]
    table, out = folder / "data" / "scans.tsv", tmp_path / "out"
    words = ["ndflow", "cohort", str(table), str(out), *options.split(), "--no-report", "-q"]
    monkeypatch.setattr(sys, "argv", words)
    assert main() == 0
    assert contents(out / "images") == contents(folder / run / "images")


@pytest.mark.parametrize("condition", ["unnormalised", FIRST, "affine"])
def test_distances_are_those_of_the_voxels(
    done: tuple[Path, Recorded, Demonstration], condition: str
) -> None:
    folder, _, made = done
    scans: dict[str, list[Any]] = {}
    for scan in read_table(folder / "data" / "scans.tsv").subjects:
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
    apart = {one.name: one.apart for one in made.results}
    assert apart[condition] == pytest.approx(expected, rel=0.05, abs=0.003)


def test_a_folder_that_holds_something_is_left_alone(
    done: tuple[Path, Recorded, Demonstration], tmp_path: Path
) -> None:
    folder, _, _ = done
    (tmp_path / "mine.txt").write_text("precious")
    for taken in (tmp_path, folder):
        with pytest.raises(FileError, match="not empty") as caught:
            run_demo(taken, Recorded(), jobs=1, command=[], resolution=8.0, subjects=1)
        assert str(taken) in str(caught.value)
    with pytest.raises(FileError, match="cannot be created"):
        run_demo(tmp_path / "mine.txt", Recorded(), jobs=1, command=[])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_scan_that_fails_stops_the_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = Failure("Ashford-01_T1w", "no", "", "Ashford-01_T1w: the disc is on fire", "")
    monkeypatch.setattr(demonstration, "run_study", lambda *_, **__: Summary(0, 0, [failure]))
    with pytest.raises(InvalidValueError, match="the disc is on fire"):
        run_demo(tmp_path / "out", Recorded(), jobs=1, command=[], resolution=8.0, subjects=1)


def ended(folder: Path) -> Demonstration:
    """Return a demonstration of 18 scans, with numbers that can be told apart."""
    results = [DemoResult("unnormalised", "", 1.234, None)]
    for number, name in enumerate(reversed(RUNS)):
        recovery = Recovery(spread=0.5 + number / 100, error=0.999)
        options = f"--like {name}" if number else ""
        results.append(DemoResult(name, options, 0.2 + number / 100, recovery))
    scans = [Subject(f"{n}.nii.gz", site="ABC"[n % 3], name=f"scan {n}") for n in range(18)]
    return Demonstration(
        folder / FIRST / "report.html",
        tuple(results),
        Study(folder / FIRST, scans),
        Summary(18, 0, [], distances=SiteDistances(True, 1.234, 0.231, 0.007)),
    )


def test_the_command_ends_with_all_methods_the_report_and_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Path, int]] = []

    def done(folder: Path, progress: Any, *, jobs: int, command: Any) -> Demonstration:
        asked.append((folder, jobs))
        return ended(folder)

    monkeypatch.setattr(demonstration, "run_demo", done)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ndflow", "demo", "-j", "3"])
    assert main() == 0
    assert asked == [(tmp_path / "ndflow-demo", 3)]
    said = capsys.readouterr()
    assert said.err == ""
    first, *lines = said.out.splitlines()
    assert first.startswith("18 scans of three scanners simulated in ")
    assert str(tmp_path / "ndflow-demo" / "data") in first
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 100
    cells = {line.split()[0]: line.split() for line in lines if line}
    assert cells["unnormalised"][1:] == ["–", "1.234"]
    assert cells["affine"][1:] == ["0.500", "0.200", "(none:", "the", "default)"]
    assert cells["nyul"][1:] == ["0.510", "0.210", "--like", "nyul"]
    assert cells[FIRST][1:] == ["0.550", "0.250", "--like", FIRST]
    assert "better than any real ones" in " ".join(lines)  # the tissue maps
    assert [line.split()[0] for line in lines[-7:]] == [
        *("scans", "sites", "preset", "distance", "flagged", "report", "next")
    ]
    assert lines[-2].split()[1:] == [f"ndflow-demo/{FIRST}/report.html"]
    assert lines[-1].endswith(f"  ndflow cohort study.tsv OUT --like {FIRST}")
    monkeypatch.setattr(sys, "argv", ["ndflow", "demo", "-q"])
    assert main() == 0
    assert capsys.readouterr() == ("", "")


def test_a_package_that_a_page_needs_is_missed_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ndflow.reporting.build.find_spec", lambda name: None if name == "jinja2" else 1
    )
    with pytest.raises(InvalidValueError, match=r"needs jinja2.*ndflow\[report\]"):
        run_demo(tmp_path / "out", Recorded(), jobs=1, command=[])
    assert not (tmp_path / "out").exists()
