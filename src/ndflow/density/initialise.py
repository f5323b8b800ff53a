"""The starting point of a fit: many small components, then merges of neighbours.

`divided` cuts the histogram repeatedly across its main axis into T cells, each of which holds an
equal share of the *square root* of the counts. Plain counts would spend nearly all components on
the bulk and none on the tails, such as the CSF of a T1w scan.

`merged` then merges neighbours for as long as that raises the bound. Each pair gets a score: by how
much the bound would change if their responsibilities were added and nothing else moved. Pairs with
a positive score are merged at once. When none is left, the best pairs are tried in turn with a few
sweeps, and the first that lifts the bound clearly is accepted. Both sides of that comparison have
the same number of components, because the bound depends on it: a merged pair leaves an empty
component behind, which is removed only afterwards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ndflow.density import gaussian
from ndflow.density.climb import sweep
from ndflow.density.variational import Data, Moments, Prior, expectation, moments_under, posterior
from ndflow.values import FloatArray

_SETTLING = 1  # sweeps after a merge, before the next is considered
_TRIAL = 20  # sweeps in which a merge must prove itself
_AT_ONCE = 1 << 16  # array elements of the pairs on trial together, which fit the processor's cache
_WORTH = 1.5  # nats that a merge must gain by then: a match can use the components
_EMPTY = 1.0  # a component with less than one point counts as empty


def divided(data: Data, components: int, concentration: float) -> Moments:
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
    return by_mass(moments_under(data, belongs, about, concentration))


def by_mass(moments: Moments) -> Moments:
    """Return the moments with the heaviest component first, as the prior prefers."""
    return _chosen(moments, np.argsort(-moments.mass, kind="stable"))


def padded(moments: Moments, components: int) -> Moments:
    """Return the moments with empty components added at the end."""
    missing = components - len(moments.mass)
    d = moments.mean.shape[1]
    return Moments(
        np.concatenate([moments.mass, np.zeros(missing)]),
        np.concatenate([moments.mean, np.zeros((missing, d))]),
        np.concatenate([moments.scatter, np.zeros((missing, d, d))]),
        moments.concentration,
    )


def merged(data: Data, prior: Prior, moments: Moments) -> Moments:
    """Return the moments after all merges of neighbours that raise the bound."""
    here = _occupied(moments)
    for _ in range(2 * len(moments.mass)):
        if len(here.mass) == 1:
            break
        for _ in range(_SETTLING):
            _, here = sweep(data, prior, here)
        bound, _ = sweep(data, prior, here)
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
    level, after = sweep(data, prior, trial)
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
    trials = _stacked([_joined(here, pair[np.newaxis]) for pair in pairs])
    last: FloatArray | float = -np.inf
    best = None
    for left in range(_TRIAL, 0, -1):
        levels, after = expectation(data, posterior(prior, trials))
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
    terms, _ = posterior(prior, here).log_joint(data)
    r = gaussian.softmax(terms)
    r += 1e-300  # so that r ln r is 0 where r is
    disorder = r * np.log(r)
    both = r[one] + r[two]
    lost = (data.counts * (disorder[one] + disorder[two] - both * np.log(both))).sum(axis=1)
    mass, mean, scatter = _pooled(here, one, two)
    alone = _log_marginal(prior, here.mass, here.mean, here.scatter)
    together = _log_marginal(prior, mass, mean, scatter)
    size = special.xlogy(here.mass, here.mass)
    sticks = special.xlogy(mass, mass) - size[one] - size[two]
    result: FloatArray = lost + together - alone[one] - alone[two] + sticks
    return result


def _log_marginal(
    prior: Prior, mass: FloatArray, mean: FloatArray, scatter: FloatArray
) -> FloatArray:
    """Return the log evidence of each component's points, up to a constant per point."""
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


def _pooled(
    here: Moments, one: NDArray[np.intp], two: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mass, mean and scatter of pairs of components taken together."""
    a, b = here.mass[one], here.mass[two]
    mass = a + b
    mean = (a[:, np.newaxis] * here.mean[one] + b[:, np.newaxis] * here.mean[two]) / mass[
        :, np.newaxis
    ]
    apart = gaussian.outer(here.mean[one] - here.mean[two])
    pull = (a * b / mass)[:, np.newaxis, np.newaxis]
    return mass, mean, here.scatter[one] + here.scatter[two] + pull * apart


def _joined(here: Moments, pairs: NDArray[np.intp]) -> Moments:
    """Return the moments with pairs pooled, each replaced by one component and an empty one."""
    alone = np.ones(len(here.mass), dtype=bool)
    alone[pairs] = False
    kept = _chosen(here, np.flatnonzero(alone))
    pooled = _pooled(here, pairs[:, 0], pairs[:, 1])
    mass, mean, scatter = (np.concatenate([k, p]) for k, p in zip(kept[:3], pooled, strict=True))
    return padded(by_mass(Moments(mass, mean, scatter, here.concentration)), len(here.mass))


def _stacked(several: list[Moments]) -> Moments:
    return Moments(*(np.stack(parts) for parts in zip(*several, strict=True)))


def _picked(several: Moments, which: int | NDArray[np.bool_]) -> Moments:
    return Moments(*(np.asarray(part)[which] for part in several))


def _occupied(moments: Moments) -> Moments:
    chosen = np.flatnonzero(moments.mass > _EMPTY)
    if not chosen.size:
        chosen = np.argsort(-moments.mass, kind="stable")[:1]
    return by_mass(_chosen(moments, chosen))


def _chosen(moments: Moments, which: NDArray[np.intp]) -> Moments:
    return Moments(
        moments.mass[which], moments.mean[which], moments.scatter[which], moments.concentration
    )
