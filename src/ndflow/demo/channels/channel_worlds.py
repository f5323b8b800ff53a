"""Simulated worlds of several channels: T1w, FLAIR and T2w, whose true intensities are known.

Tissues that overlap in one channel are apart in another, as in the brain: GM and WM differ in T1w
and hardly in FLAIR, CSF is dark in T1w and FLAIR and bright in T2w, and lesions look like GM in T1w
but are the brightest of all in FLAIR. People are those of `ndflow.demo.simulate`; the *canonical*
intensities of a voxel, one for each channel, are the means of its tissues and lesion, plus texture.

There is a reference: some healthy people, whose scanner shows canonical intensities. Other scanners
show ``f_j(z_j)`` in channel j, with an increasing contrast curve f_j of their own and

    z = (I + W) c,    W_jj = −Σ_i W_ji,                                                  (1)

so that channel j has a share W_ji of the contrast of channel i, which may be negative. Kinds of
worlds differ in what scanners do:

- ``"curves"``: W = 0. Maps of each channel can undo all of it.
- ``"mixing"``: W is random, up to a largest share. Maps of each channel cannot undo it, as it
  changes how channels depend on each other.
- ``"people"``: scanners show canonical intensities, as that of the reference does. Only people
  differ, in their age and so in the amounts of tissues, and nothing is to be undone.

Each scan is by a scanner of its own. Half of the people have a lesion; nobody in the reference has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from ndflow.demo.scan_grid import Grid
from ndflow.demo.simulate import (
    MEANS,
    SimulatedSubject,
    draw_fields,
    make_subject,
    simulate_scan,
)
from ndflow.errors import InvalidValueError
from ndflow.preparation.template import Anatomy
from ndflow.transport import PiecewiseLinear
from ndflow.values import FloatArray, real, short

__all__ = [
    "CHANNELS",
    "KINDS",
    "MIXING",
    "ChannelScan",
    "ChannelWorld",
    "Scanner",
    "draw_channel_world",
]

CHANNELS = ("T1w", "FLAIR", "T2w")
KINDS = ("curves", "mixing", "people")
MIXING = 0.3  # the largest share of one channel in another

_TISSUE_MEANS = np.array([MEANS, (0.15, 0.62, 0.55), (0.95, 0.55, 0.42)])  # CSF, GM, WM
_LESION_MEANS = np.array([0.65, 0.95, 0.75])
_SHARED = np.array([1.0, -0.3, -0.5])  # of the texture of T1w
_TEXTURE = 0.03  # sd of each channel's own texture
_NODES = np.linspace(-0.4, 1.6, 6)  # intensities at which a contrast curve is given
_CONTRAST = (0.15, 0.5)  # sd of the logarithms of its increments
_GAIN, _NOISE, _BIAS = (300, 2000), (0.008, 0.025), (0.01, 0.04)  # see `simulate_scan`
_MOST_MIXING = 0.4  # with more, the matrix might not have an inverse
_AGES, _AGE = (20.0, 80.0), 50.0
_ATROPHY, _ATROPHY_PER_YEAR, _ATROPHY_SD = 1.4, 0.025, 0.35  # as in the demonstration
_SCANS, _REFERENCE = 4, 4  # scans to normalise, and people in the reference


class Scanner(NamedTuple):
    """What a scanner makes of canonical intensities.

    Attributes
    ----------
    mixing : (d, d), the matrix I + W of equation (1).
    curves : the contrast curve of each channel.
    noise, bias : see `simulate_scan`.
    """

    mixing: FloatArray
    curves: tuple[PiecewiseLinear, ...]
    noise: float
    bias: float

    def shown(self, canonical: FloatArray) -> FloatArray:
        """Return what it shows of canonical intensities, (n, d), without noise and bias field."""
        mixed = self.mixed(canonical)
        columns = zip(self.curves, mixed.T, strict=True)
        return np.stack([curve(column) for curve, column in columns], axis=1)

    def mixed(self, canonical: FloatArray) -> FloatArray:
        """Return z of equation (1)."""
        mixed: FloatArray = np.einsum("ji,ni->nj", self.mixing, canonical)
        return mixed


class ChannelScan(NamedTuple):
    """A scan of several channels, and the truth about it.

    Attributes
    ----------
    values, canonical : (n, d), its intensities, and what they truly are.
    tissues : (n, 3), the probabilities of CSF, GM and WM.
    lesion : (n,), whether a voxel belongs to a lesion.
    scanner : that made it.
    """

    values: FloatArray
    canonical: FloatArray
    tissues: FloatArray
    lesion: NDArray[np.bool_]
    scanner: Scanner


class ChannelWorld(NamedTuple):
    """A reference, and scans that are to look like it.

    Attributes
    ----------
    reference : scans of healthy people by one scanner, which shows canonical intensities.
    scans : each by a scanner of its own.
    """

    reference: tuple[ChannelScan, ...]
    scans: tuple[ChannelScan, ...]


def draw_channel_world(
    seed: int, kind: str, channels: int, anatomy: Anatomy, grid: Grid, *, mixing: float = MIXING
) -> ChannelWorld:
    """Draw a random world of several channels.

    Parameters
    ----------
    seed : the same seed gives the same people in worlds of all kinds, and the same curves.
    kind : one of `KINDS`.
    channels : how many of `CHANNELS`, two or three.
    anatomy : the template.
    grid : of the scans, see `ndflow.demo.worlds.world_grid`.
    mixing : the largest W_ji of equation (1), for the kind ``"mixing"``.

    Raises
    ------
    InvalidValueError : an unknown kind, or another number of channels, or mixing that is not
        between 0 and 0.4.
    """
    if kind not in KINDS:
        raise InvalidValueError(f"kind must be one of {', '.join(KINDS)}, not {short(kind)}")
    if channels not in (2, 3):
        raise InvalidValueError(f"channels must be 2 or 3, not {short(channels)}")
    if not 0 <= real(mixing, "mixing") <= _MOST_MIXING:
        raise InvalidValueError(f"mixing must be 0 to {_MOST_MIXING:g}, not {mixing:g}")
    strength = mixing if kind == "mixing" else 0.0
    contrast = float(np.random.default_rng([seed, 18]).uniform(*_CONTRAST))
    scans = []
    for number in range(_REFERENCE + _SCANS):
        generator = np.random.default_rng([seed, 18, number])
        other = number >= _REFERENCE
        alike = kind == "people" or not other
        scanner = _draw_scanner(contrast, channels, strength * other, alike, generator)
        lesion = other and number % 2 == 1
        scans.append(_scan(anatomy, grid, scanner, lesion, channels, generator))
    return ChannelWorld(tuple(scans[:_REFERENCE]), tuple(scans[_REFERENCE:]))


def _draw_scanner(
    contrast: float, channels: int, mixing: float, alike: bool, generator: np.random.Generator
) -> Scanner:
    count = len(CHANNELS)
    steps = np.diff(_NODES) * np.exp(contrast * generator.standard_normal((count, _NODES.size - 1)))
    shares = mixing * generator.uniform(-1, 1, size=(count, count))[:channels, :channels]
    gains = np.exp(generator.uniform(np.log(_GAIN[0]), np.log(_GAIN[1]), size=count))
    noise, bias = float(generator.uniform(*_NOISE)), float(generator.uniform(*_BIAS))
    if alike:
        steps, gains = np.tile(np.diff(_NODES), (count, 1)), np.full(count, 1000.0)
    np.fill_diagonal(shares, 0.0)
    np.fill_diagonal(shares, 1 - shares.sum(axis=1))
    knots = np.linspace(_NODES[0], _NODES[-1], 201)
    curves = tuple(
        PiecewiseLinear(knots, gain * PchipInterpolator(_NODES, np.cumsum([0, *own]))(knots))
        for own, gain in zip(steps[:channels], gains, strict=False)
    )
    return Scanner(shares, curves, noise, bias)


def _scan(
    anatomy: Anatomy,
    grid: Grid,
    scanner: Scanner,
    lesion: bool,
    channels: int,
    generator: np.random.Generator,
) -> ChannelScan:
    age, own = generator.uniform(*_AGES), generator.standard_normal()
    atrophy = _ATROPHY + _ATROPHY_PER_YEAR * (age - _AGE) + _ATROPHY_SD * own
    fields = draw_fields(anatomy.brain.shape, generator)
    subject = make_subject(anatomy, fields, grid, atrophy=float(atrophy), lesion=lesion)
    canonical = _canonical(subject, generator)[:, :channels]
    columns = zip(scanner.curves, scanner.mixed(canonical).T, strict=True)
    values = [
        simulate_scan(
            subject._replace(canonical=mixed.astype(np.float32)),
            curve,
            generator,
            bias=scanner.bias,
            noise=scanner.noise,
        )
        for curve, mixed in columns
    ]
    return ChannelScan(
        np.stack(values, axis=1).astype(np.float64),
        canonical,
        subject.tissues.astype(np.float64),
        subject.lesion,
        scanner,
    )


def _canonical(subject: SimulatedSubject, generator: np.random.Generator) -> FloatArray:
    """Return the canonical intensities of all channels, (n, 3)."""
    tissues = subject.tissues.astype(np.float64)
    texture = subject.canonical - np.einsum("nk,k->n", tissues, _TISSUE_MEANS[0])
    means = np.einsum("nk,jk->nj", tissues, _TISSUE_MEANS)
    means[subject.lesion] = _LESION_MEANS
    texture[subject.lesion] = 0.0
    fresh = _TEXTURE * generator.standard_normal(means.shape) * (_SHARED != 1)
    canonical: FloatArray = means + texture[:, np.newaxis] * _SHARED + fresh
    return canonical
