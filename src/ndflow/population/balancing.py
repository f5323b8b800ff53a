"""Balancing: weights for the scans of each site, so that covariates such as age are alike at all.

If one site scanned the old and another the young, the averages of the two differ in age as well as
in scanner, and a map from one to the other removes both. Weights make the averages comparable: of
all weights with which the covariates have the same moments at all sites, those nearest to uniform
(entropy balancing, Hainmueller 2012; the equations are below).

*The target* is one for all sites: that with the least total ``Σ_s φ_s(t)``, where φ_s is the
minimum of the relaxed problem for the site s. So it lies where all sites depart the least from
uniform weights, which is where their covariates overlap. The mean of all scans is often out of
reach for a site, and their variance, which includes that between sites, nearly always. Each site
counts once, since each has a map: counted by scans, small sites keep fewer effective scans, and
more imbalance is left. φ_s is convex, with the gradient λ_s and the second derivative ``(∇²D)⁻¹``.
A site that is unlike all others may draw the target out of their reach. So the target is also found
without the site that cannot reach it and has the largest φ_s, and so on, as long as there are such
sites and others; and the target is taken with the least ``Σ_s 1/m_s + min(δ_s², 1)``: the variance
of the average of a site with m_s effective scans, and the square of its imbalance δ_s, both as if
the covariates were all that people differ in. A site with more than 1 is lost either way, and no
reason to give up others.

*Moments* are the mean of each number, and its mean square where a site has enough scans; and the
share of each category. They are in units of the standard deviation over all scans, a share p in
units of √p, so that two categories count like a number with two values.

*Effective scans*, ``1 / Σ_i w_i²``, are how many scans of equal weight would give an average as
certain. A site must keep `FEWEST` of them, or half of its scans where it has few. If means and mean
squares together leave fewer, or are out of reach, only means are balanced; if these are, too, they
are relaxed, with the smallest r that leaves enough effective scans.

*The equations.* With f_i the moments of scan i of n, the weights nearest to uniform with which they
have the mean t

    minimise KL(w) = Σ_i w_i log(n w_i)   with   Σ_i w_i = 1,   Σ_i w_i f_i = t.               (1)

They are ``w_i ∝ exp(λ·(f_i − t))``, where λ minimises the dual

    D(λ) = log (1/n) Σ_i exp(λ·(f_i − t)) + r/2 |λ|²,   ∇D = Σ_i w_i f_i − t + rλ,             (2)

for r = 0: convex, with the covariance of f under w as second derivative, so Newton's method finds
it. If t is not within the convex hull of the f_i, there are no such weights, and D falls without
end. If it is, some ``λ·(f_i − t)`` is not negative whatever λ, and D is never less than
``−log n``. So a λ with

    D(λ) < −log n                                                                              (3)

proves that t is outside, and the search ends with either the weights or the proof. With r > 0 there
are always weights. They minimise ``KL(w) + |Σ_i w_i f_i − t|² / 2r``, and leave the imbalance −rλ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, Record, einsum, real_array

# ── exponential tilting ───────────────────────────────────────────────────────────────────────────

_PRECISE = 1e-11  # of moments
_ITERATIONS = 200
_FLATTEST = 1e-12  # smallest curvature that is divided by
_ARMIJO, _SHORTEST = 1e-4, 1e-10  # share of the predicted decrease; smallest fraction of a step
_ROUNDING = 1e-14  # of D


class Tilt(NamedTuple):
    """The solution of (2), or how far the search for one has come.

    Attributes
    ----------
    multipliers, value, curvature : λ, D, and its second derivative.
    weights : of the scans.
    status : ``"solved"``; ``"outside"``, if it is proved that there is no solution; or
        ``"stalled"``, which happens where the target is at the very border of the convex hull.
    """

    multipliers: FloatArray
    weights: FloatArray
    value: float
    curvature: FloatArray
    status: Literal["solved", "outside", "stalled"]


def tilt(
    features: FloatArray,
    target: FloatArray,
    relaxation: float = 0.0,
    start: FloatArray | None = None,
) -> Tilt:
    """Return the weights nearest to uniform with which moments have the mean of a target.

    Parameters
    ----------
    features : (n, p), the moments f of each scan, of order 1.
    target : (p,), t.
    relaxation : r; 0 for weights that reach the target.
    start : (p,), the first λ of the search.

    Examples
    --------
    >>> tilt(np.array([[0.0], [1.0]]), np.array([0.25])).weights
    array([0.75, 0.25])
    >>> tilt(np.array([[0.0], [1.0]]), np.array([1.25])).status
    'outside'
    """
    away = features - target
    count, size = away.shape
    ridge = relaxation * np.eye(size)

    def dual(at: FloatArray) -> tuple[float, FloatArray]:
        exponents = einsum("ij,j->i", away, at)
        top = float(exponents.max()) if size else 0.0
        powers = np.exp(exponents - top)
        total = float(powers.sum())
        value = top + math.log(total / count) + relaxation / 2 * float(einsum("i,i->", at, at))
        return value, powers / total

    multipliers = np.zeros(size) if start is None else start
    value, weights = dual(multipliers)
    for _ in range(_ITERATIONS):
        mean = einsum("ij,i->j", away, weights)
        centred = away - mean
        curvature = einsum("i,ij,ik->jk", weights, centred, centred) + ridge
        slope = mean + relaxation * multipliers
        if not size or np.abs(slope).max() <= _PRECISE:
            return Tilt(multipliers, weights, value, curvature, "solved")
        slack = _ROUNDING * (1 + float(np.abs(multipliers).sum() * np.abs(away).max()))
        if not relaxation and value < -math.log(count) - slack:  # (3), but for rounding
            return Tilt(multipliers, weights, value, curvature, "outside")
        bends, axes = np.linalg.eigh(curvature)
        along = einsum("ij,i->j", axes, slope) / np.maximum(bends, _FLATTEST)
        step = -einsum("ij,j->i", axes, along)
        predicted = -float(einsum("i,i->", slope, step))
        length = 1.0
        while length > _SHORTEST:
            there = dual(multipliers + length * step)
            if there[0] <= value - _ARMIJO * length * predicted + _ROUNDING:
                break
            length /= 2
        else:
            break
        multipliers = multipliers + length * step
        value, weights = there
    return Tilt(multipliers, weights, value, curvature, "stalled")


# ── balancing ─────────────────────────────────────────────────────────────────────────────────────

FEWEST = 5.0  # effective scans: with fewer, the map of a site depends on who these people are

_EXACT, _MEANS, _NEAR = "means and variances", "means", "approximate"
_PER_MOMENT = 5  # scans of a site for each moment, so that mean squares count too
_JOINT_RELAXATION = 0.1  # r of the common target, in squares of a standard deviation
_MOST_RELAXED, _LEAST_RELAXED = 16.0, 1e-3  # r of a site that cannot reach the target
_FINER = 0.75  # factor from one r to the next
_ENOUGH = 1.0 - 1e-9  # of the effective scans that are needed
_ALIKE = 1e-9  # relative to the largest: numbers that differ less are the same


@dataclass(frozen=True)
class SiteBalance(Record):
    """What the weights of a site achieve.

    Attributes
    ----------
    scans, unknown : how many are weighted, and how many have no part in references because one of
        their covariates is not known.
    effective : how many scans of equal weight would be as good.
    reach : which moments are those of the target; ``"approximate"`` if means are only near to it.
    outside : whether it is proved that no weights take the means to the target.
    before, after : the mean of each number and the share of each category, without weights and
        with them.
    """

    scans: int
    effective: float
    reach: str
    outside: bool
    before: dict[str, float]
    after: dict[str, float]
    unknown: int = 0


class Balance(NamedTuple):
    """Weights of all scans, which sum to 1 at each site, and what they achieve.

    Attributes
    ----------
    weights : (n,), of the scans.
    sites : what those of each site achieve.
    target : the mean of each number and the share of each category that sites were brought to.
    sds : the standard deviation of each over all scans, in units of which an imbalance can be told.
    """

    weights: FloatArray
    sites: dict[str, SiteBalance]
    target: dict[str, float]
    sds: dict[str, float]


class _Moment(NamedTuple):
    """A moment: its name, its value for each scan, what is 1 in (1), and whether it is a square."""

    name: str
    values: FloatArray
    unit: float
    square: bool = False


def balance(covariates: Mapping[str, ArrayLike], sites: Sequence[str]) -> Balance:
    """Return weights with which covariates have the same moments at all sites.

    Parameters
    ----------
    covariates : by their names, the values for all scans: numbers, or the names of categories.
    sites : of the scans.

    Raises
    ------
    InvalidValueError : no scans, numbers that are not finite, or not one value for each scan.

    Examples
    --------
    >>> age = [20.0, 40.0, 60.0, 40.0, 60.0, 80.0]
    >>> found = balance({"age": age}, ["A", "A", "A", "B", "B", "B"])
    >>> {site: round(own.after["age"], 6) for site, own in found.sites.items()}
    {'A': 50.0, 'B': 50.0}
    >>> found.sites["A"].reach, round(found.sites["A"].effective, 2)
    ('means', 2.15)
    """
    if not len(sites):
        raise InvalidValueError("sites must name the site of at least one scan")
    known = [
        moment for name in covariates for moment in _moments(name, covariates[name], len(sites))
    ]
    varied = [moment for moment in known if moment.unit > 0]
    shown = {moment.name: moment.values for moment in known if not moment.square}
    centred = [(moment.values - moment.values.mean()) / moment.unit for moment in varied]
    columns = np.array(centred).reshape(len(varied), len(sites)).T
    squares = np.array([moment.square for moment in varied], np.bool_)
    members = {site: np.flatnonzero([own == site for own in sites]) for site in sorted({*sites})}
    rank = int(np.linalg.matrix_rank(columns)) if varied else 0
    parts = {site: _Site(columns[places], squares, rank) for site, places in members.items()}
    target = _common_target([*parts.values()])
    weights = np.empty(len(sites))
    found = {}
    for site, places in members.items():
        own, reach, outside = parts[site].weights(target)
        weights[places] = own
        found[site] = SiteBalance(
            scans=places.size,
            effective=effective_scans(own),
            reach=reach,
            outside=outside,
            before={name: float(values[places].mean()) for name, values in shown.items()},
            after={n: float(einsum("i,i->", own, values[places])) for n, values in shown.items()},
        )
    goal = {name: float(values.mean()) for name, values in shown.items()}
    for one, moved in zip(varied, target, strict=True):
        if not one.square:
            goal[one.name] += one.unit * float(moved)
    sds = {name: float(values.std()) for name, values in shown.items()}
    return Balance(weights, found, goal, sds)


def effective_scans(weights: FloatArray) -> float:
    """Return how many scans of equal weight would give an average as certain."""
    return float(weights.sum() ** 2 / einsum("i,i->", weights, weights))


def _moments(name: str, values: ArrayLike, count: int) -> list[_Moment]:
    """Return the moments of a covariate; the unit of what is the same for all scans is 0."""
    given = np.asarray(values)
    if given.shape != (count,):
        raise InvalidValueError(f"{name} must have one value for each of {count} scans")
    if given.dtype.kind == "U":
        shares = {one: np.asarray(given == one, np.float64) for one in sorted({*given.tolist()})}
        return [
            _Moment(f"{name} {one}", share, math.sqrt(share.mean()) if len(shares) > 1 else 0.0)
            for one, share in shares.items()
        ]
    numbers = real_array(given, name, count)
    if np.ptp(numbers) <= _ALIKE * np.abs(numbers).max():
        return [_Moment(name, numbers, 0.0)]
    sd = float(numbers.std())
    first = _Moment(name, numbers, sd)
    if np.unique(numbers).size < 3:  # the squares of two values say nothing new
        return [first]
    squares = ((numbers - numbers.mean()) / sd) ** 2
    return [first, _Moment(name, squares, float(squares.std()), square=True)]


class _Site:
    """The scans of a site.

    Attributes
    ----------
    moments : (n, p), of its scans.
    means, used : (p,), which of them are no squares, and which the site can have balanced.
    """

    def __init__(self, moments: FloatArray, squares: NDArray[np.bool_], count: int) -> None:
        self.moments, self.means = moments, ~squares
        self.used = ~squares if len(moments) < _PER_MOMENT * count else np.ones_like(squares)
        self.needed = _ENOUGH * min(FEWEST, len(moments) / 2)

    def cost(self, target: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return φ at a target, its gradient and its second derivative."""
        slope, bend = np.zeros(target.size), np.zeros((target.size, target.size))
        found = tilt(self.moments[:, self.used], target[self.used], _JOINT_RELAXATION)
        slope[self.used] = found.multipliers
        bend[np.ix_(self.used, self.used)] = np.linalg.inv(found.curvature)
        return -found.value, slope, bend

    def loss(self, weights: FloatArray, target: FloatArray) -> float:
        """Return the variance of its average, and the square of its imbalance up to 1."""
        away = (einsum("ij,i->j", self.moments, weights) - target)[self.means]
        imbalance = min(float(einsum("i,i->", away, away)), 1.0)
        return 1 / effective_scans(weights) + imbalance

    def weights(self, target: FloatArray) -> tuple[FloatArray, str, bool]:
        """Return weights, what they reach, and whether the target is proved to be out of reach."""
        outside = False
        for chosen, reach in ((self.used, _EXACT), (self.means, _MEANS)):
            if reach == _EXACT and (chosen == self.means).all():
                continue
            found = tilt(self.moments[:, chosen], target[chosen])
            outside = found.status == "outside"
            if found.status == "solved" and effective_scans(found.weights) >= self.needed:
                return found.weights, reach, False
        own, goal = self.moments[:, self.means], target[self.means]
        weights, start, relaxation = np.full(len(own), 1 / len(own)), None, _MOST_RELAXED
        while relaxation >= _LEAST_RELAXED:
            found = tilt(own, goal, relaxation, start)
            if effective_scans(found.weights) < self.needed:
                break
            weights, start, relaxation = found.weights, found.multipliers, relaxation * _FINER
        return weights, _NEAR, outside


