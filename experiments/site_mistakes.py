"""How often a mistake of a whole site is named, and how often a right site is.

    python experiments/site_mistakes.py COHORT [STUDY ...]

COHORT is a BIDS folder of brains with masks and tissue maps. Each mistake is made at one of one,
two and three sites: of twelve scans each, and of the others, although bounds were chosen with all
scans in view. Right sites are those of the cohort as it is, also in draws of a few scans; of
finished STUDIES, such as the demo; and of simulated worlds (``benchmarks/worlds.py``), of which
those with odd seeds chose nothing. Only figures of masks and tissues are computed, and no image is
written.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

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
from ndflow.study.site_checks import sites_in_doubt
from ndflow.subject.records import ScanModel
from ndflow.subject.voxels import read_voxels

FIRST, DRAWS, WORLDS = 12, 100, 32  # scans of a site, draws of a few scans, worlds of each half
APART = 0.1  # of the voxels around brains: masks of a world that differ by more are wrong
Models = Mapping[str, ScanModel]  # by the name of the scan, which begins with its site


class Scan(NamedTuple):
    """Voxels of an image, of its mask, and of its maps of CSF, GM and WM; and their affine."""

    image: np.ndarray
    mask: np.ndarray
    maps: np.ndarray
    affine: np.ndarray


def shaded(s: Scan) -> dict[str, Any]:
    x, y, z = (np.linspace(-1, 1, n) for n in s.image.shape)
    field = 1 + 0.3 * y[:, None] + 0.2 * (z - x[:, None, None] ** 2)
    return {"image": np.rint(s.image * field).astype(np.int16)}


def overflown(s: Scan) -> dict[str, Any]:
    factor = 2**15 / np.percentile(s.image[s.mask], 90)
    return {"image": np.rint(s.image * factor).astype(np.int32).astype(np.int16)}


def without_cerebellum(s: Scan) -> dict[str, Any]:
    low = np.flatnonzero(s.mask.any(axis=(0, 1)))[0] + 18  # 36 mm
    return {"image": s.image[..., low:], "mask": s.mask[..., low:], "maps": s.maps[..., low:]}


MISTAKES: dict[str, tuple[str, Callable[[Scan], dict[str, Any]]]] = {
    "inverted": ("inverted contrast", lambda s: {"image": s.image.max() - s.image}),
    "negated": ("inverted contrast", lambda s: {"image": -s.image}),
    "masks of GM and WM": ("masks without CSF", lambda s: {"mask": s.maps[1:].sum(axis=0) > 0.5}),
    "masks eroded": ("mask too small", lambda s: {"mask": ndimage.binary_erosion(s.mask)}),
    "masks dilated": ("mask too wide", lambda s: {"mask": ndimage.binary_dilation(s.mask)}),
    "masks flipped": ("mask flipped", lambda s: {"mask": s.mask[::-1]}),
    "cerebellum missing": ("brain cut off", without_cerebellum),
    "shading": ("shading", shaded),
    "int16 overflow": ("integer overflow", overflown),
    "GM and WM exchanged": ("tissue maps exchanged", lambda s: {"maps": s.maps[[0, 2, 1]]}),
    "CSF and GM exchanged": ("tissue maps exchanged", lambda s: {"maps": s.maps[[1, 0, 2]]}),
    "maps flipped": ("tissue maps misplaced", lambda s: {"maps": s.maps[:, ::-1]}),
}


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
    files = (nibabel.Nifti1Image(one, scan.affine) for one in (scan.image, scan.mask.astype("u1")))
    voxels = read_voxels(Subject(*files), max_bytes=Options.max_bytes)
    values, shares, densities = scan.image[scan.mask].astype(float), scan.maps[:, scan.mask], []
    for share in shares:
        mean = np.average(values, weights=share)
        precision = 1 / np.average((values - mean) ** 2, weights=share)
        densities.append(GaussianMixture([1.0], [mean], [precision]))
    tissues = Tissues(tuple(densities), shares.sum(axis=1) / shares.sum())
    figures = measure_mask(voxels.volume, voxels.inside)
    return ScanModel(densities[0], tissues=tissues, mask=figures)


def site_of(name: str) -> str:
    return name.rstrip("0123456789")


def of_sites(models: Models, *sites: str) -> Models:
    return {name: one for name, one in models.items() if site_of(name) in sites}


def named(models: Models, *, t1w: bool = True) -> list[tuple[str, str]]:
    """Return site and kind of each doubt."""
    scans = [Subject("", site=site_of(name), name=name) for name in models]
    found = sites_in_doubt(scans, models, t1w=t1w)
    return [(doubt.text.split()[1].rstrip(","), doubt.kind) for doubt in found]


def detected(right: Models, wrong: Mapping[str, Models], *, t1w: bool) -> None:
    """Print in how many studies the wrong site is named as it should be, and no other."""
    sites = sorted({*map(site_of, right)})
    for mistake, (kind, _) in MISTAKES.items():
        counts, others = [], list[str]()
        for count in (1, 2, 3):
            pairs = [(some, site) for some in combinations(sites, count) for site in some]
            missed = len(others)
            for some, site in pairs:
                study = {**of_sites(right, *some), **of_sites(wrong[mistake], site)}
                if (found := named(study, t1w=t1w)) != [(site, kind)]:
                    others.append(f"  {site} of {count}: {found or 'nothing'}")
            counts.append(f"{len(pairs) - len(others) + missed} of {len(pairs)}")
        print(f"{mistake:22s}", "  ".join(counts), *(f"\n{line}" for line in others))


def false_alarms(title: str, models: Models) -> None:
    """Print which sites of a study are named: single ones, pairs, and all; also of few scans."""
    sites, generator = sorted({*map(site_of, models)}), np.random.default_rng(0)
    for few in (None, 12, 6, 3):
        alarms, judged = Counter[tuple[str, str, bool]](), 0
        for some in (some for n in range(1, len(sites) + 1) for some in combinations(sites, n)):
            for _ in range(DRAWS if few else 1):
                own = [[name for name in models if site_of(name) == site] for site in some]
                drawn = [name for names in own for name in generator.permutation(names)[:few]]
                study = {name: models[name] for name in drawn}
                for t1w in (True, False):
                    alarms.update((*one, t1w) for one in named(study, t1w=t1w))
                judged += len(some)
        for t1w in (True, False):
            found = {one[:2]: count for one, count in alarms.items() if one[2] is t1w}
            known = "known to be T1w" if t1w else "of unknown contrast"
            print(
                f"{title}, {few or 'all'} scans {known}: {sum(found.values())} of {judged} sites",
                found,
            )


def in_worlds(seeds: Iterable[int]) -> None:
    """Print how many sites of worlds are named, and of how many masks are right and wrong."""
    anatomy = load_anatomy()
    grid, judged, alarms = world_grid(anatomy), Counter[bool](), Counter[bool]()
    for seed in seeds:
        world, models = draw_world(seed, anatomy, grid), {}
        for one in world.scans:
            image, mask = np.zeros(grid.shape, np.int16), np.zeros(grid.shape, bool)
            maps, place = np.zeros((3, *grid.shape)), tuple(one.voxels.T)
            image[place], mask[place], maps[:, *place] = np.rint(one.values), True, one.tissues.T
            models[one.name] = model(Scan(image, mask, maps, grid.affine))
        said = dict(named(models))
        for site in world.sites:
            others = [other.rim for other in world.sites if other is not site]
            wrong = bool(abs(site.rim - np.median(others)) > APART)
            judged[wrong] += 1
            alarms[wrong] += site.name in said
            if site.name in said:
                print(
                    f"  world {seed}: {site.name}, {said[site.name]}, rim {site.rim:.2f}, {others}"
                )
    for wrong in (False, True):
        print(f"{seeds}, masks {wrong=}: {alarms[wrong]} of {judged[wrong]} sites")


def main(cohort: Path, *studies: str) -> None:
    scans = read_cohort(cohort)
    right = {name: model(scan) for name, scan in scans.items()}
    wrong = {
        mistake: {name: model(scan._replace(**make(scan))) for name, scan in scans.items()}
        for mistake, (_, make) in MISTAKES.items()
    }
    first = {name for name in right if int(name.removeprefix(site_of(name))) <= FIRST}
    for title, names in (("twelve scans of each site", first), ("the others", {*right} - first)):
        some = {mistake: {name: own[name] for name in names} for mistake, own in wrong.items()}
        for t1w in (True, False):
            print(f"\nOf {title}, {'known to be T1w' if t1w else 'of unknown contrast'}")
            detected({name: right[name] for name in sorted(names)}, some, t1w=t1w)
    print()
    false_alarms("The cohort", right)
    for run in read_finished(studies):
        fits = [ScanModel.read(run.study.model(scan)) for scan in run.study.scans]
        places = (f"{scan.site}{n}" for n, scan in enumerate(run.study.scans))
        false_alarms(run.name, dict(zip(places, fits, strict=True)))
    in_worlds(range(0, 2 * WORLDS, 2))
    in_worlds(range(65, 65 + 2 * WORLDS, 2))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
