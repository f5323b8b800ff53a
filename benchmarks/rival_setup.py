"""Preparation of the comparison with other packages: the scans, and the packages themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import nibabel
import numpy as np

from ndflow.demo.run import write_demo_study

REQUIREMENTS = Path(__file__).with_name("rivals.txt")


def inputs(folder: Path, resolution: float, heads: bool) -> tuple[list[Path], list[Path]]:
    """Return the scans and, for whole heads, the masks; write those that do not exist yet."""
    study = folder / f"{resolution:g}mm"
    if not (study / "scans.tsv").exists():
        write_demo_study(study, resolution=resolution, subjects=2)
    scans = sorted((study / "scans").glob("*_T1w.nii.gz"))
    masks = sorted((study / "scans").glob("*_mask.nii.gz"))
    if not heads:
        return scans, []
    (study / "heads").mkdir(exist_ok=True)
    whole = [study / "heads" / scan.name for scan in scans]
    for number, (scan, mask, head) in enumerate(zip(scans, masks, whole, strict=True)):
        if not head.exists():
            save_head(scan, mask, head, np.random.default_rng(number))
    return whole, masks


def save_head(scan: Path, mask: Path, head: Path, generator: np.random.Generator) -> None:
    """Surround a brain with soft tissue, half as bright, and that with noisy air."""
    image = nibabel.load(scan)
    voxels, brain = np.asarray(image.dataobj), np.asarray(nibabel.load(mask).dataobj) > 0
    grid = np.meshgrid(*(np.linspace(-1, 1, n) for n in brain.shape), indexing="ij", sparse=True)
    inside = grid[0] ** 2 + grid[1] ** 2 + grid[2] ** 2 < 0.95
    bright = np.median(voxels[brain])
    noise = 0.02 * bright * generator.standard_normal((2, *brain.shape), np.float32)
    around = np.hypot(noise[0] + 0.5 * bright * inside, noise[1])
    whole = np.where(brain, voxels, np.rint(around)).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(whole, image.affine, image.header), head)


def install(venv: Path) -> dict[str, str]:
    """Create the environment if needed; return what could not be installed, and why."""
    python, failures = venv / "bin" / "python", {}
    if not python.exists():
        make = [sys.executable, "-m", "venv", venv]
        subprocess.run(make, check=True, capture_output=True, text=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    words = [*pip, "list", "--format=json"]
    have = subprocess.run(words, check=True, capture_output=True, text=True)
    versions = {p["name"].lower(): p["version"].split("+")[0] for p in json.loads(have.stdout)}
    for line in REQUIREMENTS.read_text().splitlines():
        name, _, pinned = line.partition("==")
        if pinned and versions.get(name.lower()) != pinned:
            print(f"installing {line}", file=sys.stderr)
            done = subprocess.run([*pip, "install", "-q", line], capture_output=True, text=True)
            if done.returncode:
                failures[name.lower()] = last_line(done.stderr)
    return failures


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1].strip()
