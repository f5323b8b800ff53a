"""Scans of three sites, studies run on them in several ways, and the numbers of comparisons."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from phantoms import head, save, tissue_shares, voxels_of
from studies import SITES, SMALL, Silent

from ndflow.evaluation.comparison import Comparison, compare
from ndflow.evaluation.tables import tables
from ndflow.options import DType, Options
from ndflow.study.finished import read_finished
from ndflow.study.plan import Study
from ndflow.study.run import run_study
from ndflow.study.table import named, read_table

NAMES = [f"s{number:02}" for number in range(12)]
SITE = [site for site in SITES for _ in range(4)]
SUBJECT = [f"p{number // 2}" for number in range(10)] + ["p5", "p6"]  # two have one scan only
AGE = [20 + 7 * (number * 5 % 12) for number in range(12)]
TREES = 5
KEYS = ("condition", "against", "measure", "scan", "tissue", "quartile")

Array = NDArray[np.float64]
Rows = dict[str, dict[tuple[str, ...], dict[str, str | float | None]]]


class Desk:
    """Scans of three sites with tissue maps, and studies of them that are run once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table = folder, folder / "t.tsv"
        for tissue, weight in weights().items():
            save(folder / f"{tissue}.nii.gz", weight)
        lines = ["image\tsite\tsubject\tage\twm\tgm\tcsf"]
        for number, (name, site, age) in enumerate(zip(NAMES, SITE, AGE, strict=True)):
            csf, grey, gain = SITES[site]
            kinds = ((csf, 60.0), (grey + 10 * (number % 4) + 1.5 * age, 50.0), (1000.0, 40.0))
            data = head(number, shape=SMALL, tissues=kinds, gain=gain * (1 + 0.03 * number))
            save(folder / f"{name}.nii.gz", data)
            maps = "\t".join(f"{tissue}.nii.gz" for tissue in ("WM", "GM", "CSF"))
            lines.append(f"{name}.nii.gz\t{site}\t{SUBJECT[number]}\t{age}\t{maps}")
        self.table.write_text("\n".join(lines))
        self.run = cache(self._run)

    def _run(
        self,
        name: str,
        mode: Any = "individual",
        given: Path | None = None,
        dtype: DType = "float32",
        **how: Any,
    ) -> Path:
        out = self.folder / name
        scans = named(read_table(self.table).subjects)
        options = Options(mode=mode, dtype=dtype, visits="apart", **how)
        reference = None if given is None else str(given)
        study = Study(out, scans, options, given=reference)
        assert not run_study(study, Silent()).failures
        return out

    def voxels(self, image: Path, number: int) -> Array:
        """Return the voxels of an image where the scan it was made from is not 0."""
        inside = voxels_of(self.folder / f"{NAMES[number]}.nii.gz") != 0
        return voxels_of(image)[inside]


def weights() -> dict[str, NDArray[np.uint8]]:
    """Return integer weights of each voxel for each tissue, so that voxels can be repeated."""
    return {
        tissue.upper(): np.rint(20 * np.maximum(share, 0)).astype(np.uint8)
        for tissue, share in tissue_shares(SMALL).items()
    }


def compared(*runs: Path) -> Comparison:
    return compare(read_finished(runs), Silent(), permutations=2, trees=TREES)


def numbers(comparison: Comparison, *covariates: str) -> Rows:
    """Return the rows of all tables, by what identifies them."""
    return {
        name: {tuple(str(row[key]) for key in row if key in KEYS): row for row in rows}
        for name, rows in tables(replace(comparison, covariates=covariates)).items()
    }
