"""The tables of docs/guides/masks.md: how often a wrong mask is noticed, and how often a right one.

    python experiments/mask_study.py COHORT [SCANS]

COHORT is a BIDS folder of brains with masks; their masks are made wider and smaller by one and two
voxels. SCANS holds folders of scans without masks, such as whole heads, tried with no mask and with
the automatic one. No image is written.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import nibabel
import numpy as np
from scipy import ndimage

from ndflow.density import GaussianMixture
from ndflow.image.mask import foreground
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.population import reference
from ndflow.study.site_checks import odd_scans, sites_in_doubt
from ndflow.subject.doubts import density_distance, image_doubts
from ndflow.subject.fit import fit_subject
from ndflow.subject.records import ScanModel

CHANGES = {"two smaller": -2, "one smaller": -1, "as it is": 0, "one wider": 1, "two wider": 2}
RIGHT, WIDE = "as it is", "two wider"
Models = dict[str, ScanModel]  # by the name of the scan


def fitted(scan: Subject) -> ScanModel:
    return fit_subject(scan, options=Options())


def changed_mask(path: Path, voxels: int) -> nibabel.Nifti1Image:
    mask = nibabel.load(path)
    inside = np.asanyarray(mask.dataobj) > 0
    if voxels > 0:
        inside = ndimage.binary_dilation(inside, iterations=voxels)
    elif voxels < 0:
        inside = ndimage.binary_erosion(inside, iterations=-voxels)
    return nibabel.Nifti1Image(inside.astype(np.uint8), mask.affine)


def cohort_models(folder: Path) -> tuple[list[Subject], dict[str, Models]]:
    """Return the scans, and their models by how their masks were changed."""
    scans, models = [], defaultdict[str, Models](dict)
    for image in sorted(folder.glob("sub-*/anat/*_T1w.nii.gz")):
        name = image.name.removesuffix("_T1w.nii.gz")
        mask = image.with_name(f"{name}_desc-brain_mask.nii.gz")
        scans.append(Subject(str(image), site=name[4:].rstrip("0123456789"), name=name))
        for change, voxels in CHANGES.items():
            models[change][name] = fitted(Subject(str(image), changed_mask(mask, voxels)))
    return scans, models


def kinds(models: Iterable[ScanModel]) -> str:
    found = Counter(doubt.kind for model in models for doubt in model.doubts)
    return ", ".join(f"{kind} {count}" for kind, count in found.items()) or "none"


def span(values: Iterable[float | None], digits: int = 2) -> str:
    known = [value for value in values if value is not None]
    return f"{min(known):.{digits}f}–{max(known):.{digits}f}" if known else "–"


def figures(title: str, models: Sequence[ScanModel]) -> None:
    masks = [model.mask for model in models if model.mask is not None]
    noticed = sum(bool(model.doubts) for model in models)
    print(
        f"{title:26s} ml {span((m.volume for m in masks), 0):10s} rim {span(m.rim for m in masks)} "
        f"zeros {span((m.zeros for m in masks), 3)} cut {span(m.cut for m in masks)} "
        f"noise {span(m.noise for m in masks)} largest {span(m.largest for m in masks)} "
        f"noticed {noticed} of {len(models)}: {kinds(models)}"
    )


def by_themselves(scans: Sequence[Subject], models: dict[str, Models]) -> None:
    print("\nEach scan by itself")
    for change, made in models.items():
        for site in sorted({scan.site or "" for scan in scans}):
            figures(f"{site}, {change}", [made[scan.name] for scan in scans if scan.site == site])


def halves(scans: Sequence[Subject], models: dict[str, Models]) -> None:
    """Choose the bound of the rim on every other scan, and apply it to the rest."""
    rims = {c: [models[c][s.name].mask.rim for s in scans] for c in (RIGHT, WIDE)}
    for half in (0, 1):
        bound = (min(rims[RIGHT][half::2]) + max(rims[WIDE][half::2])) / 2
        alarms, found = (sum(rim < bound for rim in rims[c][1 - half :: 2]) for c in (RIGHT, WIDE))
        count = len(rims[RIGHT][1 - half :: 2])
        print(
            f"bound {bound:.3f} from half {half}: on the other, {found} of {count}, {alarms} false"
        )


def in_studies(scans: Sequence[Subject], models: dict[str, Models]) -> None:
    """Change the masks of one scan of a study at a time, of a third, and of all, by site."""
    common = mean(models[RIGHT].values())
    alone = odd_scans(scans, models[RIGHT], common)
    print(f"\nIn a study: unchanged, {len(alone)} of {len(scans)} noticed")
    for change in CHANGES:
        if change == RIGHT:
            continue
        for some in ("one", "a third", "all"):
            found = 0
            for site in sorted({scan.site or "" for scan in scans}):
                own = [scan.name for scan in scans if scan.site == site]
                groups = {"one": [[n] for n in own], "a third": [own[i::3] for i in range(3)]}
                for names in groups.get(some, [own]):
                    mixed = models[RIGHT] | {name: models[change][name] for name in names}
                    odd = {*odd_scans(scans, mixed, common)}
                    if any(f"At {site}," in d.text for d in sites_in_doubt(scans, mixed, t1w=True)):
                        odd |= {*own}
                    found += sum(bool(mixed[name].doubts) or name in odd for name in names)
                    extra = (odd | {n for n in mixed if mixed[n].doubts}) - set(names)
                    if extra:
                        print(f"  false alarms: {change}, {some} of {site}: {sorted(extra)}")
            print(f"  {change}, {some} of a site: {found} of {len(scans)} noticed")


def altered(image: nibabel.Nifti1Image) -> Iterable[tuple[str, nibabel.Nifti1Image]]:
    """Yield a head as it might look elsewhere."""
    voxels, affine = np.asanyarray(image.dataobj).astype(np.float32), image.affine
    bright, inside = np.percentile(voxels, 99), foreground(voxels)
    up = int(np.argmax(np.abs(affine[2, :3])))
    most = voxels.shape[up] * 3 // 10
    kept = np.arange(most, voxels.shape[up]) - (0 if affine[2, up] > 0 else most)
    fields = [
        np.linspace(1 - a, 1 + a, n) for a, n in zip((0.5, 0.3, 0), voxels.shape, strict=True)
    ]
    noise = np.random.default_rng(0).normal(0, 0.05 * bright, voxels.shape)
    inverted = np.where(inside, np.maximum(1.1 * bright - voxels, 1), 0.3 * voxels)
    for title, values, size in (
        ("cropped by 30 %", voxels.take(kept, up), (1, 1, 1)),
        ("noisy", np.abs(voxels + noise).round(), (1, 1, 1)),
        ("uneven", voxels * np.multiply.outer(np.outer(*fields[:2]), fields[2]), (1, 1, 1)),
        ("inverted", inverted, (1, 1, 1)),
        ("half the volume", voxels, (0.8, 0.8, 0.8)),
        ("thick slices", voxels[:, :, ::3], (1, 1, 3)),
        ("background 0", np.where(inside, np.maximum(voxels, 1), 0), (1, 1, 1)),
    ):
        yield title, nibabel.Nifti1Image(values.astype(np.float32), affine @ np.diag([*size, 1]))


def altered_heads(folder: Path) -> None:
    print("\nHeads, altered")
    for mask in (None, "auto"):
        made = defaultdict[str, list[ScanModel]](list)
        for path in sorted(folder.glob("*.nii.gz")):
            for title, image in altered(nibabel.load(path)):
                made[title].append(fitted(Subject(image, mask)))
        for title, models in made.items():
            figures(f"{title}, mask {mask}", models)


def mean(models: Iterable[ScanModel]) -> GaussianMixture:
    return reference([model.mixture for model in models]).mixture


def against_references(scans: Sequence[Subject], right: Models, others: dict[str, Models]) -> None:
    print("\nDistance of densities from a reference (W1, sd), and how many are unlike it")
    for site in sorted({scan.site or "" for scan in scans}):
        own = [scan.name for scan in scans if scan.site == site]
        target = mean(model for name, model in right.items() if name not in own)
        report(f"{site}, other sites", [right[name] for name in own], target)
    everything = mean(right.values())
    for name, models in others.items():
        report(f"{name}, whole cohort", list(models.values()), everything)


def report(title: str, models: Sequence[ScanModel], target: GaussianMixture) -> None:
    apart = [density_distance(model.mixture, target) for model in models]
    unlike = sum(bool(image_doubts("", mixture=one.mixture, reference=target)) for one in models)
    print(f"{title:40s} {span(apart)}  {unlike} of {len(models)}")


def main(cohort: Path, scans: Path | None = None) -> None:
    known, models = cohort_models(cohort)
    by_themselves(known, models)
    halves(known, models)
    in_studies(known, models)
    others: dict[str, Models] = {}
    for folder in sorted(scans.iterdir()) if scans else ():
        images = [path for path in sorted(folder.glob("*.nii.gz")) if "lesion" not in path.name]
        for mask in (None, "auto") if images else ():
            groups = defaultdict[str, Models](dict)
            for path in images:
                contrast = path.name.removesuffix(".nii.gz").rpartition("_")[2]
                groups[contrast][path.name] = fitted(Subject(str(path), mask))
            for contrast, made in groups.items():
                others[f"{folder.name} {contrast}, mask {mask}"] = made
    print()
    for title, made in others.items():
        figures(title, list(made.values()))
    if scans:
        altered_heads(scans / "heads")
    against_references(known, models[RIGHT], others | {WIDE: models[WIDE]})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
