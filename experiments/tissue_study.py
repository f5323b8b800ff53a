"""The section of docs/study.md on targets in a scan's own tissue proportions.

References are built from four fifths of the scans of each site and applied to the remaining fifth,
in turn, so no scan goes into what it is matched to. An increasing map takes quartiles to quartiles,
so no image has to be written.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import ndflow
from ndflow.demo.dataset import write_demo_study
from ndflow.demo.recovery import recovery_of
from ndflow.figures.export import svg
from ndflow.figures.style import colours, new_figure
from ndflow.image.scans import Scan
from ndflow.metrics.statistics import covariate_effect
from ndflow.metrics.tissue_quartiles import QuartileSummary, quartiles, tissue_table
from ndflow.population import TISSUES
from ndflow.scan.reading import read_masked
from ndflow.scan.settings import Reading
from ndflow.scan.tissue_maps import probabilities
from ndflow.study.finished import FinishedStudy, covariate_of, read_finished
from ndflow.study.references import make_references, read_models
from ndflow.transport import IntensityMap, align

PAPER = ("--preset", "paper")  # what a run does not name is as in the paper
CRAMER = (*PAPER, "--objective", "cramer", "--regularisation", "1e-4")
RUNS = {
    "tissue": ("--target", "tissue", *CRAMER),
    "tissue-l2": (*PAPER, "--target", "tissue"),
    "two-level-tissue": ("--target", "tissue", "--mode", "two-level", *CRAMER),
    "two-level-adaptive": ("--target", "adaptive", "--mode", "two-level", *CRAMER),
}
COMPARED = ("nyul", "individual", "individual-l2", *RUNS)  # with affine, the aligned scans
TWO_LEVEL = (*PAPER, "--mode", "two-level", "--average", "quantile")
DEMO = {
    "affine": ("--method", "affine"),
    "nyul": ("--method", "nyul"),
    "individual": PAPER,
    "tissue": (*PAPER, "--target", "tissue"),
    "two-level-adaptive": (*PAPER, "--target", "adaptive", "--mode", "two-level"),
    "two-level-tissue, quantiles": (*TWO_LEVEL, "--target", "tissue"),
    "two-level-adaptive, quantiles": (*TWO_LEVEL, "--target", "adaptive"),
}
FOLDS = 5
LIKELY = 0.05
MAX_BYTES = Reading().max_bytes

Floats = NDArray[np.float64]


class Scans(NamedTuple):
    """What is known about the scans: unnormalised quartiles and quantiles, and age."""

    scans: Sequence[Scan]
    quartiles: Floats  # (scans, tissues, 3)
    quantiles: Floats  # (scans, 199)
    age: Floats

    @property
    def sites(self) -> list[str]:
        return [scan.site or "" for scan in self.scans]


def observed(run: FinishedStudy) -> Scans:
    """Look at the images of a study."""
    scans = sorted(run.study.scans, key=lambda scan: scan.name)
    models = read_models(run.study, scans)
    quarters, levels = [], (np.arange(199) + 0.5) / 199
    for scan in scans:
        volume, mask, _ = read_masked(scan.image, scan.mask, max_bytes=MAX_BYTES)
        inside = mask[:]
        values = np.asarray(volume.values(volume.flat[inside]), np.float64)
        maps = [probabilities(file, volume, inside, MAX_BYTES)[0] for file in scan.tissues]
        quarters.append([quartiles(values, share) for share in maps])
    quantiles = [models[scan.name].mixture.quantile(levels) for scan in scans]
    ages = [covariate_of(scan, "age") for scan in scans]
    return Scans(scans, np.array(quarters), np.array(quantiles), np.array(ages))


def crossed(run: FinishedStudy, scans: Scans) -> list[IntensityMap]:
    """Return the map of each scan, to references of scans of other folds."""
    own = [run.scans[scan.name] for scan in scans.scans]
    models = read_models(run.study, own)
    fold = np.empty(len(own), dtype=int)
    for site in set(scans.sites):
        of_site = np.flatnonzero(np.array(scans.sites) == site)
        fold[of_site] = np.arange(of_site.size) % FOLDS
    maps: dict[int, IntensityMap] = {}
    for k in range(FOLDS):
        train = [scan for scan, part in zip(own, fold, strict=True) if part != k]
        goals = make_references(run.study, train, models, nested=True).goals
        for place in np.flatnonzero(fold == k):
            goal = run.study.mode.goal_of(goals, own[place].site)
            maps[int(place)] = goal.solve(models[own[place].name]).imap
    return [maps[place] for place in range(len(own))]


def moved(scans: Scans, maps: Sequence[IntensityMap]) -> Floats:
    """Return the quartiles of the results, in units of the mean standard deviation of brains."""
    after = np.array([f(q) for f, q in zip(maps, scans.quantiles, strict=True)])
    unit, middle = after.std(axis=1).mean(), after.mean()
    through = zip(maps, scans.quartiles, strict=True)
    return (np.array([f(q.ravel()).reshape(3, 3) for f, q in through]) - middle) / unit


def section(folder: Path, table_of_scans: Path, run: Callable[..., None], figures: Path) -> str:
    """Run the studies that are compared, return the tables, and draw the figure.

    Parameters
    ----------
    folder : for the studies; those of `COMPARED` that are not in `RUNS` are there already.
    table_of_scans : of the cohort.
    run : runs a command of ndflow.
    figures : the folder for the figure.
    """
    for name, words in RUNS.items():
        run("cohort", table_of_scans, folder / name, "--channel", "T1w", "-j", "2", *words)
    runs = {one.name: one for one in read_finished([folder / name for name in COMPARED])}
    scans = observed(runs["individual"])
    models = read_models(runs["individual"].study, scans.scans)
    aligned = [align(models[scan.name].mixture) for scan in scans.scans]
    values = {"affine": moved(scans, aligned)}
    for name in COMPARED:
        values[name] = moved(scans, crossed(runs[name], scans))
    cells = {
        name: tissue_table(
            found, None if name == "affine" else values["affine"], TISSUES, _gap(found)
        )
        for name, found in values.items()
    }
    (figures / "study-targets.svg").write_bytes(_figure(cells))
    return "\n\n".join(
        [_cells(cells), _words(cells), _ages(values, scans), _demo(folder / "demo-targets", run)]
    )


def _gap(values: Floats) -> float:
    middles = values.mean(axis=0)[:, 1]
    return float(middles[2] - middles[1])


def _cells(cells: dict[str, list[QuartileSummary]]) -> str:
    head = ["", *(f"{tissue} Q{quartile}" for tissue in TISSUES for quartile in (1, 2, 3))]
    lines = [[*head, "mean sd"], ["---", *["--:"] * 10]]
    for name, row in cells.items():
        texts = [
            f"**{c.sd:.3f}**"
            if c.paired_holm is not None and c.paired_holm < LIKELY
            else f"{c.sd:.3f}"
            for c in row
        ]
        lines.append([name, *texts, f"{_mean(row):.4f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _mean(row: Sequence[QuartileSummary]) -> float:
    return float(np.mean([cell.sd for cell in row]))


def _words(cells: dict[str, list[QuartileSummary]]) -> str:
    affine, nyul = cells["affine"], _mean(cells["nyul"])
    lines = []
    for name in RUNS:
        below = [a.sd < b.sd for a, b in zip(cells[name], affine, strict=True)]
        likely = [
            less and (a.paired_holm or 0.0) < LIKELY
            for a, less in zip(cells[name], below, strict=True)
        ]
        lines.append(
            f"- *{name}*: below *affine* in {sum(below)} of nine cells, significantly in "
            f"{sum(likely)}; mean sd {_mean(cells[name]) / nyul:.2f} of that of *nyul*"
        )
    plain, adaptive = cells["individual"], cells["two-level-adaptive"]
    worst = max(a.sd / b.sd for a, b in zip(adaptive, plain, strict=True))
    lines.append(
        f"- *two-level-adaptive*, cell by cell beside *individual*: {worst:.2f} at the most"
    )
    return "\n".join(lines)


def _ages(values: dict[str, Floats], scans: Scans) -> str:
    lines = [["", *TISSUES], ["---", *["--:"] * 3]]
    for name, found in values.items():
        effects = [covariate_effect(found[:, g, 1], scans.age, scans.sites) for g in range(3)]
        lines.append([name, *(f"{e.correlation:.2f} ({e.p:.2g})" for e in effects)])
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"Partial correlation of a tissue's median with age, within sites (p):\n\n{rows}"


def _demo(folder: Path, run: Callable[..., None]) -> str:
    """Return how well the demo's true curves are recovered, where the amount of CSF varies."""
    study = write_demo_study(folder, force=True)
    lines = [["", "spread", "error"], ["---", "--:", "--:"]]
    for name, words in DEMO.items():
        run("cohort", study.table, folder / name, "-j", "2", *words)
        maps = {scan: ndflow.load(folder / name / "maps" / f"{scan}.json") for scan in study.truths}
        found = recovery_of(maps, study.truths)
        lines.append([name, f"{found.spread:.3f}", f"{found.error:.3f}"])
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return (
        "On the demo's scans the curve of each scanner is known, and the share of CSF varies with "
        "age. *Spread*: where all scans show the same value, by how much their true intensities "
        "differ; *error*: distance from a scale that is linear in the true intensities. Both in "
        "standard deviations of the true intensities, with ndflow's default objective; *quantiles* "
        "is `--average quantile`. A common scale is only defined up to one increasing map for all "
        "scans, so the spread is the fair measure, and the error says how far the scale is bent; "
        "*adaptive* is given the tissue maps here, and none in `ndflow demo` (.074):"
        f"\n\n{rows}"
    )


def _figure(cells: dict[str, list[QuartileSummary]]) -> bytes:
    """Draw the standard deviation of every cell under every condition."""
    names = [name for name in cells if name != "individual-l2"]
    with new_figure(8.0, 3.4) as figure:
        axes = figure.add_subplot()
        places = np.arange(9.0)
        width = 0.8 / len(names)
        palette = {**colours(name for name in names if name != "affine"), "affine": "0.7"}
        for number, name in enumerate(names):
            offset = (number - (len(names) - 1) / 2) * width
            axes.bar(
                places + offset, [c.sd for c in cells[name]], width, label=name, color=palette[name]
            )
        ticks = [f"{tissue} Q{quartile}" for tissue in TISSUES for quartile in (1, 2, 3)]
        axes.set_xticks(places, ticks)
        axes.set_ylabel("sd over scans")
        axes.legend(ncols=2, fontsize="small")
        return svg(figure)
