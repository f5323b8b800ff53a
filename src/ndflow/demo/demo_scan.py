"""One scan of the demonstration: who is scanned by which scanner, and the files of it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from nibabel.nifti1 import Nifti1Header
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from ndflow.demo.scan_grid import Grid, Voxels
from ndflow.demo.simulate import MEANS, SimulatedSubject, draw_fields, make_subject, simulate_scan
from ndflow.errors import FileError
from ndflow.files.atomic import new_file
from ndflow.files.stream import gzip_writer
from ndflow.preparation.template import Anatomy
from ndflow.preparation.working_grid import Map
from ndflow.transport import PiecewiseLinear

__all__ = [
    "AGES",
    "SCANNERS",
    "DemoScan",
    "Scanner",
    "check_empty",
    "draw_scan",
    "make_folder",
    "write_image",
]

AGES = (20.0, 80.0)
_ATROPHY, _ATROPHY_PER_YEAR, _ATROPHY_SD = 1.4, 0.025, 0.35  # at the age of 50; between subjects
_GAIN_SD = 0.08  # of the logarithm of the gain, between scans of one scanner
_NODES = np.array([0.0, *MEANS, 1.1])  # canonical intensities at which a contrast curve is given


class Scanner(NamedTuple):
    """The scanner of a site.

    Attributes
    ----------
    site : its name.
    contrast : the contrast curve at `_NODES`, before the gain.
    gain, bias, noise : see `simulate_scan`.
    """

    site: str
    contrast: tuple[float, ...]
    gain: float
    bias: float
    noise: float


SCANNERS = (
    Scanner("Ashford", (0.01, 0.28, 0.66, 0.87, 1.08), gain=800, bias=0.02, noise=0.012),
    Scanner("Brindle", (0.05, 0.38, 0.75, 0.90, 1.01), gain=400, bias=0.03, noise=0.018),
    Scanner("Corley", (0.02, 0.14, 0.47, 0.90, 1.35), gain=1500, bias=0.025, noise=0.015),
)


class DemoScan(NamedTuple):
    """A scan in memory.

    Attributes
    ----------
    subject : who was scanned, and which voxels of the grid are inside the brain.
    curve : from canonical intensities to those of the scan, without noise and bias field.
    image : (n,), the intensities of the voxels of the subject.
    """

    subject: SimulatedSubject
    curve: PiecewiseLinear
    image: Map


def draw_scan(
    scanner: Scanner,
    anatomy: Anatomy,
    grid: Grid,
    generator: np.random.Generator,
    *,
    age: float,
    lesion: bool = False,
) -> DemoScan:
    """Simulate a subject and a scan.

    Parameters
    ----------
    scanner : of the site.
    anatomy : the template.
    grid : of the scan.
    generator : of random numbers.
    age : of the subject, in years: the older, the more CSF.
    lesion : whether the subject has a lesion.

    Returns
    -------
    DemoScan
        The subject, the contrast curve of the scan, and its intensities.
    """
    own, gain = generator.standard_normal(2)
    atrophy = _ATROPHY + _ATROPHY_PER_YEAR * (age - 50) + _ATROPHY_SD * own
    fields = draw_fields(anatomy.brain.shape, generator)
    subject = make_subject(anatomy, fields, grid, atrophy=atrophy, lesion=lesion)
    knots = np.linspace(_NODES[0], _NODES[-1], 111)
    contrast = PchipInterpolator(_NODES, scanner.contrast)(knots)
    curve = PiecewiseLinear(knots, scanner.gain * np.exp(_GAIN_SD * gain) * contrast)
    image = simulate_scan(subject, curve, generator, bias=scanner.bias, noise=scanner.noise)
    return DemoScan(subject, curve, image)


def check_empty(folder: Path) -> None:
    """Refuse a folder that is not empty.

    Raises
    ------
    FileError
        Where it holds anything.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise FileError(folder, "not empty", "choose another folder, or remove this one")


def make_folder(folder: Path) -> None:
    """Create a folder, and those above it, where they do not exist.

    Raises
    ------
    FileError
        Where it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            folder, f"the folder cannot be created ({error.strerror})", "choose another folder"
        ) from None


def write_image(
    path: Path,
    grid: Grid,
    voxels: Voxels,
    values: NDArray[Any],
    *,
    slope: float = 1.0,
    force: bool = False,
) -> None:
    """Write values at some voxels of a grid as NIfTI; all others are 0.

    Parameters
    ----------
    path : of the file.
    grid : of the image.
    voxels : (n, 3), the indices of the voxels.
    values : (n,), the numbers to store; intensities are these times the slope.
    slope : see above.
    force : whether an existing file may be replaced.

    Raises
    ------
    FileError
        Where the file exists already.
    """
    volume = np.zeros(grid.shape, values.dtype, order="F")
    volume[tuple(voxels.T)] = values
    header: Any = Nifti1Header()  # type: ignore[no-untyped-call]
    header.set_data_shape(volume.shape)
    header.set_data_dtype(volume.dtype)
    header.set_sform(grid.affine, "mni")
    header.set_qform(grid.affine, "mni")
    header.set_xyzt_units("mm")
    header.set_slope_inter(slope, 0)
    head = io.BytesIO()
    header.write_to(head)
    with new_file(path, force=force) as file, gzip_writer(file) as packed:
        packed.write(head.getvalue())
        packed.write(volume.tobytes(order="F"))
