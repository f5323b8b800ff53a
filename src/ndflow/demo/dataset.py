"""The dataset of the demonstration: three sites, real anatomy, and known true intensities.

The scanner of each site has a contrast curve of its own, so it is known for every scan how the
canonical intensities, common to all scanners, became those of the scan. See `ndflow.demo.recovery`
for how well maps undo that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.demo.demo_scan import AGES, SCANNERS, Scanner, draw_scan, make_folder, write_image
from ndflow.demo.scan_grid import Grid, grid_over
from ndflow.demo.simulate import REACH
from ndflow.errors import InvalidValueError
from ndflow.files.atomic import check_new
from ndflow.files.tables import write_table
from ndflow.preparation.template import Anatomy, load_anatomy
from ndflow.transport import PiecewiseLinear
from ndflow.values import FloatArray, real, whole

__all__ = ["DemoStudy", "Truth", "write_demo_study"]

_COLUMNS = ("subject", "site", "image", "mask", "gm", "wm", "csf", "age", "has_lesion")
_FINEST, _COARSEST = 0.5, 8.0  # mm
_LEVELS = np.linspace(0.01, 0.99, 99)
_LESION_SITE = 1  # the index of the site where one subject has a lesion


class Truth(NamedTuple):
    """The known truth about a scan.

    Attributes
    ----------
    site : where it was acquired.
    curve : from canonical intensities to those of the scan, without noise and bias field.
    canonical : (99,), the percentiles of its canonical intensities, from the 1st to the 99th.
    lesion_voxels : the number of voxels in a lesion; 0 in a healthy subject.
    """

    site: str
    curve: PiecewiseLinear
    canonical: FloatArray
    lesion_voxels: int


class DemoStudy(NamedTuple):
    """The files of the dataset.

    Attributes
    ----------
    table : the table of its scans.
    truths : the truth about each scan, by the name that the scan has in a study.
    """

    table: Path
    truths: dict[str, Truth]


def write_demo_study(
    folder: Path,
    *,
    resolution: float = 2.0,
    seed: int = 0,
    subjects: int = 6,
    force: bool = False,
) -> DemoStudy:
    """Write the scans of three sites with masks and tissue probability maps, and their table.

    Parameters
    ----------
    folder : where ``scans.tsv`` and the folder ``scans`` are written; created if needed.
    resolution : the distance between voxels, in mm.
    seed : the same seed gives the same bytes, and the same subjects at any resolution.
    subjects : per site.
    force : whether existing files may be replaced.

    Returns
    -------
    DemoStudy
        The path of the table, and the truth about each scan.

    Raises
    ------
    FileError
        Where a file exists already, or the folder cannot be created.
    InvalidValueError
        Where a parameter is out of range, or nilearn is not installed.
    """
    if not _FINEST <= real(resolution, "resolution") <= _COARSEST:
        raise InvalidValueError(
            f"resolution must lie between {_FINEST:g} and {_COARSEST:g} mm, not {resolution:g}"
        )
    whole(seed, "seed", 0, 1 << 63)
    whole(subjects, "subjects", 1, 99)
    anatomy = load_anatomy()
    table = folder / "scans.tsv"
    make_folder(folder / "scans")
    check_new(table, force=force)
    grid = grid_over(anatomy, resolution, REACH)
    truths: dict[str, Truth] = {}
    rows = []
    for number, scanner in enumerate(SCANNERS):
        for k in range(subjects):
            name = f"{scanner.site}-{k + 1:02d}"
            generator = np.random.default_rng([seed, number, k])
            age = int(np.interp((k + generator.random()) / subjects, (0, 1), AGES))
            lesion = number == _LESION_SITE and k == subjects // 2
            files = {
                kind: f"scans/{name}_{kind}.nii.gz" for kind in ("T1w", "mask", "gm", "wm", "csf")
            }
            paths = {kind: folder / file for kind, file in files.items()}
            truths[f"{name}_T1w"] = _write_scan(
                paths, scanner, anatomy, grid, age, lesion, generator, force
            )
            rows.append((name, scanner.site, *files.values(), str(age), "yes" if lesion else "no"))
    write_table(table, _COLUMNS, rows)
    return DemoStudy(table, truths)


def _write_scan(
    paths: Mapping[str, Path],
    scanner: Scanner,
    anatomy: Anatomy,
    grid: Grid,
    age: int,
    lesion: bool,
    generator: np.random.Generator,
    force: bool,
) -> Truth:
    """Simulate a subject and a scan, write the scan, its mask and its tissues; return the truth."""
    subject, curve, image = draw_scan(scanner, anatomy, grid, generator, age=age, lesion=lesion)
    csf, gm, wm = np.rint(255 * subject.tissues.T).astype(np.uint8)
    contents: dict[str, tuple[NDArray[Any], float]] = {
        "T1w": (np.rint(image).astype(np.int16), 1.0),
        "mask": (np.ones(len(image), np.uint8), 1.0),
        "gm": (gm, 1 / 255),
        "wm": (wm, 1 / 255),
        "csf": (csf, 1 / 255),
    }
    for kind, (values, slope) in contents.items():
        write_image(paths[kind], grid, subject.voxels, values, slope=slope, force=force)
    canonical = np.asarray(np.quantile(subject.canonical.astype(np.float64), _LEVELS), np.float64)
    return Truth(scanner.site, curve, canonical, int(np.count_nonzero(subject.lesion)))
