"""The section of docs/study.md on lesions: simulated in scans, and what normalisation does to them.

Lesions are simulated in the WM of every scan of the cohort, as balls that make up
1, 3 and 6 % of the brain: bright ones, above WM by 1.06 times the contrast between GM and WM, and
dark ones, like CSF. Their noise is that of WM, and their borders are blurred. References and
average landmarks come from the *other* scans, without lesions, in five folds.

For each method: the contrast between lesion and WM in units of that between WM and GM, after
divided by before; and the shift of the median of healthy WM, in the same units, from where the same
method puts it in the scan without lesion. No image is written.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import ndimage
from study_intervals import Interval, written

from ndflow.density import GaussianMixture, Histogram, fit, histogram
from ndflow.evaluation.tissues import quartiles
from ndflow.image.mask import read_mask
from ndflow.image.read import read_grid, read_volume
from ndflow.methods.base import DensityModel, method_of
from ndflow.options import Options
from ndflow.population import Landmarks, reference
from ndflow.transport import IntensityMap, align
from ndflow.transport.normalising_map import align_and_match, flow_map

SHARES = (0.0, 0.01, 0.03, 0.06)
KINDS = ("bright", "dark")
CONTRAST = 1.06
RADII = (2, 5)  # of the balls, in voxels
BLUR = 0.5  # of their borders, in voxels
FOLDS = 5
METHODS = ("paper", "nyul", "quantile")
LANDMARKS = (Options(method="nyul"), Options(method="quantile"))


class Files(NamedTuple):
    """The files of a scan without lesion."""

    name: str
    site: str
    image: Path
    brain: Path
    gm: Path
    wm: Path
    csf: Path


class Subject(NamedTuple):
    """The same in memory, as arrays over the whole grid."""

    image: np.ndarray
    brain: np.ndarray
    gm: np.ndarray
    wm: np.ndarray
    csf: np.ndarray


class Case(NamedTuple):
    """A scan with a lesion: what a method sees, and the medians of GM, WM and lesion."""

    histogram: Histogram
    mixture: GaussianMixture
    medians: np.ndarray


class Standards(NamedTuple):
    """What is learned from the other scans."""

    reference: GaussianMixture
    nyul: Landmarks
    quantile: Landmarks


Rows = list[dict[str, object]]


def sections(cohort: Path) -> dict[str, str]:
    """Measure everything, and return the table."""
    return {"lesions": rows_of(summary(compared(files_of_cohort(cohort))))}


def rows_of(averages: Rows) -> str:
    """Return a table in Markdown: one row per lesion."""
    heads = [f"{what}: {method}" for what in ("contrast", "shift") for method in METHODS]
    lines = [["lesion", *heads], ["---", *["--:"] * len(heads)]]
    lesions = dict.fromkeys((row["lesion"], row["share"]) for row in averages)
    for kind, share in lesions:
        own = [row for row in averages if (row["lesion"], row["share"]) == (kind, share)]
        parts = ("kept", "kept_5th", "kept_95th")
        kept = [written(Interval(*(float(str(row[part])) for part in parts)), 2) for row in own]
        shift = [f"{row['shift']:.1%} ({row['shift_95th']:.1%})" for row in own]
        lines.append([f"{share:.0%} {kind}", *kept, *shift])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def files_of_cohort(cohort: Path) -> list[Files]:
    """Return the scans of the cohort."""
    kinds = ("T1w", "desc-brain_mask", *(f"label-{t}_probseg" for t in ("GM", "WM", "CSF")))
    found = []
    for row in table_in(cohort / "participants.tsv"):
        name = row["participant_id"]
        paths = (cohort / name / "anat" / f"{name}_{kind}.nii.gz" for kind in kinds)
        found.append(Files(name, row["site"], *paths))
    return found


def table_in(file: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened, delimiter="\t"))


def compared(scans: list[Files]) -> Rows:
    """Return one row per scan, lesion and method."""
    sites = [scan.site for scan in scans]
    cases = [lesioned(read(scan), np.random.default_rng(i)) for i, scan in enumerate(scans)]
    healthy = [case["bright", 0.0] for case in cases]
    fold = folds(sites)
    rows = []
    for k in range(FOLDS):
        others = learn([case for case, own in zip(healthy, fold, strict=True) if own != k])
        for i in np.flatnonzero(fold == k):
            rows += measured(scans[i].name, sites[i], cases[i], others)
    return rows


def read(files: Files) -> Subject:
    """Read a scan and its maps."""

    def part(file: Path) -> np.ndarray:
        volume = read_volume(file)
        values = np.asarray(volume.values(volume.flat), dtype=np.float64)
        return values.reshape(volume.header.get_data_shape(), order="F")

    maps = [part(file) for file in (files.gm, files.wm, files.csf)]
    return Subject(part(files.image), read_mask(files.brain, read_grid(files.image)).inside, *maps)


def lesioned(scan: Subject, generator: np.random.Generator) -> dict[tuple[str, float], Case]:
    """Return the scan with lesions of every kind and size."""
    image, brain = scan.image, scan.brain
    gm, wm, csf = (quartiles(image[brain], part[brain]) for part in (scan.gm, scan.wm, scan.csf))
    noise = (wm[2] - wm[0]) / 1.349 * generator.standard_normal(image.shape)
    order = growth(scan, generator)
    levels = {"bright": wm[1] + CONTRAST * (wm[1] - gm[1]), "dark": csf[1]}
    cases = {}
    for share in SHARES:
        inside = np.zeros(image.shape, dtype=bool)
        inside.flat[order[: round(share * brain.sum())]] = True
        amount = ndimage.gaussian_filter(inside.astype(float), BLUR)
        clean = brain & (amount < 0.01)
        for kind, level in levels.items():
            changed = np.rint((1 - amount) * image + amount * (level + noise))
            own = histogram(changed[brain].astype(np.int32))
            lesion = np.median(changed[inside]) if share else level
            tissues = (quartiles(image[clean], part[clean])[1] for part in (scan.gm, scan.wm))
            cases[kind, share] = Case(own, fit(own).mixture, np.array([*tissues, lesion]))
    return cases


def growth(scan: Subject, generator: np.random.Generator) -> np.ndarray:
    """Return voxels of WM in the order in which balls fill them."""
    white = scan.brain & (scan.wm > 0.9)
    seeds = generator.permutation(np.argwhere(ndimage.binary_erosion(white)))
    grid = np.indices(white.shape)
    taken = np.zeros(white.shape, dtype=bool)
    order: list[np.ndarray] = []
    count = 0
    for seed in seeds:
        if count > max(SHARES) * scan.brain.sum():
            break
        distance = np.sqrt(((grid - seed[:, None, None, None]) ** 2).sum(axis=0))
        ball = (distance <= generator.uniform(*RADII)) & white & ~taken
        taken |= ball
        order.append(np.flatnonzero(ball))
        count += order[-1].size
    return np.concatenate(order)


def folds(sites: list[str]) -> np.ndarray:
    """Return the fold of each scan; the scans of each site are distributed evenly."""
    fold = np.empty(len(sites), dtype=int)
    generator = np.random.default_rng(0)
    for site in sorted(set(sites)):
        of_site = generator.permutation([i for i, own in enumerate(sites) if own == site])
        fold[of_site] = np.arange(len(of_site)) % FOLDS
    return fold


def learn(training: list[Case]) -> Standards:
    """Learn from scans without lesions."""
    mixtures = [case.mixture for case in training]
    average = reference(mixtures).mixture
    landmarks = [
        method_of(options).average(
            (landmarks_of(case, options), align(case.mixture), 1.0) for case in training
        )
        for options in LANDMARKS
    ]
    return Standards(average, *landmarks)


def landmarks_of(case: Case, options: Options) -> Landmarks:
    """Return the landmarks of a scan."""
    return method_of(options).measure(case.histogram, options)


def measured(
    name: str, site: str, cases: dict[tuple[str, float], Case], others: Standards
) -> list[dict[str, object]]:
    """Return one row per method and lesion."""
    plain = dict(maps(cases["bright", 0.0], others))
    rows = []
    for (kind, share), case in cases.items():
        for method, imap in maps(case, others):
            grey, white, lesion = imap(case.medians)
            grey_before, white_before, lesion_before = case.medians
            before = (lesion_before - white_before) / (white_before - grey_before)
            after = (lesion - white) / (white - grey)
            healthy = plain[method](case.medians)
            rows.append(
                {
                    "scan": name,
                    "site": site,
                    "lesion": kind,
                    "share": share,
                    "method": method,
                    "kept": after / before,
                    "shift": (white - healthy[1]) / (healthy[1] - healthy[0]),
                }
            )
    return rows


def maps(case: Case, others: Standards) -> list[tuple[str, IntensityMap]]:
    """Return the map of each method."""
    own, target = case.mixture, others.reference
    made = (
        flow_map(*align_and_match(own, target)),
        *(
            method_of(options)
            .solve(
                DensityModel(own, landmarks_of(case, options)),
                DensityModel(target, average),
                options,
            )
            .imap
            for options, average in zip(LANDMARKS, (others.nyul, others.quantile), strict=True)
        ),
    )
    return list(zip(METHODS, made, strict=True))


def summary(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return averages over scans."""
    result: list[dict[str, object]] = []
    for kind in KINDS:
        for share in SHARES[1:]:
            for method in METHODS:
                key = (kind, share, method)
                own = [r for r in rows if (r["lesion"], r["share"], r["method"]) == key]
                kept, shift = (np.array([row[name] for row in own]) for name in ("kept", "shift"))
                result.append(
                    {
                        "lesion": kind,
                        "share": share,
                        "method": method,
                        "kept": kept.mean(),
                        "kept_5th": np.quantile(kept, 0.05),
                        "kept_95th": np.quantile(kept, 0.95),
                        "shift": np.abs(shift).mean(),
                        "shift_95th": np.quantile(np.abs(shift), 0.95),
                    }
                )
    return result
