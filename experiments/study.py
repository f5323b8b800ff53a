"""Run the comparison of docs/study.md on a cohort, and write the page.

    python experiments/study.py COHORT [FOLDER]

COHORT is a BIDS-like folder with ``participants.tsv`` (columns ``participant_id``, ``site``,
``age``, ``sex``) and, for each scan, ``*_T1w``, ``*_desc-brain_mask`` and
``*_label-{GM,WM,CSF}_probseg``. The runs are kept in FOLDER, so that a second call is quick; by
default they are discarded. Writes docs/study.md and docs/figures/study-*.svg. Needs the extra
``study``. The text is in study.in.md; all its figures come from here.
"""

import csv
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import combat_study
import lesion_study
import numpy as np
import stroke_study
import tissue_study
from study_figure import interval_figure
from study_intervals import text
from study_results import (
    TISSUES,
    Columns,
    Quoted,
    Spread,
    age_effects,
    balanced_accuracy,
    estimates,
    intervals,
    mean_sd,
    minus,
    over,
    quoted,
    site_shares,
    tissues_table,
)

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
MAPS, NO_MAPS = "scans.tsv", "scans_without_maps.tsv"
RUNS = {
    "affine": (MAPS, "--method", "affine"),
    "nyul": (MAPS, "--method", "nyul"),
    "hellier": (MAPS, "--method", "hellier"),
    "quantile": (MAPS, "--method", "quantile"),
    "paper": (MAPS, "--preset", "paper"),
    "site": (MAPS, "--mode", "site"),
    "auto": (NO_MAPS,),
    "auto-maps": (MAPS,),
}
TARGETS = {  # what the parts of auto contribute
    "two-level": (NO_MAPS, "--proportions", "average"),
    "adaptive": (NO_MAPS, "--mode", "individual"),
    "tissue": (MAPS, "--mode", "individual"),
}
TARGET_ROWS = ("affine", "nyul", "paper", "two-level", "adaptive", "auto", "tissue", "auto-maps")
COMBAT_ROWS = ("affine", "nyul", "paper", "site", "auto")
PRESERVED = ("age", "sex")
HALVES = 100
SEEDS = range(5)  # of the forests
FIGURES = ("populations", "tissues")

Table = list[dict[str, str]]


def main() -> None:
    """Run the studies, and write the page and its figures."""
    cohort = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        people = read(cohort / "participants.tsv")
        run_all(cohort, people, folder)
        first = folder / f"evaluation-{SEEDS[0]}"
        for name in FIGURES:
            figure = (first / f"{name}.svg").read_bytes()
            (DOCS / "figures" / f"study-{name}.svg").write_bytes(figure)
        parts = {
            **about(people),
            **results(folder, people),
            "combat": combat_study.section(first, COMBAT_ROWS, PRESERVED, HALVES),
            **lesion_study.sections(cohort),
            "strokes": stroke_study.section(cohort.parent / "scans" / "stroke", ndflow, folder),
        }
        page = (HERE / "study.in.md").read_text(encoding="utf-8").format_map(parts)
        (DOCS / "study.md").write_text(page, encoding="utf-8")


def run_all(cohort: Path, people: Table, folder: Path) -> None:
    """Run and evaluate every method; what a folder holds already is kept."""
    write_scans(cohort, people, folder / MAPS, TISSUES)
    write_scans(cohort, people, folder / NO_MAPS, ())
    for name, (table, *words) in {**RUNS, **TARGETS}.items():
        options = ("--channels", "T1w", "--no-report", "-j", "2", *words)
        ndflow("cohort", folder / table, folder / name, *options)
    for seed in SEEDS:
        shuffles = () if seed == SEEDS[0] else ("--permutations", "0")
        words = ("--covariate", "age", "--seed", seed, "-j", "2", "--force", *shuffles)
        runs = (folder / name for name in RUNS)
        ndflow("evaluate", *runs, "-o", folder / f"evaluation-{seed}", *words)


def write_scans(cohort: Path, people: Table, table: Path, tissues: tuple[str, ...]) -> None:
    """Write a table of the study."""
    kinds = {"image": "T1w", "mask": "desc-brain_mask"}
    kinds |= {tissue.lower(): f"label-{tissue}_probseg" for tissue in tissues}
    lines = ["\t".join(("subject", "site", "age", "sex", *kinds))]
    for row in people:
        name = row["participant_id"]
        files = (cohort / name / "anat" / f"{name}_{kind}.nii.gz" for kind in kinds.values())
        lines.append("\t".join((name, row["site"], row["age"], row["sex"], *map(str, files))))
    table.write_text("\n".join(lines) + "\n")


