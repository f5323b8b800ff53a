"""``ndflow.cohort`` does what ``ndflow cohort`` does, and how a run is recorded."""

from pathlib import Path
from typing import Any

import pytest
from commands import typed
from phantoms import head, save
from studies import SMALL, SiteStudy, read_json, read_tsv, results_of

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.study.tasks import Outcome


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    return SiteStudy(tmp_path_factory.mktemp("scans"), per_site=2)


CHOICES: dict[str, tuple[dict[str, Any], tuple[object, ...]]] = {
    "defaults": ({}, ()),
    "by-site": (
        {"mode": "site", "average": "quantile", "channels": "T1w", "jobs": 2},
        ("--mode", "site", "--set", "average=quantile", "--channels", "T1w", "-j", 2),
    ),
    "matching": (
        {
            "proportions": "adaptive",
            "objective": "cramer",
            "regularisation": 1e-2,
            "solver": "rk4",
            "range": (0, 1000),
        },
        (
            *("--proportions", "adaptive", "--set", "objective=cramer", "--range", 0, 1000),
            *("--set", "regularisation=1e-2", "--set", "solver=rk4"),
        ),
    ),
    "frozen": ({"freeze": ("weight<0.1",)}, ("--set", "freeze=weight<0.1")),
    "landmarks": ({"method": "nyul", "landmarks": 7}, ("--method", "nyul", "--set", "landmarks=7")),
    "writing": (
        {"mask": "auto", "outside": "zero", "dtype": "float64", "effective_count": 500},
        (
            *("--mask", "auto", "--dtype", "float64"),
            *("--set", "outside=zero", "--set", "effective-count=500"),
        ),
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_function_writes_the_files_of_the_command(desk: SiteStudy, name: str) -> None:
    keywords, words = CHOICES[name]
    out = desk.folder / f"function-{name}"
    summary = ndflow.cohort(desk.table("all"), out, report=False, **keywords)
    assert summary[:3] == (6, 0, [])
    assert results_of(out) == results_of(desk.run(f"command-{name}", *words, "--no-report"))


def test_the_function_takes_a_reference(desk: SiteStudy) -> None:
    models = sorted((desk.run("models", "--no-report") / "models").iterdir())
    given = desk.folder / "given.json"
    typed("reference", *models, "-o", given, "-q")
    out = desk.folder / "function-given"
    assert ndflow.cohort(desk.table("all"), out, reference=given, report=False).done == 6
    words = ("--reference", given, "--no-report")
    assert results_of(out) == results_of(desk.run("command-given", *words))


def test_a_second_call_keeps_what_is_there(desk: SiteStudy) -> None:
    out = desk.folder / "twice"
    assert ndflow.cohort(str(desk.table("all")), str(out), report=False).kept == 0
    assert ndflow.cohort(desk.table("all"), out, report=False)[:3] == (6, 6, [])
    again = {"objective": "l2", "force": True}
    assert ndflow.cohort(desk.table("all"), out, report=False, **again).kept == 0


class Stages:
    """Progress that is recorded instead of shown."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.outcomes: list[Outcome] = []

    def begin(self, stage: str, total: int) -> None:
        self.begun.append((stage, total))

    def step(self, stage: str, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def test_failures_are_returned_listed_and_reported(desk: SiteStudy, tmp_path: Path) -> None:
    rows = [*desk.rows[:3], {"image": "gone.nii.gz", "site": "Ulm", "subject": "p9"}]
    seen = Stages()
    summary = ndflow.cohort(desk.table("some", rows), tmp_path / "out", progress=seen, report=False)
    assert (summary.done, summary.kept) == (3, 0)
    (failure,) = summary.failures
    assert failure.scan == "gone"
    assert "no such file (row 5)" in failure.cause
    assert [row["scan"] for row in read_tsv(tmp_path / "out" / "failures.tsv")] == ["gone"]
    references = 3 + 1 + len({row["site"] for row in rows[:3]})
    assert seen.begun == [("fit", 4), ("references", references), ("normalise", 3)]
    assert [outcome.failure for outcome in seen.outcomes] == [
        *([None] * 3),
        failure,
        *([None] * (references + 3)),
    ]
    record = read_json(tmp_path / "out" / "provenance.json")
    assert (record["done"], record["failed"]) == ({"fit": 3, "normalise": 3}, 1)
    assert record["finished"]


def test_a_run_that_stops_is_recorded_as_unfinished(desk: SiteStudy, tmp_path: Path) -> None:
    class Stops(Stages):
        def step(self, stage: str, outcome: Outcome) -> None:
            if stage == "normalise":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ndflow.cohort(desk.table("all"), tmp_path / "out", progress=Stops(), report=False)
    assert not read_json(tmp_path / "out" / "provenance.json")["finished"]
    assert ndflow.cohort(desk.table("all"), tmp_path / "out", report=False)[:3] == (6, 1, [])


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"mode": "site"}, None),
        ({"mode": "sites"}, InvalidValueError),
        ({"method": "magic"}, InvalidValueError),
        ({"method": "affine", "solver": "rk4"}, InvalidValueError),
        ({"jobs": 0}, InvalidValueError),
        ({"dtype": "int16", "scale": "standard"}, InvalidValueError),
        ({"dtype": "int16", "method": "zscore"}, InvalidValueError),
        ({"dtype": "uint8"}, InvalidValueError),
        ({"scale": "target"}, InvalidValueError),
        ({"reference": "no.json"}, FileError),
    ],
)
def test_wrong_choices_are_refused_before_anything_is_made(
    tmp_path: Path, keywords: dict[str, Any], error: Any
) -> None:
    save(tmp_path / "a.nii.gz", head(0, shape=SMALL))
    save(tmp_path / "b.nii.gz", head(1, shape=SMALL))
    (tmp_path / "t.tsv").write_text("image\tsite\na.nii.gz\tX\nb.nii.gz\tY\n")
    if error is None:
        assert (
            ndflow.cohort(tmp_path / "t.tsv", tmp_path / "out", report=False, **keywords).done == 2
        )
        assert read_json(tmp_path / "out" / "provenance.json")["settings"]["mode"] == "site"
        return
    with pytest.raises(error):
        ndflow.cohort(tmp_path / "t.tsv", tmp_path / "out", report=False, **keywords)
    assert not (tmp_path / "out").exists()


def test_other_results_are_replaced_only_by_force(desk: SiteStudy, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(FileError, match="not the result of such a study"):
        ndflow.cohort(desk.table("all"), tmp_path, report=False)
    assert ndflow.cohort(desk.table("all"), tmp_path, force=True, report=False).done == 6
    assert (tmp_path / "mine.txt").read_text() == "precious"
