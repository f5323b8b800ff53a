"""The part of docs/study.md on targets that follow a scan's own tissues.

References are built on four fifths of the scans of each site and applied to the other fifth, in
turns, so no scan has a part in what it is brought to. A quartile goes through an increasing map
like any intensity, so no image has to be written.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.demo.dataset import recovery_of, write_demo_study
from ndflow.figures.export import svg
from ndflow.figures.style import colours, new_figure
from ndflow.metrics.covariate import covariate_effect
from ndflow.metrics.tissue_quartiles import QuartileSummary, quartiles, tissue_table
from ndflow.population import TISSUES
from ndflow.scan.model_files import load_map
from ndflow.scan.reading import read_scan
from ndflow.scan.tissue_maps import probabilities
from ndflow.study.finished import FinishedStudy, read_finished
from ndflow.study.references import make_references
from ndflow.study.scan_jobs import Member, portrait_of_member
from ndflow.transport import IntensityMap, align

CRAMER = ("--objective", "cramer", "--regularisation", "1e-4")
RUNS = {
    "tissue": ("--target", "tissue", *CRAMER),
    "tissue-l2": ("--target", "tissue"),
    "two-level-tissue": ("--target", "tissue", "--mode", "two-level", *CRAMER),
    "two-level-adaptive": ("--target", "adaptive", "--mode", "two-level", *CRAMER),
}
COMPARED = ("nyul", "individual", "individual-l2", *RUNS)  # with affine, the aligned scans
DEMO = {
    "affine": ("--method", "affine"),
    "nyul": ("--method", "nyul"),
    "individual": (),
    "tissue": ("--target", "tissue"),
    "two-level-adaptive": ("--target", "adaptive", "--mode", "two-level"),
}
FOLDS = 5
LIKELY = 0.05
BOUND = 1 << 34

Floats = NDArray[np.float64]


class Scans(NamedTuple):
    """What is known of the scans: quartiles and quantiles as they came, site, age."""

    members: Sequence[Member]
    quartiles: Floats  # (scans, tissues, 3)
    quantiles: Floats  # (scans, 199)
    age: Floats

    @property
    def sites(self) -> list[str]:
        return [member.site or "" for member in self.members]


def observed(run: FinishedStudy) -> Scans:
    """Look at the images of a run."""
    members = sorted(run.members.values(), key=lambda member: member.name)
    quarters, shares = [], (np.arange(199) + 0.5) / 199
    for member in members:
        scan = read_scan(member.image, member.mask)
        inside = scan.inside[:]
        values = np.asarray(scan.volume.values(scan.volume.flat[inside]), np.float64)
        maps = [probabilities(name, scan.volume, inside, BOUND)[0] for name in member.maps or ()]
        quarters.append([quartiles(values, share) for share in maps])
    quantiles = [portrait_of_member(member).mixture.quantile(shares) for member in members]
    ages = [float(run.rows[member.name].more.get("age", "nan")) for member in members]
    return Scans(members, np.array(quarters), np.array(quantiles), np.array(ages))


def crossed(run: FinishedStudy, scans: Scans) -> list[IntensityMap]:
    """Return the map of each scan, to references of scans of other folds."""
    members = [run.members[member.name] for member in scans.members]
    fold = np.empty(len(members), dtype=int)
    for site in set(scans.sites):
        own = np.flatnonzero(np.array(scans.sites) == site)
        fold[own] = np.arange(own.size) % FOLDS
    maps: dict[int, IntensityMap] = {}
    for k in range(FOLDS):
        train = [member for member, part in zip(members, fold, strict=True) if part != k]
        goals = make_references(run.study, train, nested=True).goals
        by_site = run.study.averaging.mode != "individual"
        for place in np.flatnonzero(fold == k):
            goal = goals[members[place].site if by_site else None]
            maps[int(place)] = goal.solve(portrait_of_member(members[place])).imap
    return [maps[place] for place in range(len(members))]


def moved(scans: Scans, maps: Sequence[IntensityMap]) -> Floats:
    """Return the quartiles of the results, where brains have spread 1 on average."""
    after = np.array([f(q) for f, q in zip(maps, scans.quantiles, strict=True)])
    unit, middle = after.std(axis=1).mean(), after.mean()
    through = zip(maps, scans.quartiles, strict=True)
    return (np.array([f(q.ravel()).reshape(3, 3) for f, q in through]) - middle) / unit


def section(folder: Path, table_of_scans: Path, ndflow, figures: Path) -> str:  # type: ignore[no-untyped-def]
    """Run what is compared, and return the tables and the figure of it."""
    for name, words in RUNS.items():
        ndflow("cohort", table_of_scans, folder / name, "--channel", "T1w", "-j", "2", *words)
    runs = {run.name: run for run in read_finished([folder / name for name in COMPARED])}
    scans = observed(runs["individual"])
    aligned = [align(portrait_of_member(member).mixture) for member in scans.members]
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
        [_cells(cells), _words(cells), _ages(values, scans), _demo(folder / "demo-targets", ndflow)]
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


def _demo(folder: Path, ndflow) -> str:  # type: ignore[no-untyped-def]
    """Return how well the demo's true curves are recovered, where amounts of fluid vary."""
    study = write_demo_study(folder, force=True)
    lines = [["", "error", "spread"], ["---", "--:", "--:"]]
    for name, words in DEMO.items():
        ndflow("cohort", study.table, folder / name, "-j", "2", *words)
        maps = {scan: load_map(folder / name / "maps" / f"{scan}.json") for scan in study.truths}
        found = recovery_of(maps, study.truths)
        lines.append([name, f"{found.mean:.3f}", f"{found.spread:.3f}"])
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return (
        "On the demo's scans the curve of each scanner is known, and the share of fluid varies "
        "with age. Error of the recovered intensities, and their spread between scans, in standard "
        f"deviations (defaults of ndflow):\n\n{rows}"
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