def ndflow(*words: object) -> None:
    """Run a command as a user would."""
    command = [sys.executable, "-m", "ndflow", *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def read(path: Path) -> Table:
    """Read a tab-separated table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def about(people: Table) -> dict[str, object]:
    """Return who was scanned, and the commands."""
    of_site: dict[str, Table] = {}
    for row in people:
        of_site.setdefault(row["site"], []).append(row)
    rows = {}
    for site, own in of_site.items():
        age = [float(row["age"]) for row in own]
        women = sum(row["sex"] == "F" for row in own)
        span = f"{min(age):.0f}–{max(age):.0f}"
        rows[site] = f"{len(own)} | {women} | {statistics.median(age):.0f} ({span})"
    commands = "\n".join(
        f"ndflow cohort {' '.join((table, name, *words))}" for name, (table, *words) in RUNS.items()
    )
    return {
        "scans": len(people),
        "people": rows,
        "commands": commands,
        "runs": " ".join(RUNS),
    }


def results(folder: Path, people: Table) -> dict[str, object]:
    """Return the tables, whose cells the text quotes."""
    known = tissue_study.seen(folder / "affine")
    rows, sites = list(RUNS), known.sites
    found = {name: tissue_study.moved(known, folder / name) for name in RUNS}
    spread = Spread.of({name: one.cells for name, one in found.items()}, sites)
    others = {
        name: tissue_study.moved_otherwise(known, folder / name, folder / "other_scans")
        for name in (*RUNS, *TARGETS)
    }
    flat = {name: cells.reshape(len(cells), -1) for name, cells in others.items()}
    other_sd = estimates(flat, mean_sd, sites)
    of_nyul, other_of_nyul = over(spread.sd, "nyul"), over(other_sd, "nyul")
    (DOCS / "figures" / "study-intervals.svg").write_bytes(
        interval_figure(*map(intervals, (spread.sd, of_nyul, other_of_nyul)))
    )
    bright = {name: one.cells[:, -1:] for name, one in found.items()}  # the third quartile of CSF
    of_tissues = {
        "mean sd": quoted(spread.sd),
        "÷ affine": quoted(over(spread.sd, "affine"), 2),
        "÷ nyul": quoted(of_nyul, 2),
        "÷ nyul, in gaps": quoted(over(spread.in_gaps, "nyul"), 2),
        "within sites": quoted(spread.within),
        "other scans ÷ nyul": quoted(other_of_nyul, 2),
    }
    ages = {row["participant_id"]: float(row["age"]) for row in people}
    age = np.array([ages[scan.name.removesuffix("_T1w")] for scan in known.scans])
    by_age = age_effects(found, age, sites)
    return {
        "tissues": Columns(rows, of_tissues),
        "bright_csf": quoted(over(estimates(bright, mean_sd, sites), "affine"), 2),
        "than_affine": {name: spread.counted(name, "affine") for name in RUNS},
        "than_nyul": {name: spread.counted(name, "nyul") for name in RUNS},
        "targets": tissues_table(others, other_sd, TARGET_ROWS),
        "maps": Columns(rows, {**site_shares(found, sites), **of_maps(folder)}),
        "recognised": recognised(folder, [scan.name for scan in known.scans], sites),
        "age": Columns(rows, {tissue: quoted(one, 2) for tissue, one in by_age.items()}),
        "age_change": {tissue: quoted(minus(one, "affine"), 2) for tissue, one in by_age.items()},
    }


def of_maps(folder: Path) -> dict[str, Quoted]:
    """Return what an evaluation says about maps and their results."""
    found: dict[str, Quoted] = {}
    for label, table, column, digits in (
        ("W1", "fitness", "w1_own", ".2g"),
        ("jump", "fitness", "jump", ".2g"),
        ("worst", "fitness", "largest_jump", ".2g"),
        ("variation", "fitness", "variation", ".2g"),
    ):
        rows = read(folder / f"evaluation-{SEEDS[0]}" / f"{table}.tsv")
        found[label] = {row["condition"]: short(row[column], digits) for row in rows}
    return found


def recognised(folder: Path, scans: list[str], sites: list[str]) -> Columns:
    """Return how well forests recognise the sites: the mean over their seeds."""
    right: dict[str, np.ndarray] = {}
    for seed in SEEDS:
        for row in read(folder / f"evaluation-{seed}" / "predictions.tsv"):
            own = right.setdefault(row["condition"], np.zeros((len(scans), 1)))
            own[scans.index(row["scan"])] += (row["predicted"] == row["site"]) / len(SEEDS)
    right.pop("unnormalised")
    site = np.array(sites)
    each = {
        place: {name: text(float(own[site == place].mean()), 2) for name, own in right.items()}
        for place in dict.fromkeys(sites)
    }
    accuracy = estimates(right, balanced_accuracy(sites), sites)
    rows = read(folder / f"evaluation-{SEEDS[0]}" / "classification.tsv")
    once = {
        label: {row["condition"]: short(row[column], ".2f") for row in rows}
        for label, column in (("chance", "chance_95"), ("entropy", "entropy"))
    }
    balanced = {
        "balanced": quoted(accuracy, 2),
        "− affine": quoted(minus(accuracy, "affine"), 2),
    }
    return Columns(list(right), {**each, **balanced, **once})


def short(number: str, digits: str) -> str:
    """Return a number of a table, which is not negative."""
    shown = "–" if number == "n/a" else format(float(number), digits)
    return shown.removeprefix("0") if shown.startswith("0.") else shown


if __name__ == "__main__":
    main()
