"""The demonstration: a simulated study, normalised in several ways, evaluated, and reported.

DIR/data                the scans of three scanners, and their table
DIR/auto                what users get by default; with evaluation/ of all studies, and report.html
DIR/auto-without-maps   the same without tissue probability maps
DIR/site                one map per site
DIR/paper               the paper: each scan to the average of all
DIR/nyul                Nyúl's method
DIR/affine              alignment of mean and standard deviation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndflow.compare.comparison import UNNORMALISED, Comparison
from ndflow.compare.evaluate import evaluate
from ndflow.compare.save import add_table
from ndflow.demo.dataset import Truth, write_demo_study
from ndflow.demo.demo_scan import check_empty
from ndflow.demo.recovery import Recovery, recovery_of
from ndflow.errors import InvalidValueError, NdflowError
from ndflow.image.subject import TissueMaps
from ndflow.metrics.site_distance import distance_between_sites
from ndflow.reporting.build import check_report, report
from ndflow.scan.outputs import check_folder, make_folder
from ndflow.scan.presets.preset_rules import Choices
from ndflow.scan.records import MapRecord
from ndflow.scan.settings import AveragingChoices, MatchingChoices, PresetName
from ndflow.study.folder import EVALUATION, REPORT
from ndflow.study.listing.scan_table import named_scans, read_scans
from ndflow.study.parallel.tasks import Outcome
from ndflow.study.passes import Progress
from ndflow.study.plan import Study
from ndflow.study.presets.planned_study import with_choices
from ndflow.study.run import Summary, run_cohort

__all__ = ["RECOMMENDED", "DemoResult", "Demonstration", "check_demo", "options_of", "run_demo"]


class _Run(NamedTuple):
    """What is chosen for one study, and whether it sees the tissue probability maps."""

    averaging: AveragingChoices = AveragingChoices()
    matching: MatchingChoices = MatchingChoices()
    preset: PresetName = "auto"
    tissues: bool = True


# The report, the last lines on the terminal and the README's picture all follow from the first.
_RUNS = {
    "auto": _Run(),
    "auto-without-maps": _Run(tissues=False),
    "site": _Run(AveragingChoices(mode="site")),
    "paper": _Run(preset="paper"),
    "nyul": _Run(matching=MatchingChoices(method="nyul")),
    "affine": _Run(matching=MatchingChoices(method="affine")),
}
RECOMMENDED = next(iter(_RUNS))
_PERMUTATIONS, _TREES = 20, 50  # half of the time goes into these
_TITLE = "The demo of ndflow: three simulated scanners"


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


class DemoResult(NamedTuple):
    """How one study of the demonstration did, in standard deviations.

    Attributes
    ----------
    name : of the study; ``"unnormalised"`` for none.
    options : of ``ndflow cohort``, as typed; empty for the defaults.
    apart : the distance between sites.
    recovery : how well scans agree; None for unnormalised scans.
    """

    name: str
    options: str
    apart: float
    recovery: Recovery | None


class Demonstration(NamedTuple):
    """The results of the demonstration.

    Attributes
    ----------
    page : the report.
    results : of each study, after those of the unnormalised scans; the recommended one is last.
    study, summary : the recommended study, and how it ended.
    problem : why the report could not be written, if it could not.
    """

    page: Path
    results: tuple[DemoResult, ...]
    study: Study
    summary: Summary
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
    check_empty(folder)


def run_demo(
    folder: Path,
    progress: Progress,
    *,
    jobs: int,
    command: Sequence[str],
    resolution: float = 2.0,
    subjects: int = 6,
) -> Demonstration:
    """Simulate the scans, run several studies of them, evaluate these, and write the report.

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
    without_maps = [replace(scan, tissues=TissueMaps()) for scan in scans]
    finished = {}
    for name, run in _RUNS.items():
        study = Study(
            folder / name,
            scans if run.tissues else without_maps,
            channel="T1w",
            jobs=jobs,
            title=_TITLE if name == RECOMMENDED else None,
        )
        study = with_choices(study, Choices(run.preset, run.averaging, run.matching))
        summary = run_cohort(study, _NamedProgress(progress, name), command=command, force=False)
        if summary.failures:
            raise InvalidValueError(f"the demonstration failed: {summary.failures[0].message}")
        finished[name] = (study, summary)
    first = folder / RECOMMENDED
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
    results = _results(folder, evaluation.comparison, made.truths)
    add_table(first / EVALUATION, "recovery.tsv", *_table(results))
    problem = ""
    try:
        report(first, progress=progress)
    except NdflowError as error:  # all else is done
        problem = str(error)
    return Demonstration(first / REPORT, results, *finished[RECOMMENDED], problem)


def _results(
    folder: Path, comparison: Comparison, truths: Mapping[str, Truth]
) -> tuple[DemoResult, ...]:
    """Return how each study did."""
    sites = comparison.sites or []
    apart = {
        condition.name: distance_between_sites(np.asarray(condition.quantiles), sites)
        for condition in comparison.conditions
    }
    results = [DemoResult(UNNORMALISED, "", apart[UNNORMALISED], None)]
    for name in reversed(_RUNS):
        found = folder / name / "maps"
        maps = {scan: MapRecord.read(found / f"{scan}.json").map for scan in truths}
        results.append(DemoResult(name, options_of(name), apart[name], recovery_of(maps, truths)))
    return tuple(results)


def options_of(name: str = RECOMMENDED) -> str:
    """Return the options of ``ndflow cohort`` that make one of the studies, as they are typed."""
    run = _RUNS[name]
    chosen: list[tuple[str, object, object]] = [("preset", run.preset, Choices.preset)]
    chosen += [
        (field.name, getattr(settings, field.name), field.default)
        for settings in (run.averaging, run.matching)
        for field in fields(settings)
    ]
    return " ".join(
        f"--{option} {value:g}" if isinstance(value, float) else f"--{option} {value}"
        for option, value, default in chosen
        if value != default
    )


def _table(
    results: Sequence[DemoResult],
) -> tuple[Sequence[str], Sequence[Sequence[str | None]]]:
    """Return the columns and rows of recovery.tsv."""
    rows = []
    for one in results:
        spread = error = command = None
        if one.recovery:
            spread, error = repr(one.recovery.spread), repr(one.recovery.error)
            command = f"ndflow cohort {one.options}".rstrip()
        rows.append((one.name, spread, repr(one.apart), error, command))
    return ("condition", "spread", "between_sites", "error", "command"), rows