def _common_target(sites: Sequence[_Site]) -> FloatArray:
    """Return the moments that sites are brought to."""
    left, best, least = list(sites), np.empty(0), math.inf
    while True:
        target = _cheapest_target(left)
        found = {site: site.weights(target) for site in sites}
        loss = sum(site.loss(found[site][0], target) for site in sites)
        if loss < least:
            best, least = target, loss
        far = [site for site in left if found[site][1] == _NEAR]
        if not far or len(left) < 3:
            return best
        left.remove(far[int(np.argmax([site.cost(target)[0] for site in far]))])


def _cheapest_target(sites: Sequence[_Site]) -> FloatArray:
    """Return the moments that sites can have at the least total cost, by Newton's method."""
    known = np.any([site.used for site in sites], axis=0)

    def total(at: FloatArray) -> list[Any]:
        return [sum(parts) for parts in zip(*(site.cost(at) for site in sites), strict=True)]

    target = np.zeros(known.size)  # the mean of all scans
    value, slope, bend = total(target)
    for _ in range(_ITERATIONS):
        step = np.zeros(known.size)
        step[known] = -np.linalg.solve(bend[np.ix_(known, known)], slope[known])
        predicted = -float(einsum("i,i->", slope, step))
        if predicted <= _PRECISE:
            break
        length = 1.0
        there = total(target + step)
        while there[0] > value - _ARMIJO * length * predicted + _ROUNDING and length > _SHORTEST:
            length /= 2
            there = total(target + length * step)
        target = target + length * step
        value, slope, bend = there
    return target
