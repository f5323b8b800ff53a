"""Fitting a Dirichlet-process Gaussian mixture to a histogram.

The fit is deterministic and treats the histogram as one weighted sample:

1. outliers are dropped and bins joined until there are about a thousand
   (`ndflow.density.condense`);
2. counts are tempered, ``c ← c · min(1, N_eff / Σc)``. A Bayesian fit is not invariant to the
   scale of the counts: two million voxels, taken as two million independent draws, would call
   for components that follow wiggles. `effective_count` says how much evidence a scan is worth;
3. channels are standardised, and their signs chosen such that they are skewed to the right. The
   prior comes from the data: m0 is their mean, ``κ0 = 0.1``, ``ν0 = d + 3``, and
   ``E Λ = (1 + κ0)/κ0 · Cov⁻¹``. So the fit commutes with a change of units, including their sign:
   ``fit(a·x + b)`` is ``fit(x)`` transformed by ``a·x + b``. (There are two exceptions: data that
   are exactly symmetric look the same with either sign, but their fit may not be symmetric; and
   floats with more levels than a histogram holds are binned by powers of two, whatever the units);
4. a starting point is searched on fewer, wider bins: many small components, sweeps, merges
   (see below), or only a few components where that is clearly better.
   Accelerated sweeps over all bins follow until nothing is gained (`ndflow.density.variational`);
5. the result is the mixture of expected weights, means and precisions. Binning with width h has
   inflated each variance by h²/12 (Sheppard's correction), and so has the fit, which treats bins as
   intervals and not as points; both are subtracted. Light components are pruned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ndflow.density import gaussian, variational
from ndflow.density.binning import joined
from ndflow.density.condense import condensed, trimmed
from ndflow.density.histogram import Histogram
from ndflow.density.mixture import GaussianMixture
from ndflow.density.variational import Climb, Data, Moments, Prior
from ndflow.errors import DegenerateDataError
from ndflow.values import FloatArray, Status, Value, einsum, positive, real_array, whole

_FIRST_SWEEPS = 25  # with 15 the bound is as high, but merges swallow small tissue classes
_SEARCH_TOLERANCE, _SEARCH_SWEEPS = 0.1, 40
_SEARCH_BINS = 200  # that a search needs at least, for the evidence of ten thousand voxels
_FEW = 4  # components
_GLANCE, _HOPELESS = 8, 100.0  # after so many sweeps, a deficit of so many nats is not made up
_CLEARLY = 10.0  # nats by which few components must win: matching can use the others
_TOLERANCE, _MAX_SWEEPS = 1e-2, 5000  # nats that a step must gain, or it counts as none
_STRENGTH = 0.1  # κ0, how many voxels the prior mean is worth
_LIGHTEST = 1e-3  # weight below which a component is pruned
_LEAST_MASS = 0.5  # voxels, of tempered counts, below which a component is empty
_MAX_TRUNCATION = 500  # what is fitted can be stored, see `MAX_STORED`


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Value):
    """The result of `fit`.

    Attributes
    ----------
    mixture : the density, in the units of the data.
    bounds : (steps,), the lower bound on the log evidence along the final ascent, in nats, for
        the tempered counts in the units of the data. It never falls.
    status : whether the fit converged.

    Examples
    --------
    >>> fitted = fit(Histogram([1.0, 2.0, 3.0], [40.0, 80.0, 40.0]))
    >>> fitted
    Fit(components=1, converged=True)
    >>> fitted.mixture.mean().round(6)
    array([2.])
    """

    mixture: GaussianMixture
    bounds: FloatArray
    status: Status

    def __post_init__(self) -> None:
        """Validate."""
        self._set(bounds=real_array(self.bounds, "bounds", None))

    def __repr__(self) -> str:
        """Return the number of components, and how the fit ended."""
        return f"Fit(components={self.mixture.components}, converged={self.status.converged})"


def fit(
    histogram: Histogram,
    *,
    concentration: float = 2.0,
    truncation: int = 20,
    effective_count: float = 1e4,
    start: GaussianMixture | None = None,
) -> Fit:
    """Fit a Dirichlet-process Gaussian mixture to a histogram.

    Parameters
    ----------
    histogram : the data.
    concentration : α; larger values expect more components.
    truncation : T, the largest possible number of components.
    effective_count : how many independent voxels the histogram is worth at most.
    start : start from this mixture of at most `truncation` components, for example the fit of a
        similar scan, instead of searching for a starting point.

    Returns
    -------
    The fitted mixture, its components sorted by their mean in the first channel, with the lower
    bounds on the log evidence and the status of the fit.

    Raises
    ------
    DegenerateDataError : all voxels are equal, or one channel is a linear function of the others.
    InvalidValueError : an option out of its range.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> tissues = GaussianMixture([0.5, 0.5], [60.0, 100.0], [1 / 36, 1 / 16])
    >>> voxels = tissues.sample(20_000, generator).round().astype(int)
    >>> counts = np.bincount(voxels[:, 0])
    >>> fitted = fit(Histogram(np.arange(counts.size), counts))
    >>> fitted.status.converged
    True
    >>> fitted.mixture.means.round()
    array([[ 60.],
           [100.]])
    """
    whole(truncation, "truncation", 1, _MAX_TRUNCATION)
    alpha = positive(concentration, "concentration")
    used = condensed(trimmed(histogram))
    counts = used.counts * min(1.0, positive(effective_count, "effective_count") / used.total)
    centre, scale = _standardisation(used)
    within = np.diag((used.widths / scale) ** 2 / 12)
    data = Data((used.values - centre) / scale, counts, within)
    dof = used.channels + 3.0
    spread = dof * _STRENGTH / (1 + _STRENGTH) * used.covariance() / np.outer(scale, scale)
    prior = Prior(alpha, _STRENGTH, dof, spread)
    if start is None:
        rough = _rough(data, np.abs(used.widths / scale))
        begin = _searched(rough, prior, truncation)
    else:
        moved = start.transformed(np.diag(1 / scale), -centre / scale)
        r = np.moveaxis(moved.responsibilities(data.x).reshape(-1, moved.components), 1, 0)
        begin = padded(by_mass(variational.moments_under(data, r, moved.means)), truncation)
    climbed = _climb_sorted(data, prior, begin)
    units = float(counts.sum() * np.log(np.abs(scale)).sum())
    sweeps = len(climbed.bounds)
    message = f"converged after {sweeps} sweeps"
    if not climbed.converged:
        message = f"still rising after {sweeps} sweeps; the mixture is usable, "
        message += "and a smaller effective_count stops earlier"
    mixture = _mixture(prior, climbed.moments, used, centre, scale)
    status = Status(climbed.converged, sweeps, message)
    return Fit(mixture, np.array(climbed.bounds) - units, status)


def _standardisation(histogram: Histogram) -> tuple[FloatArray, FloatArray]:
    """Return the centre and scale of each channel; the sign of the scale makes it skewed right."""
    centre = histogram.mean()
    variances = np.diagonal(histogram.covariance())
    for channel, variance in enumerate(variances):
        if not variance > 0:
            raise DegenerateDataError(f"all voxels are {centre[channel]:g}; check image and mask")
    skewness = einsum(
        "n,ni->i", histogram.counts, ((histogram.values - centre) / np.sqrt(variances)) ** 3
    )
    scale: FloatArray = np.sqrt(variances) * np.where(skewness < 0, -1.0, 1.0)
    correlation = histogram.covariance() / np.outer(scale, scale)
    if np.linalg.eigvalsh(correlation)[0] < 1e-10:
        raise DegenerateDataError("one channel is a linear function of the others; fit without it")
    return centre, scale


def _rough(data: Data, widths: FloatArray) -> Data:
    """Join bins until there are a few hundred, for the search of a starting point only.

    More evidence shows finer detail, and keeps more bins. The sign of standardised data is fixed,
    so this too commutes with a change of units.
    """
    needed = _SEARCH_BINS * np.sqrt(max(1.0, float(data.counts.sum()) / 1e4))
    doublings = int(np.log2(len(data.counts) / needed) / len(widths))
    if doublings < 1 or not widths.all():
        return data
    step = widths * 2**doublings
    low = data.x.min(axis=0) - 0.5 * widths
    centres = low + (np.floor((data.x - low) / step) + 0.5) * step
    x, counts = joined(centres, data.counts)
    return Data(x, counts, np.diag(step**2 / 12))


def _searched(data: Data, prior: Prior, truncation: int) -> Moments:
    """Return a starting point: components merged from many, or few components from the outset."""
    first = divided(data, truncation)
    for _ in range(_FIRST_SWEEPS):
        bound, first = variational.sweep(data, prior, first)
    simpler = padded(merged(data, prior, first), truncation)
    # Merges were judged with fewer components; they stand only if the bound rises with all T too.
    begin = simpler if variational.sweep(data, prior, simpler)[0] >= bound else first
    brief = variational.climb(data, prior, begin, _SEARCH_TOLERANCE, _SEARCH_SWEEPS)
    few = _best_of_few(data, prior, truncation, least=brief.bounds[-1] + _CLEARLY)
    return brief.moments if few is None else few


def _best_of_few(data: Data, prior: Prior, truncation: int, least: float) -> Moments | None:
    """Start from four components or fewer: merging can miss that so few are enough."""
    best = None
    for count in range(min(_FEW, truncation), 0, -1):
        glance = variational.climb(data, prior, divided(data, count), _SEARCH_TOLERANCE, _GLANCE)
        if glance.bounds[-1] < least - _HOPELESS:
            break  # even fewer components are even worse
        few = variational.climb(data, prior, glance.moments, _SEARCH_TOLERANCE, _SEARCH_SWEEPS)
        trial = padded(few.moments, truncation)
        bound, _ = variational.sweep(data, prior, trial)
        if bound > least:
            best, least = trial, bound
    return best


def _climb_sorted(data: Data, prior: Prior, begin: Moments) -> Climb:
    """Climb, and climb again from the components sorted by mass for as long as that helps.

    The prior prefers heavy components first, but the last stick is special: sorting can also
    lower the bound, so it is kept only if the bound rises.
    """
    result = variational.climb(data, prior, begin, _TOLERANCE, _MAX_SWEEPS)
    while result.converged and len(result.bounds) < _MAX_SWEEPS:
        ordered = by_mass(result.moments)
        bound, _ = variational.sweep(data, prior, ordered)
        if not bound > result.bounds[-1] + _TOLERANCE:
            break
        again = variational.climb(data, prior, ordered, _TOLERANCE, _MAX_SWEEPS)
        result = again._replace(bounds=result.bounds + again.bounds)
    return result


def _mixture(
    prior: Prior, moments: Moments, used: Histogram, centre: FloatArray, scale: FloatArray
) -> GaussianMixture:
    q = variational.posterior(prior, moments)
    weights = q.weights()
    widths = np.maximum(np.abs(used.widths / scale), 1e-9)
    precisions = _without_binning(q.precision, widths)
    # The prior reserves some weight for components without any points: they are dropped as well.
    occupied = weights * (moments.mass >= min(_LEAST_MASS, moments.mass.max()))
    shares = occupied / occupied.sum()
    keep = shares >= _LIGHTEST
    shares = shares[keep]
    pruned = GaussianMixture(shares / shares.sum(), q.mean[keep], precisions[keep])
    result = pruned.transformed(np.diag(scale), centre)
    order = np.argsort(result.means[:, 0], kind="stable")
    return GaussianMixture(result.weights[order], result.means[order], result.precisions[order])


def _without_binning(precisions: FloatArray, widths: FloatArray) -> FloatArray:
    """Subtract twice the variance of a bin, h²/12, from each component, but keep at least h²/12.

    Once because binning has added it to the data, and once because the fit has added it again, by
    treating the bins as intervals.
    """
    per_bin = gaussian.inverse(precisions) / np.outer(widths, widths)
    variances, axes = np.linalg.eigh(per_bin)
    variances = np.maximum(variances - 1 / 6, np.minimum(variances, 1 / 12))
    result = einsum("kij,kj,klj->kil", axes, 1 / variances, axes) / np.outer(widths, widths)
    return gaussian.symmetric(result)


# ── the starting point ────────────────────────────────────────────────────────────────────────────
# Many small components, then merges of neighbours.
#
# `divided` cuts the histogram repeatedly across its main axis into T cells, each of which holds an
# equal share of the *square root* of the counts. Plain counts would spend nearly all components on
# the bulk and none on the tails, such as the CSF of a T1w scan.
#
# `merged` then merges neighbours for as long as that raises the bound. Each pair gets a score: by
# how much the bound would change if their responsibilities were added and nothing else moved.
# Pairs with a positive score are merged at once. When none is left, the best pairs are tried in
# turn with a few sweeps, and the first that lifts the bound clearly is accepted. Both sides of
# that comparison have the same number of components, because the bound depends on it: a merged
# pair leaves an empty component behind, which is removed only afterwards.

_TRIAL = 20  # sweeps in which a merge must prove itself
_AT_ONCE = 1 << 16  # array elements of the pairs on trial together, which fit the processor's cache
_WORTH = 1.5  # nats that a merge must gain by then: a match can use the components
_EMPTY = 1.0  # a component with less than one point counts as empty


def divided(data: Data, components: int) -> Moments:
    """Return the moments of `components` cells with equal shares of the square root of counts."""
    cells = np.empty(len(data.counts), dtype=np.intp)
    root = np.sqrt(data.counts)
    todo = [(np.arange(len(root)), 0, components)]
    while todo:
        members, first, share = todo.pop()
        if share == 1 or len(members) < 2:
            cells[members] = first
            continue
        along = gaussian.main_coordinate(data.x[members], root[members])
        order = members[np.argsort(along, kind="stable")]
        reached = np.cumsum(root[order])
        half = share // 2
        middle = reached - 0.5 * root[order]
        cut = int(np.searchsorted(middle, reached[-1] * half / share))
        todo += [(order[:cut], first, half), (order[cut:], first + half, share - half)]
    belongs = (cells == np.arange(components)[:, np.newaxis]).astype(np.float64)
    about = np.zeros((components, data.x.shape[1]))
    return by_mass(variational.moments_under(data, belongs, about))


def by_mass(moments: Moments) -> Moments:
    """Return the moments with the heaviest component first, as the prior prefers."""
    return _picked(moments, np.argsort(-moments.mass, kind="stable"))


def padded(moments: Moments, components: int) -> Moments:
    """Return the moments with empty components added at the end."""
    missing = components - len(moments.mass)
    d = moments.mean.shape[1]
    return Moments(
        np.concatenate([moments.mass, np.zeros(missing)]),
        np.concatenate([moments.mean, np.zeros((missing, d))]),
        np.concatenate([moments.scatter, np.zeros((missing, d, d))]),
    )


def merged(data: Data, prior: Prior, moments: Moments) -> Moments:
    """Return the moments after all merges of neighbours that raise the bound."""
    here = _occupied(moments)
    for _ in range(2 * len(moments.mass)):
        if len(here.mass) == 1:
            break
        _, here = variational.sweep(data, prior, here)  # settle after the last merge
        bound, _ = variational.sweep(data, prior, here)
        pairs, scores = _ranked_pairs(data, prior, here)
        better = _all_promising(data, prior, here, bound, pairs[scores > 0])
        if better is None:
            better = _first_proven(data, prior, here, bound + _WORTH, pairs)
        if better is None:
            break
        here = _occupied(better)
    return here


def _all_promising(
    data: Data, prior: Prior, here: Moments, bound: float, pairs: NDArray[np.intp]
) -> Moments | None:
    """Merge the best disjoint pairs at once; None if the bound does not rise."""
    taken: set[int] = set()
    chosen = []
    for pair in pairs.tolist():
        if taken.isdisjoint(pair):
            taken.update(pair)
            chosen.append(pair)
    if not chosen:
        return None
    trial = _joined(here, np.array(chosen, dtype=np.intp).reshape(-1, 2))
    level, after = variational.sweep(data, prior, trial)
    return after if level > bound else None


def _first_proven(
    data: Data, prior: Prior, here: Moments, goal: float, pairs: NDArray[np.intp]
) -> Moments | None:
    """Merge the first pair that lifts the bound above a goal within a few sweeps, if there is one.

    Longer trials end at a higher bound, but with fewer components than a good match needs.
    """
    at_once = max(1, _AT_ONCE // (data.x.size * len(here.mass)))
    first, last = 0, 1  # the most promising pair on its own, because it mostly succeeds
    while first < len(pairs):
        best = _proven(data, prior, here, goal, pairs[first:last])
        if best is not None:
            return best
        first, last = last, last + at_once
    return None


def _proven(
    data: Data, prior: Prior, here: Moments, goal: float, pairs: NDArray[np.intp]
) -> Moments | None:
    """Try several merges at once; return the moments after the first that reaches the goal."""
    merges = [_joined(here, pair[np.newaxis]) for pair in pairs]
    trials = Moments(*(np.stack(parts) for parts in zip(*merges, strict=True)))
    last: FloatArray | float = -np.inf
    best = None
    for left in range(_TRIAL, 0, -1):
        levels, after = variational.expectation(data, variational.posterior(prior, trials))
        # Sweeps gain less and less: give up once even gains like the last would not suffice.
        going = levels + left * (levels - last) >= goal
        proven = levels > goal
        if proven.any():
            first = int(np.argmax(proven))
            best = _picked(after, first)
            going[first:] = False  # only pairs before it could still be preferred
        if not going.any():
            break
        trials, last = _picked(after, going), levels[going]
    return best


def _ranked_pairs(data: Data, prior: Prior, here: Moments) -> tuple[NDArray[np.intp], FloatArray]:
    """Return pairs of neighbours, (pairs, 2), and their scores, most promising first."""
    one, two = _neighbours(here)
    scores = _scores(data, prior, here, one, two)
    order = np.argsort(-scores, kind="stable")
    return np.stack([one, two], axis=1)[order], scores[order]


def _neighbours(moments: Moments) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the pairs in which one is among the two nearest to the other (Bhattacharyya)."""
    count, d = moments.mean.shape
    covariances = moments.scatter / moments.mass[:, np.newaxis, np.newaxis] + 1e-6 * np.eye(d)
    between = 0.5 * (covariances[:, np.newaxis] + covariances[np.newaxis])
    shift = moments.mean[:, np.newaxis] - moments.mean[np.newaxis]
    flat = between.reshape(-1, d, d)
    reach = gaussian.quadratic(gaussian.inverse(flat), shift.reshape(-1, 1, d)).reshape(
        count, count
    )
    own = gaussian.log_det(covariances)
    spread = gaussian.log_det(flat).reshape(count, count)
    distance = reach / 8 + 0.5 * (spread - 0.5 * (own[:, np.newaxis] + own[np.newaxis]))
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1, kind="stable")[:, :2]
    linked = np.zeros((count, count), dtype=bool)
    linked[np.arange(count)[:, np.newaxis], near] = True
    np.fill_diagonal(linked, False)
    one, two = np.nonzero(np.triu(linked | linked.T))
    return one, two


