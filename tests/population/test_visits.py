"""Lines between the visits of a person, and what travelling people say about scanners."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mixtures import random_mixture
from numpy.typing import NDArray
from scipy import optimize, sparse, special
from scipy.sparse import csgraph

from ndflow import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.population.travelling import connected, travellers_by_site
from ndflow.population.visits import lines_of_visits, pooled_quantiles

Array = NDArray[np.float64]
MEANS, SDS = np.array([-1.9, -0.1, 1.0]), np.array([0.5, 0.35, 0.25])


def brain(*shares: float) -> Array:
    """The quantiles of a brain with these shares of CSF, GM and WM."""
    return GaussianMixture(list(shares), MEANS, SDS**-2).quantile(QUANTILE_LEVELS)


def scored(quantiles: Array) -> Array:
    return (quantiles - quantiles.mean()) / quantiles.std()


def same(x: Any) -> Any:
    return x


def bent(x: Any) -> Any:
    """A map of a site, in the units of results."""
    return 500 + 125 * (x + 0.3 * np.sin(x))


@pytest.mark.parametrize("way", [same, bent])
@pytest.mark.parametrize("seed", range(4))
def test_visits_that_differ_by_gain_are_brought_together(
    seed: int, way: Callable[[Array], Array]
) -> None:
    first = random_mixture(np.random.default_rng(seed), 3).quantile(QUANTILE_LEVELS)
    visits = [first, 1.1 * first - 0.2, 0.95 * first + 0.05]
    lines = lines_of_visits(visits, [way] * 3)
    there = [line(visit) for line, visit in zip(lines, visits, strict=True)]
    np.testing.assert_allclose(there[1], there[0], atol=5e-3)
    np.testing.assert_allclose(there[2], there[0], atol=5e-3)
    factors = [float(line.matrix[0, 0]) for line in lines]
    offsets = [float(line.offset[0]) for line in lines]
    assert abs(np.log(factors).sum()) < 1e-9
    assert abs(sum(offsets)) < 1e-9


def test_atrophy_is_not_taken_for_gain() -> None:
    """CSF grows by 3 % of the brain; z-scoring moves everything, the lines undo that."""
    visits = [brain(0.20, 0.45, 0.35), brain(0.23, 0.43, 0.34)]
    lines = lines_of_visits([scored(one) for one in visits], [same, same])
    at = [(MEANS - one.mean()) / one.std() for one in visits]  # of the tissues, z-scored
    off = np.abs(at[1] - at[0]).max()
    assert np.abs(lines[1](at[1]) - lines[0](at[0])).max() < 0.1 * off


def test_lines_are_the_best_by_brute_force() -> None:
    """Of the Hellinger distance of blurred densities, on a finer grid, by another optimiser."""
    visits = [scored(brain(0.15, 0.5, 0.35)), scored(brain(0.25, 0.42, 0.33))]
    x = np.linspace(-5, 5, 2001)

    def root(quantiles: Array) -> Array:
        """Return the root of the density of a piecewise uniform distribution, blurred by 0.15."""
        steps = special.ndtr((x[:, np.newaxis] - quantiles) / 0.15)
        mass = (steps[:, :-1] - steps[:, 1:]) / np.diff(quantiles) / (QUANTILE_LEVELS.size + 1)
        return np.sqrt(mass.sum(axis=1) + 1e-6)

    def distance(line: Array) -> float:
        a, b = line
        one = root(-a + np.exp(-b) * visits[0])
        return float(((one - root(a + np.exp(b) * visits[1])) ** 2).sum())

    best = optimize.minimize(distance, np.zeros(2), method="Nelder-Mead").x
    _, found = lines_of_visits(visits, [same, same])
    assert found.offset[0] == pytest.approx(best[0], abs=4e-3)
    assert np.log(found.matrix[0, 0]) == pytest.approx(best[1], abs=4e-3)


def test_pooled_quantiles_are_those_of_all_voxels() -> None:
    one, two = brain(0.3, 0.4, 0.3), 0.5 * brain(0.1, 0.5, 0.4)
    levels = (np.arange(200_000) + 0.5) / 200_000
    both = [np.interp(levels, QUANTILE_LEVELS, own) for own in (one, two)]
    expected = np.quantile(np.concatenate(both), QUANTILE_LEVELS)
    np.testing.assert_allclose(pooled_quantiles([one, two])[4:-4], expected[4:-4], atol=0.02)
    np.testing.assert_array_equal(pooled_quantiles([one]), one)


# ── travelling people ─────────────────────────────────────────────────────────────────────────────

SCANNERS: dict[str, Callable[[Array], Array]] = {
    "W": lambda x: x,
    "X": lambda x: 0.9 * x + 0.25 * np.sin(x),
    "Y": lambda x: x + 0.1 * x**2 / (1 + abs(x)),
    "Z": lambda x: 1.2 * x + 0.3,
}


@pytest.mark.parametrize("seen", [["WXYZ"] * 3, ["WX", "WX", "XY", "YZ", "ZY"]])
def test_maps_of_sites_hold_the_scanner_and_nobodys_brain(seen: list[str]) -> None:
    """Also where no two people were seen at the same sites, and all people differ."""
    rng = np.random.default_rng(3)
    brains = [brain(*rng.dirichlet([20, 45, 35])) for _ in seen]
    people = {
        str(number): {site: SCANNERS[site](own) for site in sites}
        for number, (sites, own) in enumerate(zip(seen, brains, strict=True))
    }
    found = travellers_by_site(people)
    # The same intensity, at all sites, is the same in the space that they share.
    x = np.linspace(-1.8, 1.2, 50)
    shared = [np.interp(SCANNERS[site](x), one.there, one.shared) for site, one in found.items()]
    apart = np.ptp(shared, axis=0).max()
    averages = [
        np.interp(x, found[site].there, SCANNERS["W"](found["W"].there)) for site in ("X", "Z")
    ]
    assert apart < 0.05
    assert apart < 0.1 * np.ptp(averages, axis=0).max()


def test_sites_are_connected_as_in_a_graph() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        people = {str(k): {*map(int, rng.choice(12, 2, replace=False))} for k in range(8)}
        pairs = np.array([sorted(sites) for sites in people.values()])
        graph = sparse.coo_matrix((np.ones(len(pairs)), pairs.T), (12, 12))
        _, labels = csgraph.connected_components(graph, directed=False)
        seen = set().union(*people.values())
        expected = {
            frozenset(s for s in seen if labels[s] == label) for label in {*labels[[*seen]]}
        }
        named = {person: {*map(str, sites)} for person, sites in people.items()}
        assert {frozenset(map(int, one)) for one in connected(named)} == expected
