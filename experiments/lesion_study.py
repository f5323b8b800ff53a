"""The first table of docs/guides/lesions.md: what normalisation does to simulated lesions.

    python experiments/lesion_study.py COHORT

Lesions are simulated in the WM of every scan of the cohort, as balls that make up
1, 3 and 6 % of the brain: bright ones, above WM by 1.06 times the contrast between GM and WM, and
dark ones, like CSF. Their noise is that of WM, and their borders are blurred. References come
from the *other* scans, without lesions, in five folds.

For each method: the contrast between lesion and WM in units of that between WM and GM, after
divided by before; and the shift of the median of healthy WM, in the same units, from where the same
method puts it in the scan without lesion. No image is written.
"""

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import ndimage

from ndflow.density import fit, histogram
from ndflow.evaluation.tissues import quartiles
from ndflow.image.mask import read_mask
from ndflow.image.read import read_grid, read_volume
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel, method_called
from ndflow.methods.modes import Goal
from ndflow.options import Options
from ndflow.study.plan import Study
from ndflow.study.references import make_references
from ndflow.subject.doubts import voxel_quantiles
from ndflow.subject.presets import Choices, StudyFacts, settled_study

SHARES = (0.0, 0.01, 0.03, 0.06)
KINDS = ("bright", "dark")
CONTRAST = 1.06
RADII = (2, 5)  # of the balls, in voxels
BLUR = 0.5  # of their borders, in voxels
FOLDS = 5
LANDMARKS = ("nyul", "quantile")
METHODS = ("paper", *LANDMARKS, "auto")


class Files(NamedTuple):
    """The files of a scan without lesion."""

    name: str
    site: str
    image: Path
    brain: Path
    gm: Path
    wm: Path
    csf: Path


class Images(NamedTuple):
    """The same in memory, as arrays over the whole grid."""

    image: np.ndarray
    brain: np.ndarray
    gm: np.ndarray
    wm: np.ndarray
    csf: np.ndarray


class Case(NamedTuple):
    """A scan with a lesion: what methods see, and the medians of GM, WM and lesion."""

    models: dict[str, DensityModel]
    medians: np.ndarray


Rows = list[dict[str, object]]


def rows_of(averages: Rows) -> str:
    """Return a table in Markdown: one row per lesion."""
    heads = [f"{what}: {method}" for what in ("contrast", "shift") for method in METHODS]
    lines = [["lesion", *heads], ["---", *["--:"] * len(heads)]]
    lesions = dict.fromkeys((row["lesion"], row["share"]) for row in averages)
    for kind, share in lesions:
        own = [row for row in averages if (row["lesion"], row["share"]) == (kind, share)]
        parts = ("kept", "kept_5th", "kept_95th")
        kept = ["{:.2f} ({:.2f}–{:.2f})".format(*(row[part] for part in parts)) for row in own]
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
        kept = np.flatnonzero(fold != k)
        goals = learn(
            [Subject("", site=sites[i], name=scans[i].name) for i in kept],
            [healthy[i] for i in kept],
        )
        for i in np.flatnonzero(fold == k):
            rows += measured(scans[i].name, sites[i], cases[i], goals[sites[i]])
    return rows


def read(files: Files) -> Images:
    """Read a scan and its maps."""

    def part(file: Path) -> np.ndarray:
        volume = read_volume(file)
        values = np.asarray(volume.values(volume.flat), dtype=np.float64)
        return values.reshape(volume.header.get_data_shape(), order="F")

    maps = [part(file) for file in (files.gm, files.wm, files.csf)]
    return Images(part(files.image), read_mask(files.brain, read_grid(files.image)).inside, *maps)


def lesioned(scan: Images, generator: np.random.Generator) -> dict[tuple[str, float], Case]:
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
            lesion = np.median(changed[inside]) if share else level
            tissues = (quartiles(image[clean], part[clean])[1] for part in (scan.gm, scan.wm))
            models = models_of(changed[brain].astype(np.int32))
            cases[kind, share] = Case(models, np.array([*tissues, lesion]))
    return cases


def models_of(values: np.ndarray) -> dict[str, DensityModel]:
    """Return what each method knows about a scan."""
    counted = histogram(values)
    plain = DensityModel(fit(counted).mixture, quantiles=voxel_quantiles(counted)[0])
    found = dict.fromkeys(METHODS, plain)
    for name in LANDMARKS:
        landmarks = method_called(name).measure(counted, Options(method=name))
        found[name] = replace(plain, landmarks=landmarks)
    return found


def growth(scan: Images, generator: np.random.Generator) -> np.ndarray:
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


def learn(scans: list[Subject], healthy: list[Case]) -> dict[str, dict[str, Goal]]:
    """Return what each method brings scans to, by site, from others without lesions."""
    sites = [str(scan.site) for scan in scans]
    facts = StudyFacts(len(scans), {site: sites.count(site) for site in sites})
    goals: dict[str, dict[str, Goal]] = {site: {} for site in sites}
    for name in METHODS:
        options = (
            Options(method=name)
            if name in LANDMARKS
            else settled_study(Choices(name), facts).options  # type: ignore[arg-type]
        )
        study = Study(Path(), scans, replace(options, scale="standard"))
        models = {scan.name: one.models[name] for scan, one in zip(scans, healthy, strict=True)}
        found = make_references(study, scans, models).goals
        for site, own in goals.items():
            own[name] = study.mode.goal_of(found, site)
    return goals


def measured(
    name: str, site: str, cases: dict[tuple[str, float], Case], goals: dict[str, Goal]
) -> list[dict[str, object]]:
    """Return one row per method and lesion."""
    healthy_scan = cases["bright", 0.0].models
    plain = {name: goal.solve(healthy_scan[name]).imap for name, goal in goals.items()}
    rows = []
    for (kind, share), case in cases.items():
        for method, goal in goals.items():
            imap = goal.solve(case.models[method]).imap
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


if __name__ == "__main__":
    print(rows_of(summary(compared(files_of_cohort(Path(sys.argv[1]))))))