def _scores(
    data: Data, prior: Prior, here: Moments, one: NDArray[np.intp], two: NDArray[np.intp]
) -> FloatArray:
    """Return by how much the bound would change if two components were one.

    For fixed responsibilities the bound is a sum of the log marginal likelihoods of the components,
    of an entropy, and of a term of the sticks, taken here to leading order, ``Σ N ln N``.
    """
    terms, _ = variational.posterior(prior, here).log_joint(data)
    r = gaussian.softmax(terms)
    r += 1e-300  # so that r ln r is 0 where r is
    disorder = r * np.log(r)
    both = r[one] + r[two]
    lost = (data.counts * (disorder[one] + disorder[two] - both * np.log(both))).sum(axis=1)
    pooled = _pooled(here, one, two)
    alone, together = _log_marginal(prior, here), _log_marginal(prior, pooled)
    size = special.xlogy(here.mass, here.mass)
    sticks = special.xlogy(pooled.mass, pooled.mass) - size[one] - size[two]
    result: FloatArray = lost + together - alone[one] - alone[two] + sticks
    return result


def _log_marginal(prior: Prior, moments: Moments) -> FloatArray:
    """Return the log evidence of each component's points, up to a constant per point."""
    mass, mean, scatter = moments
    d = mean.shape[1]
    kappa, dof = prior.strength + mass, prior.dof + mass
    pull = (prior.strength * mass / kappa)[:, np.newaxis, np.newaxis]
    log_det = gaussian.log_det(prior.scale + scatter + pull * gaussian.outer(mean))
    result: FloatArray = (
        special.gammaln(prior.halves(dof)).sum(axis=-2)
        - prior.log_gamma
        - 0.5 * (dof * log_det - prior.dof * prior.log_det_scale)
        - 0.5 * d * np.log(kappa / prior.strength)
    )
    return result


