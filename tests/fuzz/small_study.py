"""A study of two small scans with a given reference, so that no scan depends on another."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from phantoms import head, nifti
from studies import write_tsv

import ndflow

SHAPE = (10, 11, 9)
SCANS = 2


def scan(seed: int) -> bytes:
    return nifti(head(seed, shape=SHAPE, gain=1 + seed))


def mask(seed: int) -> bytes:
    return nifti((head(0, shape=SHAPE) > (0, 400, 650)[seed % 3]).astype(np.uint8))


@dataclass(frozen=True)
class SmallStudy:
    """The files of a study in a folder; its results go to ``out`` in the same folder."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def fill(self) -> "SmallStudy":
        """Write the scans, a mask of the first of them, the table and the reference."""
        for number in range(SCANS):
            (self.folder / f"s{number}.nii").write_bytes(scan(number))
        (self.folder / "m.nii").write_bytes(mask(0))
        rows = [{"image": f"s{n}.nii", "mask": "n/a" if n else "m.nii"} for n in range(SCANS)]
        write_tsv(self.folder / "scans.tsv", rows)
        standard = ndflow.GaussianMixture([0.5, 0.5], [-0.8, 0.8], [1 / 0.36, 1 / 0.36])
        ndflow.save(self.folder / "r.json", ndflow.Reference(standard, ("T1w",), 2))
        return self

    def words(self, *more: object) -> list[object]:
        """Return the command that runs it."""
        given = ("--reference", self.folder / "r.json", "-q", "--no-report")
        return ["cohort", self.folder / "scans.tsv", self.out, *given, *more]

    def images(self) -> dict[str, bytes]:
        """Return the images that were written, by name."""
        return {path.name: path.read_bytes() for path in (self.out / "images").glob("[!.]*")}
