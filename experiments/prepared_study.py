"""The first figures of docs/guides/preparation.md: how its tissue maps agree with other people's.

    ndflow prepare raw.tsv PREPARED       # the T1w images and masks of COHORT
    python experiments/prepared_study.py COHORT PREPARED

COHORT is a BIDS folder with tissue probability maps that were made by another program. What
normalisation makes of the prepared scans is printed by ``experiments/study.py COHORT PREPARED``.
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path

import nibabel as nib
import numpy as np
from numpy.typing import NDArray

from ndflow.population import TISSUES

CHOSEN_ON = 3  # every third scan chose the settings of the segmentation

Floats = NDArray[np.floating]


def read(path: Path) -> Floats:
    return np.asarray(nib.load(path).dataobj, np.float32)  # type: ignore[attr-defined]


def maps_of(cohort: Path, name: str) -> Floats:
    stem = cohort / name / "anat" / name
    return np.stack([read(Path(f"{stem}_label-{tissue}_probseg.nii.gz")) for tissue in TISSUES])


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


def main(cohort: Path, prepared: Path) -> None:
    with (prepared / "study.tsv").open(newline="") as file:
        sites = {row["subject"]: row["site"] for row in csv.DictReader(file, delimiter="\t")}
    names = sorted(sites)
    cost(prepared)
    agreement(cohort, prepared, names, sites)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
