"""The figures in docs/concepts/own-tissues.md on tissue maps of different labellers.

    python experiments/labeller_study.py COHORT

COHORT is a BIDS folder of brains with masks and tissue probability maps made by one recipe, whose
participants.tsv has site and age. How often does `ndflow.study.checks` warn,

- where it should not: of the sites as they are, of people of all sites drawn into sites of their
  own at random, and of such sites of different ages;
- where it should: of one site whose maps are replaced by those of another labeller, with all its
  scans and with a few scans of each site?

No image is written.
"""

import csv
import sys
from collections.abc import Iterator
from itertools import combinations, permutations
from pathlib import Path

import nibabel
import numpy as np
from scipy import ndimage

from ndflow.study.checks import labeller_doubts

DRAWS = 2000
SIZES = (2, 5, 10, 20)  # scans of a site
SITES = (2, 3, 6)
OURS = "as shipped"
Labels = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # mask, CSF, GM, WM


def labellers(image: np.ndarray, ours: Labels, gm: np.ndarray, wm: np.ndarray) -> dict[str, Labels]:
    """Return the mask and the maps of each labeller, given ours and the maps of a template."""
    mask, csf, grey, white = ours
    rim = mask & ~ndimage.binary_erosion(mask)
    wide = ndimage.binary_dilation(mask)
    added = wide & ~mask
    return {
        OURS: ours,
        "each voxel of one tissue": (mask, *hard(np.stack([csf, grey, white]))),
        "template": (mask, np.clip(1 - gm - wm, 0, 1), gm, wm),
        "k-means of intensities": (mask, *clustered(image, mask)),
        "a tenth of GM is WM": (mask, csf, 0.9 * grey, white + 0.1 * grey),
        "a tenth of GM is CSF": (mask, csf + 0.1 * grey, 0.9 * grey, white),
        "CSF at the rim is GM": (mask, csf * ~rim, grey + csf * rim, white),
        "mask 1 voxel wider": (wide, np.where(added, 1, csf), grey * ~added, white * ~added),
        "mask 1 voxel narrower": (mask & ~rim, csf, grey, white),
    }


def hard(maps: np.ndarray) -> Iterator[np.ndarray]:
    most = np.argmax(maps, axis=0)
    return (np.float64(most == k) for k in range(len(maps)))


def clustered(image: np.ndarray, mask: np.ndarray) -> Iterator[np.ndarray]:
    """Return three classes of intensities."""
    voxels = image[mask]
    centres = np.percentile(voxels, (10, 50, 85))
    for _ in range(50):
        nearest = np.argmin(np.abs(voxels[:, None] - centres), axis=1)
        centres = np.array([voxels[nearest == k].mean() for k in range(3)])
    classes = np.full(image.shape, -1)
    classes[mask] = nearest
    return (np.float64(classes == k) for k in range(3))


def read(cohort: Path) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return the sites, the ages, and the proportions of all scans by labeller."""
    from nilearn import datasets

    with (cohort / "participants.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    found: dict[str, list[np.ndarray]] = {}
    kinds = ("desc-brain_mask", *(f"label-{tissue}_probseg" for tissue in ("CSF", "GM", "WM")))
    for row in rows:
        stem = cohort / row["participant_id"] / "anat" / row["participant_id"]
        scan = nibabel.load(f"{stem}_T1w.nii.gz")
        mask, *maps = (np.asarray(nibabel.load(f"{stem}_{k}.nii.gz").dataobj) for k in kinds)
        template = []
        for tissue in ("gm", "wm"):
            one = getattr(datasets, f"load_mni152_{tissue}_template")(resolution=1)
            way = np.linalg.inv(one.affine) @ scan.affine
            values = np.asarray(one.dataobj, dtype=np.float64)
            place = {"output_shape": scan.shape, "order": 1}
            template.append(ndimage.affine_transform(values, way[:3, :3], way[:3, 3], **place))
        ours = (mask > 0, *(np.asarray(part, dtype=np.float64) for part in maps))
        image = np.asarray(scan.dataobj, dtype=np.float64)
        for name, (inside, *parts) in labellers(image, ours, *template).items():
            amounts = np.array([part[inside].sum() for part in parts])
            found.setdefault(name, []).append(amounts / amounts.sum())
    sites, ages = np.array([r["site"] for r in rows]), np.array([float(r["age"]) for r in rows])
    return sites, ages, {name: np.array(many) for name, many in found.items()}


def false_alarms(sites: np.ndarray, ages: np.ndarray, people: np.ndarray) -> None:
    """Print how often there is a warning although all maps were made alike."""
    names = sorted(set(sites))
    for some in (*combinations(names, 2), tuple(names)):
        fired = labeller_doubts({site: people[sites == site] for site in some})
        print(f"{', '.join(some)}: {len(fired)} warnings")
    generator = np.random.default_rng(0)
    for count in SITES:
        for size in SIZES:
            if count * size > len(people):
                continue
            drawn, aged = 0, 0
            for _ in range(DRAWS):
                order = generator.permutation(len(people))[: count * size]
                drawn += bool(labeller_doubts(parts(people, order, count)))
                by_age = order[np.argsort(ages[order])]
                aged += bool(labeller_doubts(parts(people, by_age, count)))
            print(
                f"{count} sites of {size}: {drawn / DRAWS:.2%} at random, {aged / DRAWS:.2%} by age"
            )
    for size in SIZES:
        fired = 0
        for _ in range(DRAWS):
            some = {
                site: people[generator.permutation(np.flatnonzero(sites == site))[:size]]
                for site in names
            }
            fired += bool(labeller_doubts(some))
        print(f"{size} scans of each site as it is: {fired / DRAWS:.2%}")
    for one, other in permutations(names, 2):
        young = people[(sites == one) & (ages < 25)]
        old = people[(sites == other) & (ages > 67)]
        if min(len(young), len(old)) > 1:
            fired = len(labeller_doubts({one: young, other: old}))
            print(
                f"{len(young)} under 25 of {one}, {len(old)} over 67 of {other}: {fired} warnings"
            )


def parts(people: np.ndarray, order: np.ndarray, count: int) -> dict[str, np.ndarray]:
    return {str(k): people[one] for k, one in enumerate(np.array_split(order, count))}


def detected(sites: np.ndarray, proportions: dict[str, np.ndarray]) -> None:
    """Print how often another labeller of one site is noticed."""
    ours = proportions[OURS]
    names = sorted(set(sites))
    generator = np.random.default_rng(0)
    for name, theirs in proportions.items():
        if name == OURS:
            continue
        cells = []
        for odd in names:
            mixed = np.where((sites == odd)[:, None], theirs, ours)
            whole = labeller_doubts({site: mixed[sites == site] for site in names})
            few = 0
            for _ in range(DRAWS // 10):
                some = {
                    site: mixed[generator.permutation(np.flatnonzero(sites == site))[:5]]
                    for site in names
                }
                few += bool(labeller_doubts(some))
            cells.append(f"{odd} {bool(whole)!s:<5} ({few / (DRAWS // 10):.0%} of 5 scans)")
        print(f"{name:<26} {'; '.join(cells)}")


if __name__ == "__main__":
    known = read(Path(sys.argv[1]))
    false_alarms(known[0], known[1], known[2][OURS])
    detected(known[0], known[2])
