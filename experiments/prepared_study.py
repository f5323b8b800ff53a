"""The figures of docs/guides/preparation.md: prepared by ndflow, judged by maps of other people.

    ndflow prepare raw.tsv PREPARED       # the T1w images of COHORT alone: no masks, no maps
    python experiments/prepared_study.py COHORT PREPARED WORK

COHORT is a BIDS folder with masks and tissue probability maps that were made by another program.
The scans of PREPARED are normalised in WORK with the masks and maps of the preparation, and judged
by the maps of COHORT: the standard deviation over scans of the quartiles of each tissue, in
standard deviations of the reference. Neither those masks nor those maps were used for the results.
"""

import csv
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import nibabel as nib
import numpy as np
from numpy.typing import NDArray
from stroke_study import brown_forsythe

from ndflow.evaluation.tissues import quartiles
from ndflow.population import TISSUES

RUNS: dict[str, tuple[str, ...]] = {
    "affine": ("--method", "affine"),
    "nyul": ("--method", "nyul"),
    "paper": ("--preset", "paper"),
    "default, no maps": (),
    "adaptive": ("--proportions", "adaptive"),
    "default": (),
}
WITHOUT_MAPS = ("default, no maps",)
UNIT = 125.0  # of the positive scale, per standard deviation
CHOSEN_ON = 3  # every third scan chose the settings of the segmentation

Floats = NDArray[np.floating]


def read(path: Path) -> Floats:
    return np.asarray(nib.load(path).dataobj, np.float32)  # type: ignore[attr-defined]


def maps_of(cohort: Path, name: str) -> Floats:
    stem = cohort / name / "anat" / name
    return np.stack([read(Path(f"{stem}_label-{tissue}_probseg.nii.gz")) for tissue in TISSUES])


def judged(folder: Path, cohort: Path, names: list[str]) -> Floats:
    """Return the quartiles of the tissues of each scan, (scans, tissues, 3)."""
    rows = []
    for name in names:
        values = read(folder / "images" / f"{name}_desc-preproc_T1w.nii.gz")
        rows.append([])
        for part in maps_of(cohort, name):
            here = (part > 0) & (values != 0)
            rows[-1].append(quartiles(values[here], part[here]))
    return np.array(rows) / UNIT


def without_maps(prepared: Path) -> Path:
    """Write a table of the prepared scans that names no tissue maps."""
    with (prepared / "study.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    table = prepared / "study_without_maps.tsv"
    columns = [name for name in rows[0] if name not in ("csf", "gm", "wm")]
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, delimiter="\t", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return table


def compare(cohort: Path, prepared: Path, work: Path, names: list[str]) -> None:
    """Print the spread of tissues under each method, and how many cells beat Nyúl's."""
    head = "| | CSF | GM | WM | nine cells | ÷ (WM − GM) | cells below Nyúl's, p < .05 |"
    print(f"{head}\n|---|--:|--:|--:|--:|--:|--:|")
    results = {}
    for label, options in RUNS.items():
        folder = work / label.replace(",", "").replace(" ", "-")
        table = str(without_maps(prepared) if label in WITHOUT_MAPS else prepared / "study.tsv")
        command = [sys.executable, "-m", "ndflow", "cohort", table, str(folder), "--quiet"]
        subprocess.run([*command, "--no-report", "--jobs", "2", *options], check=True)
        results[label] = judged(folder, cohort, names)
    for label, found in results.items():
        spread = found.std(axis=0, ddof=1)
        gap = float((found[:, 2, 1] - found[:, 1, 1]).mean())
        tested = (
            brown_forsythe(found[:, tissue, q], results["nyul"][:, tissue, q])
            for tissue in range(3)
            for q in range(3)
        )
        means = [*spread.mean(axis=1), spread.mean(), spread.mean() / gap]
        below = sum(p < 0.05 for p in tested)
        print(f"| {label} | {' | '.join(f'{mean:.3f}' for mean in means)} | {below} |")


def agreement(cohort: Path, prepared: Path, names: list[str], sites: dict[str, str]) -> None:
    """Print how the maps of the preparation agree with those of the cohort."""
    dice = defaultdict(list)
    ours, theirs = [], []
    for name in names:
        stem = prepared / name / "anat" / name
        mine = np.stack([read(Path(f"{stem}_label-{part}_probseg.nii.gz")) for part in TISSUES])
        other = maps_of(cohort, name)
        labels = [np.where(maps.sum(0) > 0.5, maps.argmax(0), -1) for maps in (mine, other)]
        brains = [part >= 0 for part in labels]
        pairs = [brains, *([part == tissue for part in labels] for tissue in range(3))]
        dice[sites[name]].append([2 * (a & b).sum() / (a.sum() + b.sum()) for a, b in pairs])
        ours.append(mine.sum(axis=(1, 2, 3)) / mine.sum())
        theirs.append(other.sum(axis=(1, 2, 3)) / other.sum())
    print("| site | scans | brain | CSF | GM | WM |\n|---|--:|--:|--:|--:|--:|")
    for site, rows in dice.items():
        means = " | ".join(f"{mean:.3f}" for mean in np.mean(rows, axis=0))
        print(f"| {site} | {len(rows)} | {means} |")
    for which in ("all", "not chosen on"):
        keep = [k for k in range(len(names)) if which == "all" or k % CHOSEN_ON]
        one, other = np.array(ours)[keep], np.array(theirs)[keep]
        for tissue, label in enumerate(TISSUES):
            r = np.corrcoef(one[:, tissue], other[:, tissue])[0, 1]
            slope = np.polyfit(other[:, tissue], one[:, tissue], 1)[0]
            means = f"{one[:, tissue].mean():.3f} ({other[:, tissue].mean():.3f})"
            print(f"{which}, {len(keep)} scans: {label} {means}, r {r:.2f}, slope {slope:.2f}")


def cost(prepared: Path) -> None:
    with (prepared / "preparation.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for column in rows[0]:
        if "seconds" in column or "memory" in column or "peak" in column:
            values = [float(row[column]) for row in rows]
            print(f"{column}: median {np.median(values):.3g}, largest {max(values):.3g}")


def main(cohort: Path, prepared: Path, work: Path) -> None:
    with (prepared / "study.tsv").open(newline="") as file:
        sites = {row["subject"]: row["site"] for row in csv.DictReader(file, delimiter="\t")}
    names = sorted(sites)
    work.mkdir(parents=True, exist_ok=True)
    cost(prepared)
    agreement(cohort, prepared, names, sites)
    compare(cohort, prepared, work, names)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
