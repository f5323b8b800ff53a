"""Simulated subjects and scanners, from one template brain.

A *subject* is the template under a deformation of its own, x ↦ x + u(x). The displacement u is
noise on a coarse lattice, smoothed, scaled to a few millimetres and interpolated trilinearly. It is
kept a contraction, ``max_i Σ_j |∂_j u_i| < 1``, so x + u(x) is one-to-one and its Jacobian
determinant is positive. (Between lattice points a derivative is an average of differences along
edges, so a bound on these holds everywhere.)

The template is an average of many brains, so its tissues blend into each other. Where it has the
probabilities p of CSF, GM and WM, those of a subject are

    p'_k ∝ p_k³ exp(s_k),    s = (atrophy, 0, 0),

which is sharper, and has more CSF around and within the brain the larger the atrophy. Its
*canonical* intensity, the same for every scanner, is ``c = Σ_k p'_k m_k + ρ (T − Σ_k p_k m_k)``:
the means of the tissues, plus some of the texture of the template T. A lesion lowers it within WM.

A *scanner* measures ``√((b f(c) + n₁)² + n₂²)``: its strictly increasing contrast curve f, times a
smooth bias field b, with Rician noise, the magnitude of complex Gaussian noise.

The scanners of the demonstration are in `SCANNERS`; `draw_scan` simulates one scan.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.interpolate import PchipInterpolator

from ndflow.errors import FileError
from ndflow.image.volume import Volume
from ndflow.image.write import new_nifti, write_volume
from ndflow.preparation.registration import Anatomy, Map
from ndflow.transport import PiecewiseLinear
from ndflow.values import FloatArray

# ── the grid of a scan ────────────────────────────────────────────────────────────────────────────

Voxels = NDArray[np.intp]


class Grid(NamedTuple):
    """The grid of a scan; its first voxel is that of the template.

    Attributes
    ----------
    resolution : the distance between voxels, in mm.
    shape : the number of voxels along each axis.
    affine : (4, 4), from voxel indices to millimetres.
    voxels : (n, 3), the indices of the voxels that may lie inside a brain.
    """

    resolution: float
    shape: tuple[int, ...]
    affine: FloatArray
    voxels: Voxels


def grid_over(anatomy: Anatomy, resolution: float) -> Grid:
    """Return the grid of a scan that covers the template.

    Parameters
    ----------
    anatomy : the template.
    resolution : the distance between voxels, in mm.
    """
    distance = ndimage.distance_transform_edt(anatomy.brain[::2, ::2, ::2] == 0, sampling=2.0)
    shape = tuple(int(np.ceil(length / resolution)) for length in anatomy.brain.shape)
    nearest = [
        np.minimum(np.rint(np.arange(n) * resolution / 2).astype(int), most - 1)
        for n, most in zip(shape, distance.shape, strict=True)
    ]
    # Distances are computed at every other voxel only, which adds an error of less than 4 mm.
    voxels = np.argwhere(distance[np.ix_(*nearest)] <= REACH + 4)
    affine = anatomy.affine @ np.diag([resolution, resolution, resolution, 1])
    return Grid(resolution, shape, affine, voxels)


# ── subjects, and what a scanner shows of them ────────────────────────────────────────────────────

MEANS = (0.27, 0.65, 0.87)  # of CSF, GM and WM, in the units of the template
REACH = 9.0  # mm, the largest displacement

_LATTICE = 8.0  # mm between the points of a field
_SMOOTH, _SMOOTH_BIAS = 20.0, 45.0  # mm, the standard deviations of the kernels
_DISPLACEMENT = 3.0  # mm, the root mean square of each coordinate
_STEEPEST = 0.8  # derivative of the displacement; below 1 the deformation is one-to-one
_SHARPNESS, _TEXTURE = 3, 0.7  # the exponent of p, and ρ
_BRIGHTEST = 1.1  # canonical intensity
_LESION = (-26.0, -18.0, 26.0)  # mm, in the template: the WM above the left ventricle
_LESION_RADIUS, _LESION_INTENSITY = 21.0, 0.45  # mm, and canonical intensity


class Fields(NamedTuple):
    """Smooth random fields of a scan, on a lattice that covers the template.

    Attributes
    ----------
    displacement : (3, ...), in mm.
    bias : (...), the logarithm of the bias field, scaled to zero mean and unit standard deviation.
    """

    displacement: FloatArray
    bias: FloatArray


class SimulatedSubject(NamedTuple):
    """A subject on the grid of a scan.

    Attributes
    ----------
    voxels : (n, 3), the indices of the voxels inside the brain.
    canonical : (n,), their canonical intensities.
    tissues : (n, 3), the probabilities of CSF, GM and WM.
    lesion : (n,), whether a voxel belongs to a lesion.
    bias : (n,), as in `Fields`.
    """

    voxels: Voxels
    canonical: Map
    tissues: Map
    lesion: NDArray[np.bool_]
    bias: Map


def draw_fields(shape: tuple[int, ...], generator: np.random.Generator) -> Fields:
    """Draw the smooth random fields of a scan.

    Parameters
    ----------
    shape : of the template, in mm.
    generator : of random numbers.

    Returns
    -------
    Fields
        The displacement, nowhere larger than `REACH`, and the bias field.
    """
    lattice = tuple(int(np.ceil(length / _LATTICE)) + 1 for length in shape)
    parts = [_smooth_noise(lattice, _SMOOTH, generator) for _ in range(3)]
    displacement = _DISPLACEMENT * np.array(parts)
    steepest = max(
        sum(float(np.abs(np.diff(part, axis=axis)).max()) for axis in range(3)) / _LATTICE
        for part in displacement
    )
    furthest = float(np.sqrt((displacement**2).sum(axis=0)).max())
    displacement *= min(1.0, _STEEPEST / steepest, REACH / furthest)
    return Fields(displacement, _smooth_noise(lattice, _SMOOTH_BIAS, generator))


def make_subject(
    anatomy: Anatomy, fields: Fields, grid: Grid, *, atrophy: float, lesion: bool
) -> SimulatedSubject:
    """Simulate a subject.

    Parameters
    ----------
    anatomy : the template.
    fields : the smooth fields of this subject.
    grid : of the scan.
    atrophy : the shift of the log-odds of CSF; 0 for none.
    lesion : whether the subject has a lesion.

    Returns
    -------
    SimulatedSubject
        The voxels of the grid that lie inside the brain.
    """
    place = grid.voxels.T * grid.resolution
    template = place + np.array([_at(part, place / _LATTICE) for part in fields.displacement])
    brain = _at(anatomy.brain, template)
    inside = brain > 0.5
    place, template = place[:, inside], template[:, inside]
    gm, wm = _at(anatomy.gm, template), _at(anatomy.wm, template)
    # The template is 0 outside the brain: correct for the share of that in the interpolation.
    t1 = _at(anatomy.t1, template) / brain[inside]
    blurred = np.array([np.clip(1 - gm - wm, 0, 1), gm, wm])
    sharp = blurred**_SHARPNESS * np.exp(np.array([[atrophy], [0.0], [0.0]]))
    tissues = (sharp / sharp.sum(axis=0)).astype(np.float32)
    means = np.array(MEANS, np.float32)[:, np.newaxis]
    canonical = (means * tissues).sum(axis=0) + _TEXTURE * (t1 - (means * blurred).sum(axis=0))
    damage = np.zeros_like(canonical)
    if lesion:
        middle = np.linalg.solve(anatomy.affine, [*_LESION, 1])[:3, np.newaxis]
        distance = np.sqrt(((template - middle) ** 2).sum(axis=0))
        damage = tissues[2] * np.clip(_LESION_RADIUS - distance, 0, 1)
        canonical = canonical + damage * (_LESION_INTENSITY - canonical)
    canonical = np.clip(canonical, 0, _BRIGHTEST).astype(np.float32)
    bias = _at(fields.bias, place / _LATTICE)
    return SimulatedSubject(grid.voxels[inside], canonical, tissues.T, damage > 0.5, bias)


def simulate_scan(
    subject: SimulatedSubject,
    curve: PiecewiseLinear,
    generator: np.random.Generator,
    *,
    bias: float,
    noise: float,
) -> Map:
    """Simulate a scan of a subject.

    Parameters
    ----------
    subject : who is scanned.
    curve : from canonical intensities to those of the scanner.
    generator : of the noise.
    bias : the standard deviation of the logarithm of the bias field.
    noise : the standard deviation of the real and the imaginary part of the noise, relative to the
        intensity of WM.

    Returns
    -------
    array of shape (n,)
        The intensities of the voxels of the subject.
    """
    clean = np.interp(subject.canonical, curve.knots, curve.values) * np.exp(bias * subject.bias)
    size = noise * float(curve(MEANS[2]))
    real, imaginary = size * generator.standard_normal((2, clean.size), dtype=np.float32)
    shown: Map = np.hypot(clean + real, imaginary).astype(np.float32)
    return shown


def _smooth_noise(
    lattice: tuple[int, ...], sd: float, generator: np.random.Generator
) -> FloatArray:
    """Return smooth noise with zero mean and unit standard deviation.

    It is drawn on a larger lattice and cropped, so that smoothing has no effects at the border.
    """
    kernel = sd / _LATTICE
    margin = int(np.ceil(3 * kernel))
    noise = generator.standard_normal([n + 2 * margin for n in lattice])
    smooth = ndimage.gaussian_filter(noise, kernel, truncate=3.0)
    inner = smooth[tuple(slice(margin, margin + n) for n in lattice)]
    standard: FloatArray = (inner - inner.mean()) / inner.std()
    return standard


def _at(array: NDArray[np.floating], places: NDArray[np.floating]) -> Map:
    """Interpolate an array linearly at some places; it is 0 outside."""
    return ndimage.map_coordinates(array, places, np.float32, order=1)


# ── the scanners of the demonstration ─────────────────────────────────────────────────────────────

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
    Scanner("Brindle", (0.03, 0.32, 0.73, 0.90, 1.03), gain=400, bias=0.03, noise=0.018),
    Scanner("Corley", (0.00, 0.24, 0.55, 0.90, 1.22), gain=1500, bias=0.025, noise=0.015),
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


def new_folder(folder: Path) -> None:
    """Create a folder, and those above it, where they do not exist.

    Raises
    ------
    FileError
        Where it cannot be created, or holds anything.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FileError(folder, "not empty", "choose another folder, or remove this one")
    except OSError as error:
        cause = f"the folder cannot be created ({error.strerror})"
        raise FileError(folder, cause, "choose another folder") from None


def write_image(
    path: Path, grid: Grid, voxels: Voxels, values: NDArray[Any], *, slope: float = 1.0
) -> None:
    """Write values at some voxels of a grid as NIfTI; all others are 0.

    Parameters
    ----------
    path : of the file.
    grid : of the image.
    voxels : (n, 3), the indices of the voxels.
    values : (n,), the numbers to store; intensities are these times the slope.
    slope : see above.

    Raises
    ------
    FileError
        Where the file exists already.
    """
    volume = np.zeros(grid.shape, values.dtype, order="F")
    volume[tuple(voxels.T)] = values
    header = new_nifti(grid.shape, grid.affine, "mni")
    like = Volume(str(path), (), volume, slope, 0.0, header, grid.affine.copy())
    write_volume(path, like, [volume], dtype=volume.dtype.name, scaling=(slope, 0.0))
