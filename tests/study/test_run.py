"""``ndflow.cohort`` does what ``ndflow cohort`` does, and how a run is recorded."""

from pathlib import Path

import pytest
from commands import typed
from studies import Silent, SiteStudy, read_json, results_of

import ndflow
from ndflow.study.tasks import Outcome


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    return SiteStudy(tmp_path_factory.mktemp("scans"), per_site=2)


def test_the_function_writes_the_files_of_the_command(desk: SiteStudy) -> None:
    out, command = desk.folder / "function", desk.folder / "command"
    keywords = {"proportions": "adaptive", "range": (0, 1000), "mask": "auto"}
    summary = ndflow.cohort(desk.table("all"), out, report=False, **keywords)
    assert summary[:3] == (6, 0, [])
    words = ("--proportions", "adaptive", "--range", 0, 1000, "--mask", "auto")
    typed("cohort", desk.table("all"), command, *words, "--no-report", "-q")
    assert results_of(out) == results_of(command)


def test_a_run_that_stops_is_recorded_as_unfinished(desk: SiteStudy, tmp_path: Path) -> None:
    class Stops(Silent):
        def step(self, stage: str, outcome: Outcome) -> None:
            if stage == "normalise":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ndflow.cohort(desk.table("all"), tmp_path / "out", progress=Stops(), report=False)
    assert not read_json(tmp_path / "out" / "provenance.json")["finished"]
    left = [tmp_path / "out" / f"{name}.ndflow-0123.tmp" for name in ("", "images/", "models/")]
    for path in left:  # of a run that was killed
        path.touch()
    assert ndflow.cohort(desk.table("all"), tmp_path / "out", report=False)[:3] == (6, 1, [])
    assert not any(path.exists() for path in left)
