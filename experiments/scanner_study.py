"""The section of docs/study.md on scanners that a reference of healthy scans does not know.

References are made of two sites of the cohort, each pair in turn, with `--lesions auto`. Lesions
are then looked for in scans of other scanners: healthy scans of the third site; patients of other
studies, whose lesions are dark and should not be found either; and the scans of the cohort as other
scanners might show them, with another contrast, intensity curve, noise, sharpness, bias field or
mask. Anything that is kept out of one of these is a false alarm.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from lesion_study import Scan, files_of_cohort, read
from scipy import ndimage

from ndflow.density import GaussianMixture, fit, histogram
from ndflow.evaluation.tissues import quartiles
from ndflow.image.read import read_volume
from ndflow.population import LesionFinding, find_lesions, learn_ceiling, reference

PATIENTS = ("stroke/*_T1w.nii.gz", "channels/*_T1w.nii.gz")
LEVELS = 2000  # of simulated images, up to the 99.5th percentile

Simulated = dict[str, list[np.ndarray]]


def section(cohort: Path, others: Path) -> str:
    """Return the table; patients are looked for in `others`."""
    scans = files_of_cohort(cohort)
    sites = np.array([scan.site for scan in scans])
    healthy, simulated = [], []
    for number, files in enumerate(scans):
        scan = read(files)
        healthy.append(density(scan.image[scan.brain]))
        drawn = as_other_scanners(scan, np.random.default_rng(number))
        simulated.append({kind: [density(v) for v in many] for kind, many in drawn.items()})
    patients = [density(brain(path)) for kind in PATIENTS for path in sorted(others.glob(kind))]
    rows: dict[str, list[LesionFinding]] = {}
    for left_out in sorted(set(sites)):
        look = detector([one for one, site in zip(healthy, sites, strict=True) if site != left_out])
        own = [one for one, site in zip(healthy, sites, strict=True) if site == left_out]
        rows.setdefault("healthy, of the third site", []).extend(map(look, own))
        rows.setdefault("patients of other studies", []).extend(map(look, patients))
        for scan_as in simulated:
            for kind, many in scan_as.items():
                rows.setdefault(f"simulated: {kind}", []).extend(map(look, many))
    return table(rows)


def table(rows: dict[str, list[LesionFinding]]) -> str:
    """Return a table in Markdown."""
    lines = ["| scans | looked at | kept out of | largest share | not looked for |"]
    lines.append("| --- | --: | --: | --: | --: |")
    for name, found in rows.items():
        if found:
            alarms = sum(one.mass > 0 for one in found)
            most = max(one.mass for one in found)
            unlike = sum(one.unlike for one in found)
            lines.append(f"| {name} | {len(found)} | {alarms} | {most:.1%} | {unlike} |")
    return "\n".join(lines)


def detector(training: Sequence[GaussianMixture]) -> Callable[[GaussianMixture], LesionFinding]:
    """Return what looks for lesions, given healthy scans."""
    average = reference(training).mixture
    ceiling = learn_ceiling(training, average)
    return lambda own: find_lesions(own, average, ceiling)


def as_other_scanners(scan: Scan, generator: np.random.Generator) -> Simulated:
    """Return the voxels of a brain as other scanners might show them."""
    inside = scan.brain
    image = scan.image / np.quantile(scan.image[inside], 0.995)
    white, grey, csf = (
        quartiles(image[inside], part[inside])[1] for part in (scan.wm, scan.gm, scan.csf)
    )
    contrast, depth = (white - grey) * scan.wm, (grey - csf) * scan.csf
    y, z = (np.linspace(0, 1, count) for count in image.shape[1:])

    def noisy(clean: np.ndarray, sd: float) -> np.ndarray:
        one, other = sd * generator.standard_normal((2, *clean.shape))
        return np.hypot(clean + one, other)

    changed = {
        "contrast of a tissue ±20–30 %": [
            image + 0.2 * contrast,
            image - 0.2 * contrast,
            image + 0.3 * depth,
            image - 0.2 * depth,
        ],
        "intensity curve (γ .6–1.6)": [image**power for power in (0.6, 0.75, 1.3, 1.6)],
        "noise of 4, 6 and 8 %": [noisy(image, sd) for sd in (0.04, 0.06, 0.08)],
        "blurred or sharpened": [
            ndimage.gaussian_filter(image, 0.7),
            ndimage.gaussian_filter(image, 1.0),
            image + 0.6 * (image - ndimage.gaussian_filter(image, 1.0)),
        ],
        "bias field of ±7 %": [image * (0.93 + 0.14 * np.sin(np.pi * z))],
        "bias field of ±15 %": [image * (0.85 + 0.3 * y[:, np.newaxis])],
    }
    narrow = ndimage.binary_erosion(inside)
    wide = ndimage.binary_dilation(inside) & (image > 0)
    masked = [np.rint(LEVELS * image[mask]) for mask in (narrow, wide)]
    drawn = {
        kind: [np.rint(LEVELS * np.maximum(one, 0)[inside]) for one in many]
        for kind, many in changed.items()
    }
    return drawn | {"mask a voxel smaller or larger": masked}


def brain(path: Path) -> np.ndarray:
    """Return the voxels of an image that are not 0."""
    volume = read_volume(path)
    values = np.asarray(volume.values(volume.flat))
    return values[np.isfinite(values) & (values != 0)]


def density(voxels: np.ndarray) -> GaussianMixture:
    """Estimate a density; whole numbers are counted as such."""
    whole = np.array_equal(voxels, np.rint(voxels))
    return fit(histogram(voxels.astype(np.int32) if whole else voxels)).mixture
