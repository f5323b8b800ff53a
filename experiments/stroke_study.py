"""The second table of docs/guides/lesions.md: what the column ``lesion`` does in real patients.

    python experiments/stroke_study.py FOLDER

FOLDER holds brains of patients in MNI space, ``*_T1w.nii.gz``, and for each the lesion that was
drawn by hand, ``*_lesion.nii.gz``. Every method is run twice, with and without the column
``lesion``. Prints a table in Markdown: standard deviations over patients of the medians of healthy
WM and GM, the correlation of the former with the volume of the lesion, and how much of the contrast
of the lesion is kept.

Healthy WM and GM are labelled by none of these methods: they are the voxels to which the ICBM152
template gives a probability of more than .9, its WM eroded by one voxel, more than 10 mm away from
the lesion. The ventricles and sulci of these patients are wider than the template's, so voxels
darker than half of the median of WM, as scanned, are CSF, and left out. An increasing map takes
medians to medians, so images need not be read again.
"""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import nibabel
import numpy as np
from scipy import ndimage, stats

import ndflow

METHODS = {
    "affine": ("--method", "affine"),
    "nyul": ("--method", "nyul"),
    "paper": ("--preset", "paper"),
    "auto": (),  # with so few scans, this does not adapt proportions
    "auto, adaptive": ("--proportions", "adaptive"),
}
CERTAIN = 0.9  # probability of a tissue in the template
AWAY = 10.0  # mm from the lesion
EDGE = 0.2  # of the median of the scan: darker voxels may be the blurred edge of the brain
DARK = 0.5  # of the median of WM: darker voxels are CSF


class Patient(NamedTuple):
    """A patient: medians of healthy WM, healthy GM and lesion as scanned, and its volume in ml."""

    name: str
    medians: np.ndarray
    volume: float


def compared(folder: Path, work: Path) -> str:
    """Run every method on the patients in a folder, and return the table in Markdown."""
    images = sorted(folder.glob("*_T1w.nii.gz"))
    if not images:
        raise SystemExit(f"{folder}: no scans of patients, *_T1w.nii.gz")
    patients = [measured(image) for image in images]
    masks = [write_mask(image, work / image.name.replace("_T1w", "_mask")) for image in images]
    after: dict[tuple[str, bool], np.ndarray] = {}
    for known in (False, True):
        name = f"strokes-{'with' if known else 'without'}.tsv"
        table = write_table(work / name, images, masks, known)
        for name, words in METHODS.items():
            place = f"strokes-{name.replace(', ', '-')}{'-lesion' if known else ''}"
            command("cohort", table, work / place, "--channels", "T1w", "--no-report", "-q", *words)
            after[name, known] = np.array([mapped(work / place, one) for one in patients])
    return rows_of(patients, after)


def write_mask(image: Path, mask: Path) -> Path:
    """Write a brain mask: what is bright, without the blurred edge of the brain, and the lesion."""
    scan = nibabel.load(image)
    values = np.asarray(scan.dataobj, dtype=np.float64)
    bright = ndimage.binary_opening(values > EDGE * np.median(values[values > 0]), iterations=2)
    lesion = np.asarray(nibabel.load(str(image).replace("_T1w", "_lesion")).dataobj) > 0
    brain = ndimage.binary_fill_holes(bright | (lesion & (values > 0)))
    nibabel.save(nibabel.Nifti1Image(brain.astype(np.uint8), scan.affine), mask)
    return mask


def write_table(table: Path, images: list[Path], masks: list[Path], known: bool) -> Path:
    """Write the table of a study, with the lesions if they are to be known."""
    lines = ["image\tmask\tlesion"]
    for image, mask in zip(images, masks, strict=True):
        lesion = str(image).replace("_T1w", "_lesion") if known else ""
        lines.append(f"{image}\t{mask}\t{lesion}")
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def measured(image: Path) -> Patient:
    """Return the medians of a patient."""
    scan = nibabel.load(image)
    values = np.asarray(scan.dataobj, dtype=np.float64)
    drawn = nibabel.load(str(image).replace("_T1w", "_lesion"))
    lesion = np.asarray(drawn.dataobj) > 0
    gm, wm = (on_grid_of(scan, tissue) > CERTAIN for tissue in ("gm", "wm"))
    sizes = np.linalg.norm(scan.affine[:3, :3], axis=0)
    far = (ndimage.distance_transform_edt(~lesion, sampling=sizes) > AWAY) & (values > 0)
    white = ndimage.binary_erosion(wm) & far
    bright = values > DARK * np.median(values[white])
    parts = (white & bright, gm & far & bright, lesion & (values > 0))
    medians = np.array([np.median(values[part]) for part in parts])
    volume = np.count_nonzero(parts[2]) * float(np.prod(sizes)) / 1000
    return Patient(image.name.partition("_")[0], medians, volume)


