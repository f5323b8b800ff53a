"""The scans of the tutorial: raw, as they come from three simulated scanners.

They are made like those of the demonstration (`ndflow.demo.dataset`), but shaded by a strong bias
field, without masks or tissue probability maps, and without a lesion. Only the skulls are gone,
as in data that were shared without faces. One more scan of each site comes later. The scans of a
site are in a folder of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndflow.demo.demo_scan import AGES, SCANNERS, check_empty, draw_scan, make_folder, write_image
from ndflow.demo.scan_grid import grid_over
from ndflow.demo.simulate import REACH
from ndflow.files.tables import write_table
from ndflow.preparation.template import load_anatomy

__all__ = ["RawScans", "write_raw_scans"]

_COLUMNS = ("subject", "site", "image", "age", "sex")
_BIAS = 0.12  # the standard deviation of its logarithm
_SEED = 2018
_RESOLUTION, _SUBJECTS = 2.0, 6  # mm; per site


class RawScans(NamedTuple):
    """The files of the dataset.

    Attributes
    ----------
    table : the table of the study.
    later : the table of the scans that come later, one of each site.
    scans, later_scans : how many they list.
    """

    table: Path
    later: Path
    scans: int
    later_scans: int


def write_raw_scans(
    folder: Path, *, resolution: float | None = None, subjects: int | None = None
) -> RawScans:
    """Write raw scans of three sites, and two tables: the study, and scans that come later.

    Parameters
    ----------
    folder : where ``study.tsv``, ``later.tsv`` and a folder for each site are written; created if
        needed.
    resolution : the distance between voxels, in mm; 2 by default.
    subjects : of the study, per site; 6 by default.

    Returns
    -------
    RawScans
        The paths of both tables.

    Raises
    ------
    FileError
        Where the folder is not empty, or cannot be created.
    InvalidValueError
        Where nilearn is not installed.
    """
    resolution, subjects = resolution or _RESOLUTION, subjects or _SUBJECTS
    anatomy = load_anatomy()
    check_empty(folder)
    for scanner in SCANNERS:
        make_folder(folder / scanner.site)
    grid = grid_over(anatomy, resolution, REACH)
    rows: list[list[tuple[str, ...]]] = [[], []]
    for number, scanner in enumerate(SCANNERS):
        for k in range(subjects + 1):
            generator = np.random.default_rng([_SEED, number, k])
            later = k == subjects
            rank = generator.random() if later else (k + generator.random()) / subjects
            age = int(np.interp(rank, (0, 1), AGES))
            scan = draw_scan(scanner._replace(bias=_BIAS), anatomy, grid, generator, age=age)
            name = f"{scanner.site}-{k + 1:02d}"
            file = f"{scanner.site}/{name}_T1w.nii.gz"
            voxels = np.rint(scan.image).astype(np.int16)
            write_image(folder / file, grid, scan.subject.voxels, voxels)
            rows[later].append((name, scanner.site, file, str(age), "FM"[k % 2]))
    paths = (folder / "study.tsv", folder / "later.tsv")
    for table, listed in zip(paths, rows, strict=True):
        write_table(table, _COLUMNS, listed)
    return RawScans(*paths, *map(len, rows))
