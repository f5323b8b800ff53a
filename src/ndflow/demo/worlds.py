"""Simulated worlds: random studies of several sites in memory, whose true intensities are known.

A world is what a study might meet: a few sites of different sizes, each with a scanner, a way of
making masks, and people of its own. All that the demonstration fixes is drawn at random here:

- contrast curves, which increase, with increments between the tissues that vary by a factor;
- noise, bias field, and how sharp the images are;
- masks that lack some of the rim of the brain, or hold some of what lies around it;
- age, which brings more CSF and GM that is a little brighter, and may differ between sites;
- lesions of a few people.

Subjects and scanners are those of `ndflow.demo.simulate`, on a grid of 4 mm, so that a world of
sixty scans takes a few seconds. How well maps undo the contrast curves is measured by
`ndflow.demo.recovery`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.interpolate import PchipInterpolator

from ndflow.demo.scan_grid import Grid, grid_over
from ndflow.demo.simulate import (
    MEANS,
    REACH,
    SimulatedSubject,
    draw_fields,
    make_subject,
    simulate_scan,
)
from ndflow.preparation.template import Anatomy
from ndflow.preparation.working_grid import Map
from ndflow.transport import PiecewiseLinear

__all__ = ["RESOLUTION", "World", "WorldScan", "WorldSite", "draw_world", "world_grid"]

RESOLUTION = 4.0  # mm

_SITES, _SIZES = (2, 5), (4, 40)
_CONTRAST = (0.15, 0.5)  # sd of the logarithms of increments of a contrast curve
_OWN_CONTRAST = 0.03  # the same between scans of one scanner
_NOISE, _BIAS = (0.008, 0.025), (0.01, 0.04)  # see `simulate_scan`
_BLUR = (0.0, 1.6)  # mm, the sd of the kernel
_RIM, _OWN_RIM, _WIDEST = 0.08, 0.03, 0.4  # of the voxels next to the border; between sites, scans
_GAIN_SD = 0.08  # of its logarithm, between scans of one scanner
_AGES, _AGE, _AGE_SD = (18.0, 90.0), 50.0, 15.0
_ATROPHY, _ATROPHY_PER_YEAR, _ATROPHY_SD = 1.4, 0.025, 0.35  # as in the demonstration
_BRIGHTER_PER_YEAR = 6e-4  # GM, in canonical units: 8 % of its contrast with WM in thirty years
_LESIONS = 0.1  # of the people
_BONE = 0.15  # canonical intensity of the brightest bone
_NODES = np.array([0.0, *MEANS, 1.1])


class WorldSite(NamedTuple):
    """A site, its scanner and its habits.

    Attributes
    ----------
    name : of the site.
    increments : of the contrast curve between `_NODES`, before the gain.
    gain, noise, bias : see `simulate_scan`; the gain multiplies the curve.
    blur : the sd of the kernel that blurs its images, in mm.
    rim : the share of the voxels around the brain that its masks hold; if negative, the share of
        those at the rim of the brain that they lack.
    age : the mean of its people.
    size : how many scans it has.
    """

    name: str
    increments: tuple[float, ...]
    gain: float
    noise: float
    bias: float
    blur: float
    rim: float
    age: float
    size: int


class WorldScan(NamedTuple):
    """A scan, as a study sees it, and the truth about it.

    Attributes
    ----------
    name, site : what it is called.
    age : of the person, in years.
    values : (n,), the intensities of the voxels inside the mask.
    canonical : (n,), what they truly are; NaN outside the brain.
    tissues : (n, 3), the probabilities of CSF, GM and WM; 0 outside the brain.
    lesion : (n,), whether a voxel belongs to a lesion.
    curve : from canonical intensities to those of the scan, without noise and bias field.
    """

    name: str
    site: str
    age: float
    values: Map
    canonical: Map
    tissues: Map
    lesion: NDArray[np.bool_]
    curve: PiecewiseLinear


class World(NamedTuple):
    """A random study.

    Attributes
    ----------
    seed : the same seed gives the same world.
    sites : where scans come from.
    confounding : the sd of the mean ages of sites, in sd of age within one.
    scans : of all sites.
    """

    seed: int
    sites: tuple[WorldSite, ...]
    confounding: float
    scans: tuple[WorldScan, ...]


def world_grid(anatomy: Anatomy) -> Grid:
    """Return the grid of all scans."""
    return grid_over(anatomy, RESOLUTION, REACH)


def draw_world(seed: int, anatomy: Anatomy, grid: Grid) -> World:
    """Draw a random study.

    Parameters
    ----------
    seed : of the random numbers.
    anatomy : the template.
    grid : of the scans, see `world_grid`.
    """
    generator = np.random.default_rng([seed, 17])
    contrast = generator.uniform(*_CONTRAST)
    confounding = float(generator.uniform(0, 1))
    sites = tuple(
        _draw_site(chr(ord("A") + place), contrast, confounding, generator)
        for place in range(int(generator.integers(_SITES[0], _SITES[1], endpoint=True)))
    )
    scans = tuple(
        scan
        for place, site in enumerate(sites)
        for scan in _scans(site, anatomy, grid, np.random.default_rng([seed, 17, place]))
    )
    return World(seed, sites, confounding, scans)


def _draw_site(
    name: str, contrast: float, confounding: float, generator: np.random.Generator
) -> WorldSite:
    low, high = np.log(_SIZES)
    return WorldSite(
        name,
        tuple(np.diff(_NODES) * np.exp(contrast * generator.standard_normal(_NODES.size - 1))),
        float(np.exp(generator.uniform(*np.log([300, 2000])))),
        float(generator.uniform(*_NOISE)),
        float(generator.uniform(*_BIAS)),
        float(generator.uniform(*_BLUR)),
        float(_RIM * generator.standard_normal()),
        float(_AGE + confounding * _AGE_SD * generator.standard_normal()),
        round(float(np.exp(generator.uniform(low, high)))),
    )


def _scans(
    site: WorldSite, anatomy: Anatomy, grid: Grid, generator: np.random.Generator
) -> Iterator[WorldScan]:
    for number in range(site.size):
        age = float(np.clip(site.age + _AGE_SD * generator.standard_normal(), *_AGES))
        own, gain = generator.standard_normal(2)
        atrophy = _ATROPHY + _ATROPHY_PER_YEAR * (age - _AGE) + _ATROPHY_SD * own
        fields = draw_fields(anatomy.brain.shape, generator)
        lesion = bool(generator.random() < _LESIONS)
        subject = make_subject(anatomy, fields, grid, atrophy=atrophy, lesion=lesion)
        healthy = subject.tissues[:, 1] * ~subject.lesion
        older = subject.canonical + np.float32(_BRIGHTER_PER_YEAR * (age - _AGE)) * healthy
        subject = _blurred(subject._replace(canonical=older), grid, site.blur)
        steps = np.exp(_OWN_CONTRAST * generator.standard_normal(len(site.increments)))
        levels = site.gain * np.exp(_GAIN_SD * gain) * np.cumsum([0, *site.increments * steps])
        knots = np.linspace(_NODES[0], _NODES[-1], 111)
        curve = PiecewiseLinear(knots, PchipInterpolator(_NODES, levels)(knots))
        rim = float(np.clip(site.rim + _OWN_RIM * generator.standard_normal(), -_WIDEST, _WIDEST))
        seen = _masked(subject, grid, rim, generator)
        values = simulate_scan(seen, curve, generator, bias=site.bias, noise=site.noise)
        brain = seen.tissues.sum(axis=1) > 0
        yield WorldScan(
            f"{site.name}{number + 1:02d}",
            site.name,
            age,
            values,
            np.where(brain, seen.canonical, np.float32(np.nan)),
            seen.tissues,
            seen.lesion,
            curve,
        )


def _blurred(subject: SimulatedSubject, grid: Grid, sd: float) -> SimulatedSubject:
    """Return a subject whose canonical intensities and tissues are blurred inside the brain."""
    if sd == 0:
        return subject
    place = tuple(subject.voxels.T)

    def blur(values: Map) -> Map:
        volume = np.zeros(grid.shape, np.float32)
        volume[place] = values
        smooth: Map = ndimage.gaussian_filter(volume, sd / grid.resolution, truncate=2.0)[place]
        return smooth

    inside = blur(np.ones(len(subject.voxels), np.float32))
    canonical = blur(subject.canonical) / inside
    tissues = np.stack([blur(part) / inside for part in subject.tissues.T], axis=1)
    return subject._replace(canonical=canonical, tissues=tissues)


def _masked(
    subject: SimulatedSubject, grid: Grid, rim: float, generator: np.random.Generator
) -> SimulatedSubject:
    """Return the voxels inside a mask that lacks some of the rim, or holds some bone around it."""
    brain = np.zeros(grid.shape, bool)
    brain[tuple(subject.voxels.T)] = True
    if rim < 0:
        inner = ndimage.binary_erosion(brain)[tuple(subject.voxels.T)]
        kept = inner | (generator.random(inner.size) >= -rim)
        return SimulatedSubject(*(part[kept] for part in subject))
    around = np.argwhere(ndimage.binary_dilation(brain) & ~brain)
    around = around[generator.random(len(around)) < rim]
    bone = _BONE * generator.random(len(around), dtype=np.float32)
    return SimulatedSubject(
        np.concatenate([subject.voxels, around]),
        np.concatenate([subject.canonical, bone]),
        np.concatenate([subject.tissues, np.zeros((len(around), 3), np.float32)]),
        np.concatenate([subject.lesion, np.zeros(len(around), bool)]),
        np.concatenate([subject.bias, np.zeros(len(around), np.float32)]),
    )
