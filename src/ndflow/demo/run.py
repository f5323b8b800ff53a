"""The demonstration: a simulated study, normalised in several ways, evaluated, and reported.

DIR/data                the scans of three scanners, and their table
DIR/auto                what users get by default; with evaluation/ of all studies, and report.html
DIR/auto-without-maps   the same without tissue probability maps
DIR/site                one map per site
DIR/paper               the paper: each scan to the average of all
DIR/nyul                Nyúl's method
DIR/affine              alignment of mean and standard deviation

*The dataset* has three sites and real anatomy. The scanner of each site has a contrast curve of its
own, so it is known for every scan how the canonical intensities, common to all scanners, became
those of the scan. *The raw scans* of the tutorial are made in the same way, but shaded by a strong
bias field, without masks or tissue probability maps, and without a lesion. Only the skulls are
gone, as in data that were shared without faces. One more scan of each site comes later.

*Recovery* is how well the scans agree after normalisation. The scanner of scan i turned canonical
intensities c into those of the scan by its curve f_i, and an intensity map n_i normalises the scan.
So a voxel with the true intensity c ends up at ``g_i(c) = n_i(f_i(c))``. In a perfect study all g_i
are the same function.

Which function is a matter of taste: a common scale is only defined up to one increasing map φ for
all scans, whether it stretches WM or CSF. A fair measure does not change when every n_i is replaced
by φ ∘ n_i. Differences of g_i(c) between scans do change, with the local slope of φ. Hence the
comparison is made in true intensities. The voxels that have the value y after normalisation truly
have ``c_i(y) = g_i⁻¹(y)``, and ``c̄(y) = mean_i c_i(y)`` is what y means on average. With the 99
percentiles c_k of the canonical intensities, and the values y_k for which ``c̄(y_k) = c_k``,

    spread = rms_ik(c_i(y_k) − c_k) / sd(c).

In words: where all scans show the same value, by how much do their true intensities differ? A map φ
moves the y_k and cancels in ``(φ ∘ g_i)⁻¹(φ(y_k)) = g_i⁻¹(y_k)``, so the spread stays the same. If
scans only differ in gain, ``g_i(c) = s_i c``, it is ``sd(1/s) / mean(1/s) · rms(c) / sd(c)``.

The *error* depends on the scale: the mean over scans of the distance of g_i from a straight line,

    e_i = rms_k(g_i(c_k) − a − b c_k) / (b sd(c)),

where a + b c is fitted to the mean of all g_i. It tells how far the common scale is bent, compared
with the one that the demonstration happens to use; no method aims at that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndflow.demo import simulate
from ndflow.errors import InvalidValueError
from ndflow.evaluation.comparison import UNNORMALISED
from ndflow.evaluation.save import add_table, evaluate
from ndflow.files.tables import write_table
from ndflow.image.subject import TissueMaps
from ndflow.preparation.registration import load_anatomy
from ndflow.reporting.build import check_report, report
from ndflow.study.plan import EVALUATION, Study
from ndflow.study.run import Asked, Summary, assemble, run_study
from ndflow.study.table import read_table
from ndflow.study.tasks import Outcome, Progress
from ndflow.subject.presets import Choices
from ndflow.subject.records import MapRecord
from ndflow.transport import IntensityMap, PiecewiseLinear
from ndflow.values import FloatArray

# ── the dataset ───────────────────────────────────────────────────────────────────────────────────

_COLUMNS = ("subject", "site", "image", "mask", "gm", "wm", "csf", "age", "has_lesion")
_SLOPES = {"T1w": 1.0, "mask": 1.0, "gm": 1 / 255, "wm": 1 / 255, "csf": 1 / 255}  # of the files
_LEVELS = np.linspace(0.01, 0.99, 99)


class Truth(NamedTuple):
    """The known truth about a scan.

    Attributes
    ----------
    curve : from canonical intensities to those of the scan, without noise and bias field.
    canonical : (99,), the percentiles of its canonical intensities, from the 1st to the 99th.
    """

    curve: PiecewiseLinear
    canonical: FloatArray


class DemoStudy(NamedTuple):
    """The files of the dataset.

    Attributes
    ----------
    table : the table of its scans.
    truths : the truth about each scan, by the name that the scan has in a study.
    """

    table: Path
    truths: dict[str, Truth]


def write_demo_study(
    folder: Path, *, resolution: float = 2.0, seed: int = 0, subjects: int = 6
) -> DemoStudy:
    """Write the scans of three sites with masks and tissue probability maps, and their table.

    Parameters
    ----------
    folder : where ``scans.tsv`` and the folder ``scans`` are written; created if needed.
    resolution : the distance between voxels, in mm.
    seed : the same seed gives the same bytes, and the same subjects at any resolution.
    subjects : per site.

    Returns
    -------
    DemoStudy
        The path of the table, and the truth about each scan.

    Raises
    ------
    FileError
        Where the folder is not empty, or cannot be created.
    InvalidValueError
        Where nilearn is not installed.
    """
    anatomy = load_anatomy()
    simulate.new_folder(folder)
    simulate.new_folder(folder / "scans")
    grid = simulate.grid_over(anatomy, resolution)
    truths: dict[str, Truth] = {}
    rows = []
    for number, scanner in enumerate(simulate.SCANNERS):
        for k in range(subjects):
            name = f"{scanner.site}-{k + 1:02d}"
            generator = np.random.default_rng([seed, number, k])
            age = int(np.interp((k + generator.random()) / subjects, (0, 1), simulate.AGES))
            lesion = (number, k) == (1, subjects // 2)  # of one subject, at the second site
            scan = simulate.draw_scan(scanner, anatomy, grid, generator, age=age, lesion=lesion)
            csf, gm, wm = np.rint(255 * scan.subject.tissues.T).astype(np.uint8)
            image = np.rint(scan.image).astype(np.int16)
            contents = [image, np.ones(image.size, np.uint8), gm, wm, csf]
            files = [f"scans/{name}_{kind}.nii.gz" for kind in _SLOPES]
            for file, values, slope in zip(files, contents, _SLOPES.values(), strict=True):
                simulate.write_image(folder / file, grid, scan.subject.voxels, values, slope=slope)
            canonical = np.quantile(scan.subject.canonical.astype(np.float64), _LEVELS)
            truths[f"{name}_T1w"] = Truth(scan.curve, np.asarray(canonical))
            rows.append((name, scanner.site, *files, str(age), "yes" if lesion else "no"))
    write_table(folder / "scans.tsv", _COLUMNS, rows)
    return DemoStudy(folder / "scans.tsv", truths)


# ── the raw scans of the tutorial ─────────────────────────────────────────────────────────────────

_BIAS = 0.12  # the standard deviation of its logarithm
_SEED = 2018
_RESOLUTION, _SUBJECTS = 2.0, 6  # mm; per site


def write_raw_scans(folder: Path) -> tuple[int, int]:
    """Write raw scans of three sites, and two tables: the study, and scans that come later.

    Parameters
    ----------
    folder : where ``study.tsv``, ``later.tsv`` and a folder for each site are written; created if
        needed.

    Returns
    -------
    int, int
        How many scans each table lists.

    Raises
    ------
    FileError
        Where the folder is not empty, or cannot be created.
    InvalidValueError
        Where nilearn is not installed.
    """
    anatomy = load_anatomy()
    simulate.new_folder(folder)
    grid = simulate.grid_over(anatomy, _RESOLUTION)
    rows: list[list[tuple[str, ...]]] = [[], []]
    for number, scanner in enumerate(simulate.SCANNERS):
        simulate.new_folder(folder / scanner.site)
        shaded = scanner._replace(bias=_BIAS)
        for k in range(_SUBJECTS + 1):
            generator = np.random.default_rng([_SEED, number, k])
            later = k == _SUBJECTS
            rank = generator.random() if later else (k + generator.random()) / _SUBJECTS
            age = int(np.interp(rank, (0, 1), simulate.AGES))
            scan = simulate.draw_scan(shaded, anatomy, grid, generator, age=age)
            name = f"{scanner.site}-{k + 1:02d}"
            file = f"{scanner.site}/{name}_T1w.nii.gz"
            voxels = np.rint(scan.image).astype(np.int16)
            simulate.write_image(folder / file, grid, scan.subject.voxels, voxels)
            rows[later].append((name, scanner.site, file, str(age), "FM"[k % 2]))
    for table, own in zip(("study.tsv", "later.tsv"), rows, strict=True):
        write_table(folder / table, ("subject", "site", "image", "age", "sex"), own)
    return len(rows[0]), len(rows[1])


# ── recovery ──────────────────────────────────────────────────────────────────────────────────────

_HALVINGS = 60  # of the interval that holds y_k; more than double precision can resolve


class Recovery(NamedTuple):
    """How well scans agree, in units of the standard deviation of the canonical intensities.

    Attributes
    ----------
    spread : by how much true intensities differ between scans where normalised values are the same.
    error : the distance of normalised values from a straight line through the true intensities.
    """

    spread: float
    error: float


def recovery_of(maps: Mapping[str, IntensityMap], truths: Mapping[str, Truth]) -> Recovery:
    """Return how well intensity maps undo the contrast curves of the scanners.

    Parameters
    ----------
    maps : the intensity map that normalises each scan, by the name of the scan.
    truths : of these scans, and possibly of others.

    Returns
    -------
    Recovery
        The spread, 0 for maps that undo the curves in any common scale; and the error, 0 if that
        scale is also linear in the canonical intensities.
    """
    c = np.mean([truths[name].canonical for name in maps], axis=0)
    composites = np.array([imap(truths[name].curve(c)) for name, imap in maps.items()])
    slope, intercept = np.polyfit(c, composites.mean(axis=0), 1)
    errors = np.sqrt(((composites - intercept - slope * c) ** 2).mean(axis=1)) / (slope * c.std())
    # y_k by bisection: at the lowest g_i(c_k) no scan is truly brighter than c_k, at the highest
    # none is darker.
    ways_back = [(imap.inverse(), truths[name].curve.inverse()) for name, imap in maps.items()]
    low, high = composites.min(axis=0), composites.max(axis=0)
    for _ in range(_HALVINGS):
        y = (low + high) / 2
        found = np.array([curve(imap(y)) for imap, curve in ways_back])
        above = found.mean(axis=0) > c
        low, high = np.where(above, low, y), np.where(above, y, high)
    spread = np.sqrt(((found - c) ** 2).mean()) / c.std()
    return Recovery(float(spread), float(errors.mean()))


# ── the demonstration ─────────────────────────────────────────────────────────────────────────────


_WITHOUT_MAPS = "auto-without-maps"
# The report, the last lines on the terminal and the README's picture all follow from the first.
_RUNS = {
    "auto": Choices(),
    _WITHOUT_MAPS: Choices(),
    "site": Choices(options={"mode": "site"}),
    "paper": Choices("paper"),
    "nyul": Choices(options={"method": "nyul"}),
    "affine": Choices(options={"method": "affine"}),
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
    """How one study of the demonstration did.

    Attributes
    ----------
    name : of the study; ``"unnormalised"`` for none.
    options : of ``ndflow cohort``, as typed; empty for the defaults.
    apart : by how much median tissue intensities vary between scans, in units of the gap between GM
        and WM.
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
    """

    page: Path
    results: tuple[DemoResult, ...]
    study: Study
    summary: Summary


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
        Where the folder is not empty or cannot be created, a package is missing that the report
        needs, or a scan fails.
    """
    check_report()
    simulate.new_folder(folder)
    made = write_demo_study(folder / "data", resolution=resolution, subjects=subjects)
    listing = read_table(made.table, ["T1w"])
    bare = [replace(scan, tissues=TissueMaps()) for scan in listing.subjects]
    finished = {}
    for name, choices in _RUNS.items():
        own = replace(listing, subjects=bare) if name == _WITHOUT_MAPS else listing
        study = assemble(own, folder / name, Asked(choices, jobs=jobs))
        summary = run_study(study, _NamedProgress(progress, name), command=command)
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
    if isinstance(evaluation, dict):
        raise TypeError("the scans of the demonstration have one channel")
    apart = {}
    for condition in evaluation.comparison.conditions:
        if condition.tissues is None:
            raise TypeError("the scans of the demonstration have tissue maps")
        medians = condition.tissues[:, :, 1]
        wm, gm, _ = medians.mean(axis=0)
        apart[condition.name] = float(medians.std(axis=0, ddof=1).mean() / abs(wm - gm))
    results = [DemoResult(UNNORMALISED, "", apart[UNNORMALISED], None)]
    for name in reversed(_RUNS):
        found = folder / name / "maps"
        maps = {scan: MapRecord.read(found / f"{scan}.json").map for scan in made.truths}
        recovery = recovery_of(maps, made.truths)
        results.append(DemoResult(name, options_of(name), apart[name], recovery))
    rows = []
    for one in results:
        spread, error = map(repr, one.recovery) if one.recovery else (None, None)
        typed = f"ndflow cohort {one.options}".rstrip() if one.recovery else None
        rows.append((one.name, spread, repr(one.apart), error, typed))
    columns = ("condition", "spread", "tissues", "error", "command")
    add_table(first / EVALUATION, "recovery.tsv", columns, rows)
    page = report(first, title=_TITLE, progress=progress)
    return Demonstration(page, tuple(results), *finished[RECOMMENDED])


def options_of(name: str = RECOMMENDED) -> str:
    """Return the options of ``ndflow cohort`` that make one of the studies, as they are typed."""
    choices = _RUNS[name]
    words = [f"--{option} {value}" for option, value in choices.options.items()]
    return " ".join([*(["--preset paper"] if choices.preset == "paper" else []), *words])
