"""The demonstration: a small study with known truth, normalised, compared, and shown on a page.

DIR/data         the scans of three scanners, and their table
DIR/individual   ndflow, each scan by itself; with the comparison in evaluation/, and report.html
DIR/site       ndflow, a map for each site
DIR/nyul, DIR/affine
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndflow.errors import FileError, InvalidValueError
from ndflow.metrics.site_distance import distance_between_sites
from ndflow.files.scan_table import read_table, write_table
from ndflow.study.run import members_of, run_cohort
from ndflow.demo.dataset import recovery_of, write_demo_study
from ndflow.compare.comparison import Comparison, compare
from ndflow.compare.save import check_evaluation, write_evaluation
from ndflow.scan.model_files import load_map
from ndflow.scan.outputs import check_folder, make_folder
from ndflow.study.plan import Study
from ndflow.report.build import check_report, write_report
from ndflow.study.finished import read_finished
from ndflow.settings import Averaging, Matching, Reading
from ndflow.study.parallel.tasks import Outcome
from ndflow.study.passes import Progress

__all__ = ["Demonstration", "check_demo", "run_demo"]

_RUNS: dict[str, tuple[Averaging, Matching]] = {
    "individual": (Averaging(), Matching()),
    "site": (Averaging(mode="site"), Matching()),
    "nyul": (Averaging(), Matching(method="nyul")),
    "affine": (Averaging(), Matching(method="affine")),
}
_PERMUTATIONS, _TREES = 20, 100


class _Named:
    """Somebody who looks on, told which run it is."""

    def __init__(self, watch: Progress, name: str) -> None:
        self._watch, self._name = watch, name

    def begin(self, stage: str, total: int) -> None:
        """Hear that a pass over so many scans begins."""
        self._watch.begin(f"{self._name}: {stage}", total)

    def step(self, stage: str, outcome: Outcome) -> None:
        """Hear what became of a scan."""
        self._watch.step(f"{self._name}: {stage}", outcome)


class Demonstration(NamedTuple):
    """What was achieved.

    Attributes
    ----------
    page : the report.
    scans : how many there were.
    apart : the distance between sites by condition, in standard deviations.
    missed : how far the maps of each run are from the truth, in standard deviations.
    """

    page: Path
    scans: int
    apart: dict[str, float]
    missed: dict[str, float]


def check_demo(folder: Path) -> None:
    """Say before any work what would stand in its way."""
    check_report()
    check_folder(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise FileError(folder, "not empty", "choose another folder, or remove this one")


def run_demo(
    folder: Path,
    watch: Progress,
    *,
    jobs: int,
    command: Sequence[str],
    resolution: float = 2.0,
    subjects: int = 6,
) -> Demonstration:
    """Make the study, run everything, and write the page.

    Parameters
    ----------
    folder : where to.
    watch : who looks on.
    jobs : how many scans at a time.
    command : what the user typed, for the record.
    resolution : of the scans, in millimetres.
    subjects : a site.
    """
    check_demo(folder)
    make_folder(folder)
    made = write_demo_study(folder / "data", resolution=resolution, subjects=subjects)
    rows = read_table(made.table)
    for name, (averaging, matching) in _RUNS.items():
        out = folder / name
        study = Study(
            out, members_of(rows, out), averaging, matching=matching, channel="T1w", jobs=jobs
        )
        summary = run_cohort(study, rows, _Named(watch, name), command=command, force=False)
        if summary.failures:
            raise InvalidValueError(f"the demonstration failed: {summary.failures[0].message}")
    first = folder / next(iter(_RUNS))
    check_evaluation(first / "evaluation", force=False)
    limit = Reading().max_bytes
    comparison = compare(
        read_finished([folder / name for name in _RUNS]),
        watch,
        permutations=_PERMUTATIONS,
        trees=_TREES,
        covariate="age",
        jobs=jobs,
        max_bytes=limit,
    )
    write_evaluation(
        comparison,
        first / "evaluation",
        covariate="age",
        settings={"permutations": _PERMUTATIONS, "trees": _TREES, "covariate": "age", "seed": 0},
        command=command,
    )
    found = {}
    for name in _RUNS:
        maps = {scan: load_map(folder / name / "maps" / f"{scan}.json") for scan in made.truths}
        found[name] = recovery_of(maps, made.truths)
    write_table(
        first / "evaluation" / "recovery.tsv",
        ("condition", "error", "spread"),
        [(name, repr(one.mean), repr(one.spread)) for name, one in found.items()],
    )
    page = write_report(first, max_bytes=limit)
    missed = {name: one.mean for name, one in found.items()}
    return Demonstration(page, len(rows), _apart(comparison), missed)


def _apart(comparison: Comparison) -> dict[str, float]:
    sites = comparison.sites or []
    return {
        condition.name: distance_between_sites(np.asarray(condition.quantiles), sites)
        for condition in comparison.conditions
    }