def on_grid_of(scan: nibabel.Nifti1Image, tissue: str) -> np.ndarray:
    """Return the probability of a tissue in the template, on the grid of a scan."""
    from nilearn import datasets

    template = getattr(datasets, f"load_mni152_{tissue}_template")(resolution=1)
    way = np.linalg.inv(template.affine) @ scan.affine
    values = np.asarray(template.dataobj, dtype=np.float64)
    return ndimage.affine_transform(
        values, way[:3, :3], way[:3, 3], output_shape=scan.shape, order=1
    )


def mapped(run: Path, patient: Patient) -> np.ndarray:
    """Return the medians of a patient in a finished run."""
    with (run / "scans.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    (row,) = (row for row in rows if patient.name in row["name"])
    return ndflow.load(run / row["sidecar"])(patient.medians)


def rows_of(patients: list[Patient], after: dict[tuple[str, bool], np.ndarray]) -> str:
    """Return the table in Markdown."""
    before = np.array([patient.medians for patient in patients])
    volumes = np.array([patient.volume for patient in patients])
    head = ["method", "`lesion`", "sd of WM", "sd of GM", "r", "contrast kept", "least–most"]
    lines = [head, ["---", "---", *["--:"] * 5], cells("none", None, before, before, volumes)]
    for name in METHODS:
        plain, told = after[name, False], after[name, True]
        lines.append(cells(name, False, plain, before, volumes))
        lines.append(cells(name, True, told, before, volumes, plain))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(
    name: str,
    known: bool | None,
    medians: np.ndarray,
    before: np.ndarray,
    volumes: np.ndarray,
    without: np.ndarray | None = None,
) -> list[str]:
    """Return a row of the table; `without` is the same method without the column."""
    found = in_gaps(medians)
    sds = [text(part.std(ddof=1), 3) for part in found.T[:2]]
    if without is not None:
        others = in_gaps(without)
        tests = (brown_forsythe(found[:, k], others[:, k]) for k in (0, 1))
        sds = [f"{sd} (p = {text(p, 3)})" for sd, p in zip(sds, tests, strict=True)]
    kept = contrast(medians) / contrast(before)
    of_lesions = [text(kept.mean(), 2), f"{text(kept.min(), 2)}–{text(kept.max(), 2)}"]
    return [
        name,
        "–" if known is None else "yes" if known else "no",
        *sds,
        text(np.corrcoef(found[:, 0], volumes)[0, 1], 2),
        *(["–", "–"] if known is None else of_lesions),
    ]


def brown_forsythe(one: np.ndarray, other: np.ndarray) -> float:
    """Return p of a paired, one-sided Brown–Forsythe test: is the dispersion of `one` smaller?"""
    deviations = [np.abs(values - np.median(values)) for values in (one, other)]
    return float(stats.ttest_rel(*deviations, alternative="less").pvalue)


def text(number: float, digits: int) -> str:
    """Return a number without the zero before its point."""
    return f"{number:.{digits}f}".replace("-", "−").replace("0.", ".", 1)


def in_gaps(medians: np.ndarray) -> np.ndarray:
    """Return medians less those of the average patient, in units of the mean gap of WM and GM."""
    return (medians - medians.mean(axis=0)) / np.mean(medians[:, 0] - medians[:, 1])


def contrast(medians: np.ndarray) -> np.ndarray:
    """Return how far lesions are below WM, in units of the patient's own gap of WM and GM."""
    white, grey, lesion = medians.T
    return (white - lesion) / (white - grey)


def command(*words: object) -> None:
    """Run a command as a user would."""
    subprocess.run(
        [sys.executable, "-m", "ndflow", *map(str, words)], check=True, stdout=subprocess.DEVNULL
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(compared(Path(sys.argv[1]).resolve(), Path(place)))
