"""Weights with which a sample has given moments, or the proof that there are none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from ndflow.population.balancing import tilt

SEEDS = st.integers(0, 2**32 - 1)


def test_the_mean_of_a_bernoulli_variable_is_its_weight() -> None:
    found = tilt(np.array([[0.0], [1.0], [1.0]]), np.array([0.1]))
    np.testing.assert_allclose(found.weights, [0.9, 0.05, 0.05], rtol=1e-9)
    assert found.status == "solved"


def test_a_relaxed_solution_leaves_an_imbalance_in_proportion_to_its_multipliers() -> None:
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


def test_a_target_at_the_border_is_reached_with_weights_of_nothing_elsewhere() -> None:
    found = tilt(np.array([[0.0], [1.0], [2.0]]), np.array([2.0]))
    assert found.status != "outside"
    np.testing.assert_allclose(found.weights, [0, 0, 1], atol=1e-9)


@settings(max_examples=40)
@given(SEEDS, st.floats(0, 3))
def test_either_the_weights_are_found_or_the_proof_that_there_are_none(
    seed: int, far: float
) -> None:
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
