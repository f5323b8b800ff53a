"""Subjects and scanners that do not exist, made from one brain that does.

A *subject* is the template seen through a deformation of its own, x ↦ x + u(x): u is noise on a
coarse lattice, smoothed, scaled to a few millimetres and joined by trilinear interpolation. It is
kept a contraction, ``max_i Σ_j |∂_j u_i| < 1``, so that x + u(x) is one to one and its Jacobian is
positive. (Between lattice points a derivative is a mean of differences along edges, so bounding
those bounds it everywhere.)

The template is an average of many brains, so its tissues blend into each other; with probabilities
p of CSF, grey and white matter there, those of a subject are

    p'_k ∝ p_k³ exp(s_k),    s = (atrophy, 0, 0),

sharper, and with more fluid around and within the brain the greater its atrophy. Its *canonical*
intensity, the same for every scanner, is ``c = Σ_k p'_k m_k + ρ (T − Σ_k p_k m_k)``: the means of
the tissues, and some of the texture of the template T. A lesion lowers it within white matter.

A *scanner* shows ``√((b f(c) + n₁)² + n₂²)``: its contrast curve f, strictly increasing, times a
smooth bias field b, with complex Gaussian noise of which the magnitude is taken (Rician).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ndflow.transport import PiecewiseLinear
from ndflow.values import FloatArray
from ndflow.demo.template import Anatomy, Grid, Map, Voxels

__all__ = ["MEANS", "REACH", "SimulatedSubject", "Fields", "draw_fields", "make_subject", "simulate_scan"]

MEANS = (0.27, 0.65, 0.87)  # of CSF, grey and white matter, in the template's units
REACH = 9.0  # in mm; no point is displaced further

_LATTICE = 8.0  # mm between points of a field
_SMOOTH, _SMOOTH_BIAS = 20.0, 45.0  # mm, the sd of the kernels
_DISPLACED = 3.0  # mm, the root mean square of each coordinate
_STEEPEST = 0.8  # of the displacement; below 1 it is one to one
_SHARPNESS, _TEXTURE = 3, 0.7
_BRIGHTEST = 1.1
_LESION = (-26.0, -18.0, 26.0)  # mm in the template: the white matter above the left ventricle
_LESION_RADIUS, _LESION_INTENSITY = 21.0, 0.45
_PIECE = 1 << 18  # points at a time


class Fields(NamedTuple):
    """What varies smoothly over a scan, on a lattice that covers the template.

    Attributes
    ----------
    displacement : (3, ...), in mm.
    bias : (...), with zero mean and unit spread; the logarithm of a bias field, but for its size.
    """

    displacement: FloatArray
    bias: FloatArray


class SimulatedSubject(NamedTuple):
    """A subject, as far as it lies in the grid of a scan.

    Attributes
    ----------
    voxels : (n, 3), those of the brain.
    canonical : (n,), intensities.
    tissues : (n, 3), the probabilities of CSF, grey and white matter.
    lesion : (n,), where there is one.
    bias : (n,), as in `Fields`.
    """

    voxels: Voxels
    canonical: Map
    tissues: Map
    lesion: NDArray[np.bool_]
    bias: Map


def draw_fields(shape: tuple[int, ...], generator: np.random.Generator) -> Fields:
    """Draw the smooth fields of a scan, for a template of this shape in mm."""
    lattice = tuple(int(np.ceil(length / _LATTICE)) + 1 for length in shape)
    parts = [_smooth_noise(lattice, _SMOOTH, generator) for _ in range(3)]
    displacement = _DISPLACED * np.array(parts)
    steepest = max(
        sum(float(np.abs(np.diff(part, axis=axis)).max()) for axis in range(3)) / _LATTICE
        for part in displacement
    )
    furthest = float(np.sqrt((displacement**2).sum(axis=0)).max())
    displacement *= min(1.0, _STEEPEST / steepest, REACH / furthest)
    return Fields(displacement, _smooth_noise(lattice, _SMOOTH_BIAS, generator))


def make_subject(anatomy: Anatomy, fields: Fields, grid: Grid, *, atrophy: float, lesion: bool) -> SimulatedSubject:
    """Return a subject.

    Parameters
    ----------
    anatomy : the template.
    fields : of this subject.
    grid : of the scan.
    atrophy : the shift of the log-odds of CSF against other tissue; 0 leaves them.
    lesion : whether it has one.
    """
    pieces = np.array_split(grid.voxels, -(-len(grid.voxels) // _PIECE))
    bodies = [_piece(anatomy, fields, part, grid.resolution, atrophy, lesion) for part in pieces]
    return SimulatedSubject(*(np.concatenate(parts) for parts in zip(*bodies, strict=True)))


def simulate_scan(
    body: SimulatedSubject,
    curve: PiecewiseLinear,
    generator: np.random.Generator,
    *,
    bias: float,
    noise: float,
) -> Map:
    """Return what a scanner shows of a subject, (n,).

    Parameters
    ----------
    body : the subject.
    curve : from canonical intensities to those of the scanner.
    generator : of the noise.
    bias : the spread of the logarithm of the bias field.
    noise : the sd of each of its two parts, relative to the intensity of white matter.
    """
    clean = np.interp(body.canonical, curve.knots, curve.values) * np.exp(bias * body.bias)
    size = noise * float(curve(MEANS[2]))
    real, imaginary = (
        size * generator.standard_normal(clean.size, dtype=np.float32) for _ in range(2)
    )
    shown: Map = np.hypot(clean + real, imaginary).astype(np.float32)
    return shown


def _smooth_noise(
    lattice: tuple[int, ...], sd: float, generator: np.random.Generator
) -> FloatArray:
    """Return noise of zero mean and unit spread; drawn wider, so that no border shows."""
    kernel = sd / _LATTICE
    margin = int(np.ceil(3 * kernel))
    noise = generator.standard_normal([n + 2 * margin for n in lattice])
    smooth = ndimage.gaussian_filter(noise, kernel, truncate=3.0)
    inner = smooth[tuple(slice(margin, margin + n) for n in lattice)]
    standard: FloatArray = (inner - inner.mean()) / inner.std()
    return standard


def _piece(
    anatomy: Anatomy,
    fields: Fields,
    voxels: Voxels,
    resolution: float,
    atrophy: float,
    lesion: bool,
) -> SimulatedSubject:
    place = voxels.T * resolution
    template = place + np.array([_at(part, place / _LATTICE) for part in fields.displacement])
    brain = _at(anatomy.brain, template)
    inside = brain > 0.5
    voxels, place, template = voxels[inside], place[:, inside], template[:, inside]
    gm, wm = _at(anatomy.gm, template), _at(anatomy.wm, template)
    # The image is cut off at the brain's surface: divide by how much of it was there.
    t1 = _at(anatomy.t1, template) / brain[inside]
    blurred = np.array([np.clip(1 - gm - wm, 0, 1), gm, wm])
    sharp = blurred**_SHARPNESS * np.exp(np.array([[atrophy], [0.0], [0.0]]))
    tissues = (sharp / sharp.sum(axis=0)).astype(np.float32)
    means = np.array(MEANS, np.float32)[:, np.newaxis]
    canonical = (means * tissues).sum(axis=0) + _TEXTURE * (t1 - (means * blurred).sum(axis=0))
    damage = np.zeros_like(canonical)
    if lesion:
        site = np.linalg.solve(anatomy.affine, [*_LESION, 1])[:3, np.newaxis]
        distance = np.sqrt(((template - site) ** 2).sum(axis=0))
        damage = tissues[2] * np.clip(_LESION_RADIUS - distance, 0, 1)
    canonical = canonical + damage * (_LESION_INTENSITY - canonical)
    canonical = np.clip(canonical, 0, _BRIGHTEST).astype(np.float32)
    bias = _at(fields.bias, place / _LATTICE)
    return SimulatedSubject(voxels, canonical, tissues.T, damage > 0.5, bias)


def _at(array: NDArray[np.floating], places: NDArray[np.floating]) -> Map:
    """Return an array between its points, linearly; zero outside."""
    return ndimage.map_coordinates(array, places, np.float32, order=1)
