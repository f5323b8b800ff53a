"""The demonstration: the files that it writes, and its numbers."""

from pathlib import Path

import numpy as np
import pytest
from commands import typed
from scipy.stats import wasserstein_distance
from studies import Silent, contents, read_tsv

from ndflow.demo import run as demonstration
from ndflow.demo.run import Demonstration, run_demo
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.read import read_volume
from ndflow.study.table import read_table

RUNS = ("auto", "auto-without-maps", "site", "paper", "nyul", "affine")


def small(folder: Path) -> Demonstration:
    """Run a demonstration with two coarse subjects per site."""
    return run_demo(folder, Silent(), jobs=1, command=[], resolution=6.0, subjects=2)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    """A demonstration with small forests and few figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demonstration, "_PERMUTATIONS", 1)
        patch.setattr(demonstration, "_TREES", 5)
        patch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
        return small(tmp_path_factory.mktemp("demo") / "out")


@pytest.mark.slow
def test_sites_come_together_and_scans_agree(done: Demonstration) -> None:
    first = done.page.parent
    page = done.page.read_text("utf-8")
    assert "How well the scans agree, measured against the truth" in page
    names = {f"{Path(scan.path).name}" for scan in done.study.scans}
    for run in RUNS:
        assert {path.name for path in (first.parent / run / "images").iterdir()} == names
    rows = {row["condition"]: row for row in read_tsv(first / "evaluation" / "recovery.tsv")}
    assert [*rows] == ["unnormalised", *reversed(RUNS)] == [one.name for one in done.results]
    assert rows["paper"]["command"] == "ndflow cohort --preset paper"
    assert rows["nyul"]["command"] == "ndflow cohort --method nyul"
    apart = {name: float(row["between_sites"]) for name, row in rows.items()}
    spread = {run: float(rows[run]["spread"]) for run in RUNS}
    assert apart["unnormalised"] > 3 * apart["affine"]
    for run in RUNS[:-1]:
        assert apart["affine"] > 3 * apart[run] > 0
        assert spread["affine"] > 1.5 * spread[run] > 0
    assert spread["paper"] > spread["auto"]


@pytest.mark.slow
def test_the_options_that_are_shown_give_the_same_images(
    done: Demonstration, tmp_path: Path
) -> None:
    folder = done.page.parents[1]
    options = {one.name: one.options for one in done.results}["site"]
    words = (tmp_path / "out", *options.split(), "--no-report", "-q")
    typed("cohort", folder / "data" / "scans.tsv", *words)
    assert contents(tmp_path / "out" / "images") == contents(folder / "site" / "images")


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["unnormalised", "auto"])
def test_distances_are_those_of_the_voxels(done: Demonstration, condition: str) -> None:
    folder, scans = done.page.parents[1], {}
    for scan in read_table(folder / "data" / "scans.tsv").subjects:
        image = scan.path
        if condition != "unnormalised":
            image = str(folder / condition / "images" / Path(scan.path).name)
        volumes = [read_volume(str(path), max_bytes=1 << 30) for path in (image, scan.mask)]
        values, mask = (volume.values(volume.flat) for volume in volumes)
        scans.setdefault(scan.site, []).append(values[mask > 0])
    sd = np.mean([scan.std() for own in scans.values() for scan in own])
    shares = np.linspace(0, 1, 4001)
    one, two, three = (
        np.mean([np.quantile(scan / sd, shares) for scan in own], axis=0) for own in scans.values()
    )
    pairs = ((one, two), (one, three), (two, three))
    expected = np.mean([wasserstein_distance(*pair) for pair in pairs])
    apart = {one.name: one.apart for one in done.results}
    assert apart[condition] == pytest.approx(expected, rel=0.05, abs=0.003)


def test_nothing_is_begun_where_it_cannot_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(FileError, match="not empty"):
        small(tmp_path)
    with pytest.raises(FileError, match="cannot be created"):
        small(tmp_path / "mine.txt")
    monkeypatch.setattr("ndflow.reporting.build.find_spec", lambda name: name != "jinja2" or None)
    with pytest.raises(InvalidValueError, match=r"needs jinja2"):
        small(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_the_command_shows_all_methods_the_report_and_the_next_step(
    done: Demonstration, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demonstration, "run_demo", lambda *_, **__: done)
    typed("demo", done.page.parents[1])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    cells = {words[0]: words for words in lines}
    assert cells["unnormalised"][1:] == ["–", f"{done.results[0].apart:.3f}"]
    for one in done.results[1:]:
        assert cells[one.name][1:3] == [f"{one.recovery.spread:.3f}", f"{one.apart:.3f}"]
    assert cells["nyul"][3:] == ["--method", "nyul"]
    assert cells["report"][1].endswith("auto/report.html")
    assert lines[-1][-4:] == ["ndflow", "cohort", "study.tsv", "OUT"]
