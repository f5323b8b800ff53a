"""Entropy balancing: weights of scans with which covariates are alike at all sites."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from ndflow.errors import InvalidValueError
from ndflow.population.balancing import FEWEST, Balance, balance, effective_scans, tilt

SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int, *, gap: float = 0.5) -> tuple[dict[str, Any], list[str]]:
    """Return the ages and sexes of people of two to four sites, whose mean ages differ."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(3, 30, generator.integers(2, 5))
    sites = np.repeat([f"site {i}" for i in range(sizes.size)], sizes)
    means = np.repeat(50 + 10 * gap * generator.standard_normal(sizes.size), sizes)
    ages = means + 10 * generator.standard_normal(sites.size)
    sexes = np.where(generator.random(sites.size) < 0.5, "F", "M")
    return {"age": ages, "sex": sexes}, sites.tolist()


def rows(sites: list[str], site: str) -> Any:
    return np.asarray(sites) == site


def test_weights_of_three_scans_are_those_of_the_closed_form():
    # The weights of 20, 40 and 60 are 1, x and x². Their mean is 50 if x² − x − 3 = 0.
    x = (1 + np.sqrt(13)) / 2
    shares = np.array([1, x, x**2]) / (1 + x + x**2)
    found = balance({"age": [20, 40, 60, 40, 60, 80]}, [*"AAABBB"])
    np.testing.assert_allclose(found.weights, [*shares, *shares[::-1]], atol=1e-9)
    assert found.target == pytest.approx({"age": 50})
    assert found.sites["A"].before == {"age": 40}
    assert found.sites["A"].effective == pytest.approx(1 / (shares**2).sum())


@settings(max_examples=12)
@given(SEEDS, st.floats(0, 3))
def test_what_is_said_to_be_reached_is_reached(seed, gap):
    covariates, sites = drawn(seed, gap=gap)
    found = balance(covariates, sites)
    sds = {"age": covariates["age"].std(), "sex F": 1.0, "sex M": 1.0}
    squares = []
    for site, own in found.sites.items():
        weights, ages = found.weights[rows(sites, site)], covariates["age"][rows(sites, site)]
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert (weights >= 0).all()
        assert own.effective == pytest.approx(effective_scans(weights))
        assert own.effective >= min(FEWEST, weights.size / 2) - 1e-6
        assert own.after["age"] == pytest.approx(weights @ ages)
        if own.reach != "approximate":
            assert not own.outside
            for name, sd in sds.items():
                assert abs(own.after[name] - found.target[name]) < 1e-8 * sd
        if own.reach == "means and variances":
            squares.append(weights @ (ages / sds["age"]) ** 2)
    if squares:
        np.testing.assert_allclose(squares, squares[0], rtol=1e-8)


def test_sites_without_overlap_come_nearer_but_keep_their_effective_scans():
    ages = np.r_[np.linspace(20, 30, 20), np.linspace(60, 80, 20)]
    found = balance({"age": ages}, [*["young"] * 20, *["old"] * 20])
    young, old = found.sites["young"], found.sites["old"]
    assert young.outside
    assert old.outside
    assert young.before["age"] == pytest.approx(25)
    assert 27 < young.after["age"] < 30
    assert 60 < old.after["age"] < 66
    assert FEWEST <= young.effective < 12
    assert FEWEST <= old.effective < 12


def test_a_site_that_cannot_join_leaves_the_others_balanced():
    generator = np.random.default_rng(0)
    ages = np.r_[generator.normal(45, 12, 40), generator.normal(52, 12, 40), np.full(3, 95.0)]
    found = balance({"age": ages}, [*["A"] * 40, *["B"] * 40, *["C"] * 3])
    assert {site: own.reach for site, own in found.sites.items()} == {
        "A": "means and variances",
        "B": "means and variances",
        "C": "approximate",
    }
    assert found.sites["A"].after["age"] == pytest.approx(found.sites["B"].after["age"])


def reached(found: Balance) -> dict[str, tuple[str, bool]]:
    return {site: (own.reach, own.outside) for site, own in found.sites.items()}


@settings(max_examples=12)
@given(SEEDS, st.floats(0.01, 100), st.floats(-1000, 1000), st.booleans())
def test_neither_units_nor_names_nor_order_matter(seed, unit, zero, down):
    covariates, sites = drawn(seed)
    ages = zero + (-unit if down else unit) * covariates["age"]
    coded = np.where(covariates["sex"] == "F", "women", "men")
    order = np.random.default_rng(seed).permutation(len(sites))
    moved = balance({"years": ages[order], "who": coded[order]}, [sites[i] for i in order])
    expected = balance(covariates, sites)
    np.testing.assert_allclose(moved.weights, expected.weights[order], atol=1e-7)
    assert reached(moved) == reached(expected)


def test_values_are_checked():
    with pytest.raises(InvalidValueError, match="at least one scan"):
        balance({"age": []}, [])
    with pytest.raises(InvalidValueError, match="age must have one value for each of 2 scans"):
        balance({"age": [1.0]}, ["A", "B"])
    with pytest.raises(InvalidValueError, match="age"):
        balance({"age": [1.0, np.nan]}, ["A", "B"])


def test_weights_of_two_categories_are_shares_of_each():
    # Women are 1 of 4 at A and 3 of 4 at B: by symmetry, the target is a half.
    found = balance({"sex": [*"FMMMFFFM"]}, [*"AAAABBBB"])
    np.testing.assert_allclose(found.weights[:4], [1 / 2, 1 / 6, 1 / 6, 1 / 6], atol=1e-9)
    assert found.target == pytest.approx({"sex F": 0.5, "sex M": 0.5})


# ── exponential tilting ──────────────────────────────────────────────────────────────────────────


def test_a_relaxed_solution_leaves_an_imbalance_in_proportion_to_its_multipliers():
    features = np.random.default_rng(0).standard_normal((20, 2))
    target, r = np.array([5.0, 0.0]), 0.3
    found = tilt(features, target, r)
    np.testing.assert_allclose(features.T @ found.weights - target, -r * found.multipliers)

    def penalised(logits: np.ndarray) -> float:
        w = np.exp(logits - logits.max())
        w /= w.sum()
        return float((w * np.log(20 * w)).sum() + ((features.T @ w - target) ** 2).sum() / (2 * r))

    solved = optimize.minimize(penalised, np.zeros(20), method="BFGS", options={"gtol": 1e-9})
    assert -found.value == pytest.approx(solved.fun, rel=1e-6)


def test_a_target_at_the_border_is_reached_with_weights_of_nothing_elsewhere():
    found = tilt(np.array([[0.0], [1.0], [2.0]]), np.array([2.0]))
    assert found.status != "outside"
    np.testing.assert_allclose(found.weights, [0, 0, 1], atol=1e-9)


@settings(max_examples=25)
@given(SEEDS, st.floats(0, 3))
def test_either_the_weights_are_found_or_the_proof_that_there_are_none(seed, far):
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((generator.integers(1, 30), generator.integers(1, 4)))
    direction = generator.standard_normal(features.shape[1])
    target = features.mean(axis=0) + far * direction / np.linalg.norm(direction)
    found = tilt(features, target)
    possible = optimize.linprog(
        np.zeros(len(features)),
        A_eq=np.vstack([features.T, np.ones(len(features))]),
        b_eq=[*target, 1.0],
    ).success
    if possible:
        assert found.status == "solved"
        np.testing.assert_allclose(features.T @ found.weights, target, atol=1e-8)
    else:
        assert found.status == "outside"
        assert ((features - target) @ found.multipliers < 0).all()  # a plane lies between
