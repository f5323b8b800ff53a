"""The figures of docs/concepts/before-you-start.md: scans that a site needs, sites of another age.

    python experiments/site_study.py COHORT

COHORT is a BIDS folder of brains with masks, whose participants.tsv has site and age. Site by site:

- the map of the site is made from n of its scans, drawn 20 times, and applied to its other scans.
  What is left is the distance (W1) between the average of these and the reference of all scans;
- the site is divided as if it were two: by age, and at random, 20 times. Its scanner is one, so
  the maps of the two halves should be the same. The figures are the mean and the largest difference
  between them, from the 1st to the 99th percentile of the reference.

All distances are in standard deviations. No image is written.
"""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import ndflow
from ndflow.density import GaussianMixture
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.subject.fit import fit_subject
from ndflow.transport import IntensityMap, align

LEVELS = (np.arange(199) + 0.5) / 199
INNER = slice(2, -2)  # from the 1st to the 99th percentile
SIZES = (1, 2, 3, 5, 8, 12, 20)
DRAWS, FEWEST_OTHERS = 20, 4


class Member(NamedTuple):
    """A scan of a site: its density, its aligned quantiles, and the age of the person."""

    mixture: GaussianMixture
    quantiles: np.ndarray
    age: float


def read_members(cohort: Path) -> dict[str, list[Member]]:
    """Fit the scans of a cohort, and return them by site."""
    members: dict[str, list[Member]] = {}
    with (cohort / "participants.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for row in rows:
        name = row["participant_id"]
        stem = cohort / name / "anat" / name
        scan = Subject(f"{stem}_T1w.nii.gz", f"{stem}_desc-brain_mask.nii.gz")
        model = fit_subject(scan, options=Options())
        mixture = model.mixture
        aligned = align(mixture)(mixture.quantile(LEVELS))
        members.setdefault(row["site"], []).append(Member(mixture, aligned, float(row["age"])))
    return members


def average(members: Sequence[Member]) -> GaussianMixture:
    return ndflow.reference([one.mixture for one in members], channel="T1w").mixture


def map_of(members: Sequence[Member], target: GaussianMixture) -> IntensityMap:
    return ndflow.normalising_map(average(members), target)


def sizes(site: str, own: Sequence[Member], target: GaussianMixture) -> None:
    """Print what is left between a site and the reference, by the size of the site."""
    goal = target.quantile(LEVELS)
    generator = np.random.default_rng(0)
    before = np.abs(np.mean([one.quantiles for one in own], axis=0) - goal).mean()
    print(f"{site}, {len(own)} scans: aligned {before:.3f}")
    for n in SIZES:
        if n > len(own) - FEWEST_OTHERS:
            break
        left = []
        for _ in range(DRAWS):
            order = generator.permutation(len(own))
            imap = map_of([own[k] for k in order[:n]], target)
            others = np.mean([own[k].quantiles for k in order[n:]], axis=0)
            left.append(np.abs(imap(others) - goal).mean())
        print(f"  {n:>2} scans: median {np.median(left):.3f}, 9 of 10 {np.quantile(left, 0.9):.3f}")


def halves(site: str, own: Sequence[Member], target: GaussianMixture) -> None:
    """Print how the maps of two halves of a site differ, divided by age and at random."""
    points = target.quantile(LEVELS)[INNER]
    generator = np.random.default_rng(0)
    half = len(own) // 2

    def difference(order: Sequence[int]) -> tuple[float, float]:
        parts = ([own[k] for k in order[:half]], [own[k] for k in order[-half:]])
        first, second = (map_of(part, target)(points) for part in parts)
        return float(np.abs(first - second).mean()), float(np.abs(first - second).max())

    order = sorted(range(len(own)), key=lambda k: own[k].age)
    ages = [np.mean([own[k].age for k in part]) for part in (order[:half], order[-half:])]
    mean, largest = difference(order)
    print(f"{site}, halves of {half}: mean ages {ages[0]:.0f} and {ages[1]:.0f}")
    print(f"  by age: mean {mean:.3f}, largest {largest:.3f}")
    drawn = [difference(generator.permutation(len(own)).tolist()) for _ in range(DRAWS)]
    means, most = np.median(drawn, axis=0)
    print(f"  at random, median: mean {means:.3f}, largest {most:.3f}")


def main(cohort: Path) -> None:
    members = read_members(cohort)
    target = average([one for own in members.values() for one in own])
    for site, own in members.items():
        sizes(site, own, target)
    for site, own in members.items():
        halves(site, own, target)
    points = target.quantile(LEVELS)[INNER]
    maps = {site: map_of(own, target)(points) for site, own in members.items()}
    for site in maps:
        for other in maps:
            if site < other:
                apart = np.abs(maps[site] - maps[other])
                print(f"{site} and {other}: mean {apart.mean():.3f}, largest {apart.max():.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