def _pooled(here: Moments, one: NDArray[np.intp], two: NDArray[np.intp]) -> Moments:
    """Return the moments of pairs of components taken together."""
    a, b = here.mass[one], here.mass[two]
    mass = a + b
    mean = (a[:, np.newaxis] * here.mean[one] + b[:, np.newaxis] * here.mean[two]) / mass[
        :, np.newaxis
    ]
    apart = gaussian.outer(here.mean[one] - here.mean[two])
    pull = (a * b / mass)[:, np.newaxis, np.newaxis]
    return Moments(mass, mean, here.scatter[one] + here.scatter[two] + pull * apart)


def _joined(here: Moments, pairs: NDArray[np.intp]) -> Moments:
    """Return the moments with pairs pooled, each replaced by one component and an empty one."""
    alone = np.ones(len(here.mass), dtype=bool)
    alone[pairs] = False
    both = _picked(here, alone), _pooled(here, pairs[:, 0], pairs[:, 1])
    fewer = Moments(*(np.concatenate(parts) for parts in zip(*both, strict=True)))
    return padded(by_mass(fewer), len(here.mass))


def _picked(moments: Moments, which: int | NDArray[np.bool_] | NDArray[np.intp]) -> Moments:
    return Moments(*(part[which] for part in moments))


def _occupied(moments: Moments) -> Moments:
    chosen = np.flatnonzero(moments.mass > _EMPTY)
    if not chosen.size:
        chosen = np.argsort(-moments.mass, kind="stable")[:1]
    return by_mass(_picked(moments, chosen))
