"""Proportions of tissue in a scan without tissue maps, and how well they are known.

The density of a scan is that of its population with other proportions s of the tissues,
``Σ_g s_g p_g``, seen through a curve of its own. With t_s(u) its quantiles in the population, those
of the scan are

    y(u) = a + b t_s(u) + c(t(u)) + ε(u).                                                    (1)

Z-scoring both sides removes offset and gain, a and b. The contrast is a curve c, the integral of a
Gaussian process with the standard deviation κ: another contrast, another coil or some shading
stretch one range of intensities and squeeze the next. Its covariance is κ² K, with

    K(x, x') = ℓ² [h(x/ℓ) + h(x'/ℓ) − h((x − x')/ℓ) − 1],   h(z) = √(π/2) z erf(z/√2) + exp(−z²/2).

ε is noise. People have proportions ``s = s̄ + B z``, with two standard normal coordinates z, since
proportions sum to 1, and the covariance ``Σ = B Bᵀ``. We look at (1) in the few directions R in
which people and contrast vary most, beside straight lines; the noise has the standard deviation ν
in each. The most probable z minimises

    ½ rᵀ C⁻¹ r + ½ |z|²,    r = R (y − t_s),    C = κ² R K Rᵀ + ν² I.                        (2)

From the best of some starts, steps of Gauss and Newton go to ``V Jᵀ C⁻¹ (r + J z)``, with
``J = −∂r/∂z`` and the covariance ``V = (I + Jᵀ C⁻¹ J)⁻¹`` of z. A quantile t of the target moves
with s by ``−P_g(t) / p(t)``, where P_g is the distribution function of a tissue and p the density
of the target.

**Trust is estimated.** Σ is anatomy and known, but people who are alike have α² Σ, with α ≤ 1. κ, ν
and α are those of the scans of one site: the most probable ones, given how these scans differ from
their mean, and what is usual. With the deviations D of n scans, and ``S = C + α² J Jᵀ``, this
minimises

    ½ [(n − 1) ln |S| + tr(S⁻¹ Dᵀ D)] + ½ Σ_v (ln v − ln v₀)² / τ_v²,    v = κ², ν², α².      (3)

Where contrast differs much between the scans of a site, C is large, and s stays near s̄.

**Sites have people, too.** With the covariance φ Σ, equation (2) finds the mean proportions of the
people of a site in the average of its scans, where contrast differs as between any two scanners.
They take the place of s̄ for these scans.

The scale of lengths is that of the population: a standard deviation of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import InvalidValueError
from ndflow.population.tissues import TissueModel
from ndflow.transport import align
from ndflow.transport.optimise import minimise
from ndflow.values import FloatArray, Record, einsum, real_array

# Chosen on simulated studies with even seeds (benchmarks/worlds.py); ℓ also by the likelihood of
# 68 real scans, which knows no labels.
_LENGTH, _DIRECTIONS = 0.45, 6
_SPREADS = np.array([0.3, 1.0, 1.5])  # τ, of the logarithms of κ², ν² and α²
_MOST = np.array([np.inf, np.inf, 0.0])  # the largest such logarithms
_BETWEEN = 0.25  # φ
_LEAST = 0.02  # smallest proportion of a tissue, or half of its mean if that is less
_ENDS, _POINTS = np.array([1e-4, 1 - 1e-4]), 2000  # of a table of the tissues
_STARTS = [np.array(z) for z in product(np.linspace(-4.0, 4.0, 9), repeat=2)]  # in Gauss–Newton
_STEPS, _HALVINGS = 20, 10
_TOLERANCE, _ITERATIONS = 1e-6, 60


@dataclass(frozen=True)
class Variation(Record):
    """How scans differ from each other beside people.

    Attributes
    ----------
    contrast : κ, the standard deviation of the slopes of contrast curves.
    noise : ν, of whatever else their quantiles differ by.
    people : α, how much people differ in amounts of tissue, relative to what is usual.
    """

    contrast: float
    noise: float
    people: float = 1.0


@dataclass(frozen=True)
class Trust(Variation):
    """How the scans of a site differ, and what that leaves to know about people.

    Attributes
    ----------
    determined : the share of the variance of people's proportions that a scan determines; where it
        is near 0, all scans get nearly the mean proportions.
    """

    determined: float = field(kw_only=True)


OF_SITE = Variation(0.08, 0.03)  # what is usual among scans of one site
OF_ANY = Variation(0.2, 0.03)  # and among scans of any scanner


class Estimate(NamedTuple):
    """The result of `estimated_proportions`.

    Attributes
    ----------
    proportions : (3,), in the order of `TISSUES`.
    covariance : (3, 3), how well they are known.
    """

    proportions: FloatArray
    covariance: FloatArray


class _Population:
    """What is expected of the quantiles of scans, from equations (1) and (2) of the module."""

    def __init__(self, model: TissueModel, people: float = 1.0) -> None:
        self.model = model.transformed(align(model.target(model.mean)))
        variances, axes = np.linalg.eigh(model.covariance)
        self.plane = people * axes[:, 1:] * np.sqrt(np.maximum(variances[1:], 0.0))  # α B
        ends = [one.quantile(_ENDS) for one in self.model.densities]
        self._x = np.linspace(np.min(ends), np.max(ends), _POINTS)
        self._below = np.stack([one.cdf(self._x) for one in self.model.densities])  # P
        self._pdf = np.stack([one.pdf(self._x) for one in self.model.densities])
        t, moves = self._quantiles(np.zeros(2))
        lines, _ = np.linalg.qr(np.stack([np.ones_like(t), t], axis=1))
        beside = np.eye(t.size) - einsum("ui,vi->uv", lines, lines)
        contrast = _integrated(t - t[0])
        varies = einsum("ui,vi->uv", moves, moves) + OF_SITE.contrast**2 * contrast
        varies = einsum("tu,uv,wv->tw", beside, varies, beside)
        self.directions = np.linalg.eigh(varies)[1][:, -_DIRECTIONS:].T  # R
        self.contrast = einsum("iu,uv,jv->ij", self.directions, contrast, self.directions)  # R K Rᵀ

    def proportions(self, z: FloatArray) -> FloatArray:
        """Return s, away from 0."""
        mean = self.model.mean
        least = np.minimum(_LEAST, 0.5 * mean)
        s = np.maximum(mean + einsum("gi,i->g", self.plane, z), least)
        return np.asarray(s / s.sum())

    def usual(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the z-scored quantiles of a target in each direction, R t, and J."""
        t, moves = self._quantiles(z)
        scored = (t - t.mean()) / t.std()
        moves = (moves - moves.mean(axis=0)) / t.std()
        moves -= np.outer(scored, einsum("u,ui->i", scored, moves) / t.size)
        r = self.directions
        return einsum("iu,u->i", r, scored), einsum("iu,uj->ij", r, moves)

    def _quantiles(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the quantiles of a target, and how they move with z, from a table."""
        s = self.proportions(z)
        t = np.interp(QUANTILE_LEVELS, einsum("g,gx->x", s, self._below), self._x)
        pdf = np.interp(t, self._x, einsum("g,gx->x", s, self._pdf))
        below = np.stack([np.interp(t, self._x, one) for one in self._below], axis=1)
        moves = -einsum("ug,gi->iu", below, self.plane) / pdf
        return _means(t), _means(moves).T

    def weights(self, variation: Variation) -> FloatArray:
        """Return C⁻¹."""
        noise = variation.noise**2 * np.eye(_DIRECTIONS)
        return np.asarray(np.linalg.inv(variation.contrast**2 * self.contrast + noise))

    def seen(self, quantiles: FloatArray) -> FloatArray:
        """Return the z-scored quantiles of scans, (..., levels), in each direction, R y."""
        used = _means(quantiles)
        centred = used - used.mean(axis=-1, keepdims=True)
        scored = centred / centred.std(axis=-1, keepdims=True)
        return einsum("...u,iu->...i", scored, self.directions)


def _means(quantiles: FloatArray) -> FloatArray:
    """Return the means of each four neighbouring quantiles, (..., levels)."""
    first = np.arange(0, quantiles.shape[-1], 4)
    counts = np.diff(first, append=quantiles.shape[-1])
    return np.asarray(np.add.reduceat(quantiles, first, axis=-1) / counts)


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
        The most probable proportions, and their covariance.

    Raises
    ------
    InvalidValueError : quantiles that are not 199 numbers, or all the same.

    Examples
    --------
    >>> from ndflow import GaussianMixture
    >>> csf, gm, wm = (GaussianMixture([1.0], [mean], [5.0]) for mean in (-2.0, 0.0, 1.0))
    >>> model = TissueModel((csf, gm, wm), [0.2, 0.45, 0.35], 1e-3 * (np.eye(3) - 1 / 3))
    >>> scan = model.target([0.24, 0.43, 0.33])
    >>> found = estimated_proportions(scan.quantile(np.arange(1, 200) / 200), model)
    >>> found.proportions.round(2)
    array([0.24, 0.43, 0.33])
    """
    given = real_array(quantiles, "quantiles", QUANTILE_LEVELS.size)
    if not given[-1] > given[0]:
        raise InvalidValueError("quantiles must not be all the same")
    people = _Population(model, variation.people)
    seen = people.seen(given)
    weights = people.weights(variation)

    def look(z: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        usual, moves = people.usual(z)
        r = seen - usual
        return 0.5 * float(einsum("i,ij,j->", r, weights, r) + (z * z).sum()), r, moves

    z = min(_STARTS, key=lambda start: look(start)[0])
    cost, r, moves = look(z)
    for _ in range(_STEPS):
        pull = einsum("ia,ij->aj", moves, weights)
        step = einsum("ab,bj,j->a", _known(pull, moves), pull, r + einsum("ia,a->i", moves, z)) - z
        for _ in range(_HALVINGS):
            there = look(z + step)
            if there[0] < cost:
                break
            step = step / 2
        else:
            break
        gain, z = cost - there[0], z + step
        cost, r, moves = there
        if gain < _TOLERANCE:
            break
    known = _known(einsum("ia,ij->aj", moves, weights), moves)
    return Estimate(
        people.proportions(z), einsum("gi,ij,hj->gh", people.plane, known, people.plane)
    )


def model_of_site(average: FloatArray, model: TissueModel) -> TissueModel:
    """Return the tissues of a population with the mean proportions of the people of a site.

    Parameters
    ----------
    average : the quantiles of the average of the site, as for `estimated_proportions`.
    model : the tissues of the population.
    """
    between = replace(model, covariance=_BETWEEN * model.covariance)
    return replace(model, mean=estimated_proportions(average, between).proportions)


def _known(pull: FloatArray, moves: FloatArray) -> FloatArray:
    """Return V, with ``Jᵀ C⁻¹`` and J."""
    return np.asarray(np.linalg.inv(np.eye(2) + einsum("ai,ib->ab", pull, moves)))


def trust(model: TissueModel, variation: Variation) -> Trust:
    """Return how far scans that differ in this way determine the proportions of people.

    Near the mean, ``1 − tr V / 2`` of the variance of both coordinates.
    """
    people = _Population(model, variation.people)
    _, moves = people.usual(np.zeros(2))
    known = _known(einsum("ia,ij->aj", moves, people.weights(variation)), moves)
    return Trust(**variation.to_dict(), determined=float(1 - known.trace() / 2))


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
    people = _Population(model)
    seen = people.seen(np.array(scans))
    seen -= seen.mean(axis=0)
    products, freedom = einsum("ni,nj->ij", seen, seen), len(scans) - 1
    _, moves = people.usual(np.zeros(2))
    parts = np.array([people.contrast, np.eye(_DIRECTIONS), einsum("ia,ja->ij", moves, moves)])
    start = 2 * np.log([usual.contrast, usual.noise, usual.people])

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        moving = np.exp(np.minimum(x, _MOST))[:, np.newaxis, np.newaxis] * parts
        scatter = moving.sum(axis=0)
        inverse = np.linalg.inv(scatter)
        surprise = freedom * np.linalg.slogdet(scatter)[1] + (inverse * products).sum()
        slope = freedom * inverse - einsum("ij,jk,kl->il", inverse, products, inverse)
        off = (x - start) / _SPREADS
        value = 0.5 * float(surprise + (off * off).sum())
        return value, 0.5 * (moving * slope).sum(axis=(1, 2)) * (x <= _MOST) + off / _SPREADS

    end = minimise(
        objective,
        start,
        value_tolerance=_TOLERANCE,
        gradient_tolerance=_TOLERANCE,
        iterations=_ITERATIONS,
    )
    return Variation(*np.exp(np.minimum(end.x, _MOST) / 2).tolist())


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
