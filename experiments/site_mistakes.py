"""How often a mistake of a whole site is named, and how often a right site is.

    python experiments/site_mistakes.py COHORT [STUDY ...]

COHORT is a BIDS folder of brains with masks and tissue maps. Twelve scans of each site chose the
bounds, the others did not. Each mistake is made at one of one, two and three sites. Right sites are
those of the cohort as it is, also in draws of a few scans; of finished STUDIES, such as the demo;
and of simulated worlds (``benchmarks/worlds.py``), of which those with even seeds chose the bounds.
Only figures of masks and means of tissues are computed, and no image is written.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import nibabel
import numpy as np
from scipy import ndimage

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from worlds import draw_world, world_grid

from ndflow.density import GaussianMixture
from ndflow.image.mask_doubts import measure_mask
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.population import Tissues
from ndflow.preparation.registration import load_anatomy
from ndflow.study.finished import read_finished
from ndflow.study.site_checks import orders_in_doubt, sites_in_doubt
from ndflow.subject.records import ScanModel
from ndflow.subject.voxels import read_voxels

CHOSE, DRAWS, WORLDS = 12, 100, 32  # scans of a site, draws of a few scans, worlds of each half
Models = Mapping[str, ScanModel]  # by the name of the scan, which begins with its site


class Scan(NamedTuple):
    """Voxels of an image, of its mask, and of its maps of CSF, GM and WM; and their affine."""

    image: np.ndarray
    mask: np.ndarray
    maps: np.ndarray
    affine: np.ndarray


# ── mistakes ──────────────────────────────────────────────────────────────────────────────────────


def grey_brightest(s: Scan) -> np.ndarray:
    """Return CSF < WM < GM, as in FLAIR."""
    c, g, w = (np.median(s.image[s.mask & (one > 0.5)]) for one in s.maps)
    return np.interp(s.image, [0, c, g, w, 2 * w - g], [0, 30, 100, 80, 60]).astype(np.int16)


def shaded(s: Scan) -> np.ndarray:
    x, y, z = (np.linspace(-1, 1, n) for n in s.image.shape)
    field = 1 + 0.3 * y[:, None] + 0.2 * (z - x[:, None, None] ** 2)
    return np.rint(s.image * field).astype(np.int16)


def overflown(s: Scan) -> np.ndarray:
    factor = 2**15 / np.percentile(s.image[s.mask], 90)
    return np.rint(s.image * factor).astype(np.int32).astype(np.int16)


def without_cerebellum(s: Scan) -> Scan:
    low = np.flatnonzero(s.mask.any(axis=(0, 1)))[0] + 18
    image, mask = s.image[..., low:], s.mask[..., low:]
    return s._replace(image=image, mask=mask, maps=s.maps[..., low:])


MISTAKES: dict[str, tuple[str, Callable[[Scan], Scan]]] = {
    "inverted": ("inverted contrast", lambda s: s._replace(image=s.image.max() - s.image)),
    "negated": ("inverted contrast", lambda s: s._replace(image=-s.image)),
    "GM brightest, as in FLAIR": (
        "other contrast",
        lambda s: s._replace(image=grey_brightest(s)),
    ),
    "masks of GM and WM": (
        "masks without CSF",
        lambda s: s._replace(mask=s.maps[1:].sum(axis=0) > 0.5),
    ),
    "masks one voxel too small": (
        "mask too small",
        lambda s: s._replace(mask=ndimage.binary_erosion(s.mask)),
    ),
    "masks one voxel too wide": (
        "mask too wide",
        lambda s: s._replace(mask=ndimage.binary_dilation(s.mask)),
    ),
    "masks flipped": ("mask flipped", lambda s: s._replace(mask=s.mask[::-1])),
    "cerebellum missing": ("brain cut off", without_cerebellum),
    "shading": ("shading", lambda s: s._replace(image=shaded(s))),
    "int16 overflow": ("integer overflow", lambda s: s._replace(image=overflown(s))),
    "maps of GM and WM exchanged": (
        "tissue maps exchanged",
        lambda s: s._replace(maps=s.maps[[0, 2, 1]]),
    ),
    "maps of CSF and GM exchanged": (
        "tissue maps exchanged",
        lambda s: s._replace(maps=s.maps[[1, 0, 2]]),
    ),
}


# ── what is known about scans ─────────────────────────────────────────────────────────────────────


def site_of(name: str) -> str:
    return name.rstrip("0123456789")


def read_cohort(folder: Path) -> dict[str, Scan]:
    scans = {}
    for path in sorted(folder.glob("sub-*/anat/*_T1w.nii.gz")):
        stem = path.name.removesuffix("_T1w.nii.gz")
        kinds = ("desc-brain_mask", *(f"label-{one}_probseg" for one in ("CSF", "GM", "WM")))
        files = (path, *(path.with_name(f"{stem}_{kind}.nii.gz") for kind in kinds))
        image, mask, *maps = (np.asanyarray(nibabel.load(file).dataobj) for file in files)
        scans[stem[4:]] = Scan(image, mask > 0, np.array(maps), nibabel.load(path).affine)
    return scans


def model(scan: Scan) -> ScanModel:
    image, mask = (
        nibabel.Nifti1Image(one, scan.affine) for one in (scan.image, scan.mask.astype("u1"))
    )
    voxels = read_voxels(Subject(image, mask), max_bytes=Options.max_bytes)
    values, shares = scan.image[scan.mask].astype(float), scan.maps[:, scan.mask]
    densities = []
    for share in shares:
        mean = np.average(values, weights=share)
        variance = np.average((values - mean) ** 2, weights=share)
        densities.append(GaussianMixture([1.0], [mean], [1 / variance]))
    tissues = Tissues(tuple(densities), shares.sum(axis=1) / shares.sum())
    return ScanModel(densities[0], tissues=tissues, mask=measure_mask(voxels.volume, voxels.inside))


def named(models: Models, *, t1w: bool = True) -> dict[str, list[str]]:
    """Return the kinds of doubt about each site that is in doubt."""
    scans = [Subject("", site=site_of(name), name=name) for name in models]
    found: dict[str, list[str]] = {}
    for doubt in (
        *sites_in_doubt(scans, models, t1w=t1w),
        *orders_in_doubt(scans, models, t1w=t1w),
    ):
        found.setdefault(doubt.text.split()[1].rstrip(","), []).append(doubt.kind)
    return found


# ── tables ────────────────────────────────────────────────────────────────────────────────────────


def of_sites(models: Models, *sites: str) -> Models:
    return {name: one for name, one in models.items() if site_of(name) in sites}


def detected(right: Models, wrong: Mapping[str, Models], *, t1w: bool) -> None:
    """Print in how many studies the wrong site is named as it should be, and no other."""
    sites = sorted({*map(site_of, right)})
    for mistake, (kind, _) in MISTAKES.items():
        counts, else_said = [], Counter[str]()
        for count in (1, 2, 3):
            pairs = [(some, site) for some in combinations(sites, count) for site in some]
            found = [
                named({**of_sites(right, *some), **of_sites(wrong[mistake], site)}, t1w=t1w)
                for some, site in pairs
            ]
            good = [said == {site: [kind]} for said, (_, site) in zip(found, pairs, strict=True)]
            counts.append(f"{sum(good):2d} of {len(good)}")
            for said, (some, site), well in zip(found, pairs, good, strict=True):
                else_said[f"  {site} of {some}: {said}"] += not well
        print(f"{mistake:30s}{'   '.join(counts)}", *+else_said, sep="\n")


def false_alarms(title: str, models: Models) -> None:
    """Print which sites are named of a study, its pairs of sites, single sites, and draws of few."""
    sites, generator = sorted({*map(site_of, models)}), np.random.default_rng(0)
    for few in (None, 12, 6, 3):
        alarms, judged = Counter[str](), 0
        for some in (s for n in (1, 2, 3) for s in combinations(sites, n)):
            for _ in range(DRAWS if few else 1):
                own = [[name for name in models if site_of(name) == site] for site in some]
                drawn = [generator.permutation(names)[:few] for names in own]
                said = named({name: models[name] for names in drawn for name in names})
                alarms.update(f"{site} {kinds}" for site, kinds in said.items())
                judged += len(some)
        print(f"{title}, {few or 'all'} scans: {alarms.total()} of {judged} sites", *alarms.items())


def worlds(seeds: Iterable[int]) -> None:
    anatomy = load_anatomy()
    grid, judged, alarms = world_grid(anatomy), 0, Counter[str]()
    for seed in seeds:
        models = {}
        for one in draw_world(seed, anatomy, grid).scans:
            image, mask = np.zeros(grid.shape, np.int16), np.zeros(grid.shape, bool)
            maps, place = np.zeros((3, *grid.shape)), tuple(one.voxels.T)
            image[place], mask[place], maps[:, *place] = np.rint(one.values), True, one.tissues.T
            models[one.name] = model(Scan(image, mask, maps, grid.affine))
        alarms.update(f"{seed} {site} {kinds}" for site, kinds in named(models).items())
        judged += len({*map(site_of, models)})
    print(f"worlds {seeds}: {alarms.total()} of {judged} sites", *alarms)


def main(cohort: Path, *studies: str) -> None:
    scans = read_cohort(cohort)
    right = {name: model(scan) for name, scan in scans.items()}
    wrong = {
        mistake: {name: model(make(scan)) for name, scan in scans.items()}
        for mistake, (_, make) in MISTAKES.items()
    }
    chose = {name for name in right if int(name.lstrip("HNSKUCLA")) <= CHOSE}
    for title, names in (("Twelve scans of each site", chose), ("The others", {*right} - chose)):
        some = {mistake: {name: own[name] for name in names} for mistake, own in wrong.items()}
        for t1w in (True, False):
            print(f"\n{title}, {'known to be T1w' if t1w else 'of unknown contrast'}")
            detected({name: right[name] for name in sorted(names)}, some, t1w=t1w)
    print()
    false_alarms("The cohort", right)
    for study in read_finished(studies):
        fits = [ScanModel.read(study.study.model(scan)) for scan in study.study.scans]
        scans_of = zip(study.study.scans, fits, strict=True)
        false_alarms(study.name, {f"{scan.site}{n}": fit for n, (scan, fit) in enumerate(scans_of)})
    worlds(range(0, 2 * WORLDS, 2))
    worlds(range(65, 65 + 2 * WORLDS, 2))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
