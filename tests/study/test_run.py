"""``ndflow.cohort`` does what ``ndflow cohort`` does, and how a run is recorded."""

from pathlib import Path
from typing import Any

import pytest
from phantoms import head, save
from studies import SMALL, SiteStudy, read_json, results_of

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.study.tasks import Outcome


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    return SiteStudy(tmp_path_factory.mktemp("scans"), per_site=2)


CHOICES: dict[str, tuple[dict[str, Any], tuple[object, ...]]] = {
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


class Stages:
    """Progress that is recorded instead of shown."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.outcomes: list[Outcome] = []

    def begin(self, stage: str, total: int) -> None:
        self.begun.append((stage, total))

    def step(self, stage: str, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def test_a_run_that_stops_is_recorded_as_unfinished(desk: SiteStudy, tmp_path: Path) -> None:
    class Stops(Stages):
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


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"mode": "site"}, None),
        ({"dtype": "int16", "scale": "standard"}, InvalidValueError),
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
