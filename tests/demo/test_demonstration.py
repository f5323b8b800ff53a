"""The demonstration: the files that it writes, and its numbers."""

from pathlib import Path

import pytest
from commands import typed
from studies import Silent, read_tsv

from ndflow.demo import run as demonstration
from ndflow.demo.run import Demonstration, run_demo
from ndflow.errors import FileError, InvalidValueError
from ndflow.subject.records import percent

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
    table = done.page.parent / "evaluation" / "recovery.tsv"
    rows = {row["condition"]: row for row in read_tsv(table)}
    assert [*rows] == ["unnormalised", *reversed(RUNS)] == [one.name for one in done.results]
    apart = {name: float(row["tissues"]) for name, row in rows.items()}
    spread = {run: float(rows[run]["spread"]) for run in RUNS}
    assert apart["unnormalised"] > 3 * apart["affine"]
    for run in RUNS[:-1]:
        assert apart["affine"] > 3 * apart[run] > 0
        assert spread["affine"] > 1.5 * spread[run] > 0
    assert spread["paper"] > spread["auto"]


def test_nothing_is_begun_where_it_cannot_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(FileError, match="not empty"):
        small(tmp_path)
    monkeypatch.setattr("ndflow.reporting.build.not_installed", lambda *_: ["jinja2"])
    with pytest.raises(InvalidValueError, match=r"needs jinja2"):
        small(tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr("ndflow.preparation.registration.not_installed", lambda *_: ["nilearn"])
    with pytest.raises(InvalidValueError, match=r"needs nilearn; try pip install"):
        small(tmp_path / "out")


@pytest.mark.slow
def test_the_command_shows_all_methods_and_the_report(
    done: Demonstration, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demonstration, "run_demo", lambda *_, **__: done)
    typed("demo", done.page.parents[1])
    lines = [line.split() for line in capsys.readouterr().out.split("\n") if line]
    cells = {words[0]: words for words in reversed(lines)}
    for one in done.results[1:]:
        assert cells[one.name][1:4] == [f"{one.recovery.spread:.3f}", *percent(one.apart).split()]
    assert cells["report"][1].endswith("auto/report.html")
