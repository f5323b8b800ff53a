"""The demonstration: a simulated study, normalised in several ways, evaluated, and reported.

DIR/data         the scans of three scanners, and their table
DIR/individual   ndflow, each scan by itself; with evaluation/ of all four studies, and report.html
DIR/site         ndflow, one map per site
DIR/nyul         Nyúl's method
DIR/affine       alignment of mean and standard deviation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ndflow.compare.comparison import Comparison
from ndflow.compare.evaluate import evaluate
from ndflow.compare.save import add_table
from ndflow.demo.dataset import recovery_of, write_demo_study
from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError, NdflowError
from ndflow.metrics.site_distance import distance_between_sites
from ndflow.reporting.build import check_report, report
from ndflow.scan.outputs import check_folder, make_folder
from ndflow.scan.records import MapRecord
from ndflow.scan.settings import Averaging, Matching
from ndflow.study.folder import EVALUATION, REPORT
from ndflow.study.listing.scan_table import named_scans, read_scans
from ndflow.study.parallel.tasks import Outcome
from ndflow.study.passes import Progress
from ndflow.study.plan import Study
from ndflow.study.run import run_cohort

__all__ = ["Demonstration", "check_demo", "run_demo"]

_RUNS: dict[str, tuple[Averaging, Matching]] = {
    "individual": (Averaging(), Matching()),
    "site": (Averaging(mode="site"), Matching()),
    "nyul": (Averaging(), Matching(method="nyul")),
    "affine": (Averaging(), Matching(method="affine")),
}
_PERMUTATIONS, _TREES = 20, 100


class _NamedProgress:
    """Progress whose stages are prefixed with the name of a study."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress, self._name = progress, name

    def begin(self, stage: str, total: int) -> None:
        """Pass the beginning of a stage on."""
        self._progress.begin(f"{self._name}: {stage}", total)

    def step(self, stage: str, outcome: Outcome) -> None:
        """Pass the outcome of a scan on."""
        self._progress.step(f"{self._name}: {stage}", outcome)


class Demonstration(NamedTuple):
    """The results of the demonstration.

    Attributes
    ----------
    page : the report.
    scans : the number of scans.
    apart : the distance between sites by condition, in standard deviations.
    missed : the error of the maps of each study, in standard deviations; see `recovery_of`.
    doubts : what to check by eye in the first study, by the name of the scan.
    problem : why the report could not be written, if it could not.
    """

    page: Path
    scans: int
    apart: dict[str, float]
    missed: dict[str, float]
    doubts: Mapping[str, tuple[Doubt, ...]] = MappingProxyType({})
    problem: str = ""


def check_demo(folder: Path) -> None:
    """Refuse a folder that cannot be used, or missing packages, before any work.

    Parameters
    ----------
    folder : where the demonstration is to be written.

    Raises
    ------
    FileError
        Where the folder is not empty, or its parent does not exist.
    InvalidValueError
        Where a package that the report needs is not installed.
    """
    check_report()
    check_folder(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise FileError(folder, "not empty", "choose another folder, or remove this one")


def run_demo(
    folder: Path,
    progress: Progress,
    *,
    jobs: int,
    command: Sequence[str],
    resolution: float = 2.0,
    subjects: int = 6,
) -> Demonstration:
    """Simulate the scans, run four studies of them, evaluate these, and write the report.

    Parameters
    ----------
    folder : where everything is written.
    progress : is told how far the run has come.
    jobs : how many scans at a time; -1 for one per core.
    command : what the user typed, for the record.
    resolution : of the scans, in millimetres.
    subjects : per site.

    Returns
    -------
    Demonstration
        The path of the report, and how well each study did.

    Raises
    ------
    FileError, InvalidValueError
        See `check_demo`; also where a scan fails.
    """
    check_demo(folder)
    make_folder(folder)
    made = write_demo_study(folder / "data", resolution=resolution, subjects=subjects)
    scans = named_scans(read_scans(made.table))
    summaries = []
    for name, (averaging, matching) in _RUNS.items():
        study = Study(folder / name, scans, averaging, matching=matching, channel="T1w", jobs=jobs)
        summary = run_cohort(study, _NamedProgress(progress, name), command=command, force=False)
        if summary.failures:
            raise InvalidValueError(f"the demonstration failed: {summary.failures[0].message}")
        summaries.append(summary)
    first = folder / next(iter(_RUNS))
    evaluation = evaluate(
        [folder / name for name in _RUNS],
        output=first / EVALUATION,
        permutations=_PERMUTATIONS,
        trees=_TREES,
        covariate="age",
        jobs=jobs,
        progress=progress,
        command=command,
    )
    recovered = {}
    for name in _RUNS:
        maps = {
            scan: MapRecord.read(folder / name / "maps" / f"{scan}.json").map
            for scan in made.truths
        }
        recovered[name] = recovery_of(maps, made.truths)
    add_table(
        first / EVALUATION,
        "recovery.tsv",
        ("condition", "error", "spread"),
        [(name, repr(one.mean), repr(one.spread)) for name, one in recovered.items()],
    )
    problem = ""
    try:
        report(first)
    except NdflowError as error:  # all else is done
        problem = str(error)
    missed = {name: one.mean for name, one in recovered.items()}
    apart = _apart(evaluation.comparison)
    doubts = summaries[0].doubts_of
    return Demonstration(first / REPORT, len(scans), apart, missed, doubts, problem)


def _apart(comparison: Comparison) -> dict[str, float]:
    """Return the distance between sites under each condition."""
    sites = comparison.sites or []
    return {
        condition.name: distance_between_sites(np.asarray(condition.quantiles), sites)
        for condition in comparison.conditions
    }
