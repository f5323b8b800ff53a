"""Tissue maps of different labellers: noticed by proportions, and distinguished from people."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ndflow.study.checks import OTHER_LABELS, labeller_doubts

MEAN = np.array([0.25, 0.45, 0.30])  # CSF, GM, WM
SD, CORRELATION = np.array([0.0308, 0.0145]), -0.465  # of CSF and WM among people of a site
CHANGES = {  # to what another labeller may do
    "CSF": np.array([0.15, -0.10, -0.05]),
    "GM": np.array([0.12, -0.14, 0.02]),
    "WM": np.array([-0.02, -0.08, 0.10]),
}


def people(count: int, seed: int, *, spread: float = 1.0) -> NDArray[np.float64]:
    """Return the proportions of people of one site."""
    generator = np.random.default_rng(seed)
    off = SD[0] * SD[1] * CORRELATION
    csf, wm = generator.multivariate_normal(
        MEAN[[0, 2]], spread**2 * np.array([[SD[0] ** 2, off], [off, SD[1] ** 2]]), count
    ).T
    return np.stack([csf, 1 - csf - wm, wm], axis=1)


def alike(mean: Any, count: int) -> NDArray[np.float64]:
    """Return people who are all the same."""
    return np.tile(np.asarray(mean, np.float64), (count, 1))


def named(sites: dict[str, NDArray[np.float64]]) -> set[str]:
    return {doubt.text.removeprefix("At ").partition(",")[0] for doubt in labeller_doubts(sites)}


@pytest.mark.parametrize("sizes", [(1, 1), (2, 30), (5, 5, 5), (40, 40), (3, 8, 20, 50, 1)])
def test_people_of_one_labeller_are_no_reason_to_warn(sizes: tuple[int, ...]) -> None:
    fired = 0
    for seed in range(100):
        sites = {str(n): people(size, 10 * seed + n) for n, size in enumerate(sizes)}
        fired += bool(labeller_doubts(sites))
    assert fired <= 1


@pytest.mark.parametrize("tissue", CHANGES)
def test_another_labeller_is_noticed_and_what_differs_is_said(tissue: str) -> None:
    sites = {name: people(10, seed) for seed, name in enumerate(("Bonn", "Kiel", "Ulm"))}
    sites["Kiel"] = sites["Kiel"] + CHANGES[tissue]
    (doubt,) = labeller_doubts(sites)
    place = ("CSF", "GM", "WM").index(tissue)
    own = sites["Kiel"][:, place].mean()
    usual = np.mean([sites[name][:, place].mean() for name in ("Bonn", "Ulm")])
    assert doubt.kind == OTHER_LABELS
    assert doubt.text.startswith(
        f"At Kiel, {tissue} is {100 * own:.0f} % of all tissue, but {100 * usual:.0f} % at Bonn "
        f"and Ulm; people of one site differ by only "
    )
    assert "ndflow prepare" in doubt.hint
    assert "--proportions adaptive" in doubt.hint
    (other,) = labeller_doubts(sites, maps_needed=False)
    assert (other.text, "--proportions" in other.hint) == (doubt.text, False)


def test_the_bound_is_three_standard_deviations_of_people_sites_and_means() -> None:
    """Computed here from the density of a normal distribution, which has the distance in it."""
    off = SD[0] * SD[1] * CORRELATION
    people_differ = stats.multivariate_normal([0, 0], [[SD[0] ** 2, off], [off, SD[1] ** 2]])
    step = np.array([0.004, -0.008, 0.004])
    squared = 2 * (people_differ.logpdf([0, 0]) - people_differ.logpdf(step[[0, 2]]))
    for own, others in ((1, 1), (4, 10), (50, 50)):
        bound = 3 * np.sqrt((1 + 1 / own + 1 / others) / squared)
        for factor, warns in ((0.95, 0), (1.05, 1)):
            sites = {"A": alike(MEAN + factor * bound * step, own), "B": alike(MEAN, others)}
            assert len(labeller_doubts(sites)) == warns


def test_sites_in_which_people_differ_more_may_differ_more() -> None:
    shift = np.array([0.10, -0.10, 0.0])
    assert labeller_doubts({"A": people(30, 0), "B": people(30, 1) + shift})
    wide = {name: people(30, seed, spread=2) for seed, name in enumerate("AB")}
    assert not labeller_doubts(wide | {"B": wide["B"] + shift})


def test_sites_with_little_variation_are_judged_as_people_are() -> None:
    shift = np.array([0.04, -0.04, 0.0])  # of age, for example
    assert not labeller_doubts({"A": alike(MEAN, 20), "B": alike(MEAN + shift, 20)})


def test_several_sites_of_another_labeller_are_all_named() -> None:
    sites = {name: people(12, seed) for seed, name in enumerate("ABCDE")}
    for name in "BD":
        sites[name] = sites[name] + CHANGES["WM"]
    assert named(sites) == {"B", "D"}
    assert named(dict(reversed(sites.items()))) == {"B", "D"}


def test_a_single_site_or_none_cannot_differ() -> None:
    assert labeller_doubts({}) == ()
    assert labeller_doubts({"A": people(5, 0)}) == ()
    assert labeller_doubts({"A": people(5, 0), "B": np.empty((0, 3))}) == ()
