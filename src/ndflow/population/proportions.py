"""Proportions of tissue in a scan without tissue maps, and how well they are known.

The quantiles y(u) of a scan differ from the quantiles t(u) of its population, whose density is
``t = Σ_g s̄_g p_g``, because of gain and offset, of the person, of the contrast, and of noise:

    y(u) = a + b t(u) + A(u) (s − s̄) + c(t(u)) + ε(u).                                       (1)

With the proportions s of its tissues a quantile moves by ``A_g(u) = −P_g(t) / t'(t)``, where P_g is
the distribution function of a tissue and t' the density of the population. The contrast is a curve
c, the integral of a Gaussian process with the standard deviation κ: another contrast, another coil
or some shading stretch one range of intensities and squeeze the next. Its covariance is κ² K, with

    K(x, x') = ℓ² [h(x/ℓ) + h(x'/ℓ) − h((x − x')/ℓ) − 1],   h(z) = √(π/2) z erf(z/√2) + exp(−z²/2).

The noise ε has the standard deviation ν in every direction. People have proportions around s̄ with
the covariance Σ. What remains in (1) after a and b is looked at in the few directions R in which
people and contrast vary most. All is linear and Gaussian, so the proportions have the mean and the
covariance

    ŝ = s̄ + G R (y − t),    V = Σ − G R A Σ,
    G = Σ Aᵀ Rᵀ C⁻¹,        C = R (A Σ Aᵀ + κ² K) Rᵀ + ν² I.                                 (2)

**Trust is estimated.** Σ is anatomy and known. κ and ν are those of the scans of one site: the most
probable ones, given how these scans differ from their mean, and what is usual. With the deviations
D of n scans this minimises

    ½ [(n − 1) ln |C| + tr(C⁻¹ Dᵀ D)] + ½ Σ_v (ln v − ln v₀)² / τ_v²,   v = κ², ν².            (3)

Where contrast differs much between the scans of a site, C is large, and ŝ stays near s̄.

The scale of lengths is that of the population: a standard deviation of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.population.tissues import TissueModel
from ndflow.transport import align
from ndflow.transport.optimise import minimise
from ndflow.values import FloatArray, Record, einsum, real_array

# Chosen on simulated studies with even seeds (benchmarks/worlds.py); ℓ also by the likelihood of
# 68 real scans, which knows no labels.
_LENGTH, _DIRECTIONS = 0.45, 6
_SPREADS = np.array([0.3, 1.0])  # τ, of the logarithms of κ² and ν²
_LEAST = 0.02  # smallest proportion of a tissue, or half of its mean if that is less
_TOLERANCE, _ITERATIONS = 1e-6, 60


@dataclass(frozen=True)
class Variation(Record):
    """How scans differ from each other beside people.

    Attributes
    ----------
    contrast : κ, the standard deviation of the slopes of contrast curves.
    noise : ν, of whatever else their quantiles differ by.
    """

    contrast: float
    noise: float


@dataclass(frozen=True)
class Trust(Variation):
    """How the scans of a site differ, and what that leaves to know about people.

    Attributes
    ----------
    determined : the share of the variance of people's proportions that a scan determines; where it
        is near 0, all scans get nearly the mean proportions.
    """

    determined: float


OF_SITE = Variation(0.08, 0.06)  # what is usual among scans of one site
OF_ANY = Variation(0.2, 0.06)  # and among scans of any scanner


class Estimate(NamedTuple):
    """The result of `estimated_proportions`.

    Attributes
    ----------
    proportions : (3,), in the order of `TISSUES`.
    covariance : (3, 3), how well they are known.
    """

    proportions: FloatArray
    covariance: FloatArray


class _Expected(NamedTuple):
    """What is expected of the quantiles of scans, from equation (1) of the module."""

    quantiles: FloatArray  # (levels,)
    people: FloatArray  # (directions, 3), R A
    directions: FloatArray  # (directions, levels), R
    contrast: FloatArray  # (directions, directions), R K Rᵀ

    def departures(self, quantiles: ArrayLike) -> FloatArray:
        """Return how quantiles, (..., levels), differ from those expected, in each direction."""
        given = np.asarray(quantiles, np.float64)
        given = given - given.mean(axis=-1, keepdims=True)
        given = given / given.std(axis=-1, keepdims=True)
        usual = (self.quantiles - self.quantiles.mean()) / self.quantiles.std()
        return np.asarray((given - usual) * self.quantiles.std() @ self.directions.T)


def _expected(model: TissueModel) -> _Expected:
    standard = model.transformed(align(model.target(model.mean)))
    density = standard.target(standard.mean)
    t = density.quantile(QUANTILE_LEVELS)
    people = -np.stack([one.cdf(t) for one in standard.densities], axis=1)
    people = people / density.pdf(t)[:, np.newaxis]
    contrast = _integrated(t - t[0])
    # Directions that a straight line in t cannot explain.
    beside, _ = np.linalg.qr(np.stack([np.ones_like(t), t], axis=1), mode="complete")
    beside = beside[:, 2:].T
    varies = einsum("ug,gh,vh->uv", people, model.covariance, people)
    varies = varies + OF_SITE.contrast**2 * contrast
    _, axes = np.linalg.eigh(beside @ varies @ beside.T)
    directions = axes[:, -_DIRECTIONS:].T @ beside
    return _Expected(t, directions @ people, directions, directions @ contrast @ directions.T)


def _integrated(x: FloatArray) -> FloatArray:
    """Return the covariance K of the integral of a Gaussian process from 0 to x."""

    def h(z: FloatArray) -> FloatArray:
        scaled = np.sqrt(np.pi / 2) * z * special.erf(z / np.sqrt(2))
        return np.asarray(scaled + np.exp(-0.5 * z * z))

    z = x / _LENGTH
    ends = h(z)
    return _LENGTH**2 * (ends[:, np.newaxis] + ends - h(z[:, np.newaxis] - z) - 1)


def estimated_proportions(
    quantiles: ArrayLike, model: TissueModel, variation: Variation = OF_ANY
) -> Estimate:
    """Return the proportions of tissue of a scan, from equation (2) of the module.

    Parameters
    ----------
    quantiles : of the voxels of the scan, or of its density, at i/200 for i from 1 to 199, in any
        units.
    model : the tissues of the population.
    variation : how scans like this one differ from each other beside people.

    Returns
    -------
    Estimate
        The expected proportions, and their covariance.

    Raises
    ------
    InvalidValueError : quantiles that are not 199 numbers.

    Examples
    --------
    >>> from ndflow import GaussianMixture
    >>> csf, gm, wm = (GaussianMixture([1.0], [mean], [5.0]) for mean in (-2.0, 0.0, 1.0))
    >>> model = TissueModel((csf, gm, wm), [0.2, 0.45, 0.35], 1e-3 * (np.eye(3) - 1 / 3))
    >>> scan = model.target([0.22, 0.44, 0.34])
    >>> found = estimated_proportions(scan.quantile(np.arange(1, 200) / 200), model)
    >>> found.proportions.round(2)
    array([0.21, 0.45, 0.34])
    """
    given = real_array(quantiles, "quantiles", QUANTILE_LEVELS.size)
    expected = _expected(model)
    gain = _gain(expected, model, variation)
    proportions = model.mean + gain @ expected.departures(given)
    proportions = np.maximum(proportions, np.minimum(_LEAST, 0.5 * model.mean))
    left = model.covariance - gain @ expected.people @ model.covariance
    return Estimate(proportions / proportions.sum(), (left + left.T) / 2)


def trust(model: TissueModel, variation: Variation) -> Trust:
    """Return how far scans that differ in this way determine the proportions of people.

    Of the variance of two free proportions, ``1 − tr(V Σ⁻¹) / 2 = tr(G R A) / 2``.
    """
    expected = _expected(model)
    share = np.trace(_gain(expected, model, variation) @ expected.people) / 2
    return Trust(variation.contrast, variation.noise, float(share))


def _gain(expected: _Expected, model: TissueModel, variation: Variation) -> FloatArray:
    """Return G of equation (2)."""
    scatter = _scatter(expected, model, variation)
    return np.asarray(np.linalg.solve(scatter, expected.people @ model.covariance).T)


def _scatter(expected: _Expected, model: TissueModel, variation: Variation) -> FloatArray:
    """Return C of equation (2)."""
    people = einsum("ig,gh,jh->ij", expected.people, model.covariance, expected.people)
    noise = variation.noise**2 * np.eye(_DIRECTIONS)
    return np.asarray(people + variation.contrast**2 * expected.contrast + noise)


def variation_of(
    scans: Sequence[FloatArray], model: TissueModel, usual: Variation = OF_SITE
) -> Variation:
    """Return how the scans of a site differ beside people, from equation (3) of the module.

    Parameters
    ----------
    scans : the quantiles of each, as for `estimated_proportions`.
    model : the tissues of the population.
    usual : what it is without any scans.
    """
    if len(scans) < 2:
        return usual
    expected = _expected(model)
    departures = expected.departures(np.array(scans))
    departures -= departures.mean(axis=0)
    products, freedom = departures.T @ departures, len(scans) - 1
    parts = np.array([expected.contrast, np.eye(_DIRECTIONS)])
    people = _scatter(expected, model, Variation(0.0, 0.0))
    start = 2 * np.log([usual.contrast, usual.noise])

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        moving = np.exp(x)[:, np.newaxis, np.newaxis] * parts
        scatter = people + moving.sum(axis=0)
        inverse = np.linalg.inv(scatter)
        surprise = freedom * np.linalg.slogdet(scatter)[1] + (inverse * products).sum()
        slope = freedom * inverse - inverse @ products @ inverse
        off = (x - start) / _SPREADS
        value = 0.5 * float(surprise + (off * off).sum())
        return value, 0.5 * (moving * slope).sum(axis=(1, 2)) + off / _SPREADS

    end = minimise(
        objective,
        start,
        value_tolerance=_TOLERANCE,
        gradient_tolerance=_TOLERANCE,
        iterations=_ITERATIONS,
    )
    contrast, noise = np.exp(end.x / 2).tolist()
    return Variation(contrast, noise)


_COVERED = 1.645  # standard deviations of a normal distribution on either side hold 90 %
# What else displaces CSF, GM and WM: regions and people whose tissue is brighter, shading, blur.
# In distances between GM and WM; from simulated studies with even seeds.
_BESIDE = np.array([0.06, 0.09, 0.11])


def tissue_intervals(estimate: Estimate, model: TissueModel) -> FloatArray:
    """Return to what CSF, GM and WM of a scan are known after normalisation, (3,).

    Where the proportions of the target are off by δ, a tissue at t comes to lie ``A(t) δ`` away.
    What differs between people and scans within a tissue comes on top.

    Returns
    -------
    array
        Half the width of a 90 % interval, in units of the distance between GM and WM.
    """
    density = model.target(estimate.proportions)
    means = np.array([one.mean()[0] for one in model.densities])
    moves = np.stack([one.cdf(means) for one in model.densities], axis=1)
    moves = moves / density.pdf(means)[:, np.newaxis]
    variances = einsum("tg,gh,th->t", moves, estimate.covariance, moves)
    relative = variances / (means[2] - means[1]) ** 2
    return np.asarray(_COVERED * np.sqrt(np.maximum(relative, 0.0) + _BESIDE**2))
