"""Landmark methods: which landmarks they refuse, average and find in a target."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from every_method import LANDMARK_METHODS, join, measure
from hypothesis import given
from hypothesis import strategies as st
from phantoms import head

import ndflow
from ndflow import Affine, DegenerateDataError, GaussianMixture, InvalidValueError
from ndflow.methods.base import DensityModel
from ndflow.options import Options
from ndflow.population import Landmarks

OF_EACH: dict[str, list[float]] = {
    "zscore": [3.0, 5.0],
    "nyul": [1.0, 2.0, 2.0, 4.0],
    "quantile": [-1.0, 0.0, 2.0],
    "hellier": [1.0, 2.0, 3.0, 4.0, 6.0],
}
FIXED = {"zscore": [0.0, 1.0]}
FROM_DENSITIES = {"zscore", "nyul", "quantile"}
SCAN = head(0)
COUNTED = ndflow.histogram(SCAN, SCAN != 0)
MIXTURE = GaussianMixture([0.25, 0.75], [-1.0, 3.0], [4.0, 1.0])

every_method = pytest.mark.parametrize("method", OF_EACH)
seeds = st.integers(0, 10**6)


# ── what they are ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "values", "message"),
    [
        ("zscore", [1.0], "zscore needs 2 landmarks, not 1"),
        ("hellier", [1.0, 2.0, 3.0, 4.0], "hellier needs 5 landmarks, not 4"),
        ("nyul", [1.0], "nyul needs two or more landmarks, not 1"),
        ("nyul", [], "values of nyul must be"),
        ("nyul", [1.0, 3.0, 2.0], "landmarks must rise"),
        ("nyul", [2.0, 2.0, 2.0], "landmarks must rise"),
        ("zscore", [2.0, 1.0], "landmarks must rise"),
        ("nyul", [1.0, np.nan], "values must be finite"),
        ("nyul", [[1.0, 2.0]], r"values must have the shape \(any\)"),
        ("nyul", ["a", "b"], "values must be an array of real numbers"),
    ],
)
def test_what_cannot_be_landmarks_is_refused(method: str, values: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        LANDMARK_METHODS[method].check_landmarks(Landmarks(method, values))


@pytest.mark.parametrize("method", ["zscore", "nyul", "quantile", "hellier"])
def test_a_scan_of_one_intensity_has_no_landmarks(method: str) -> None:
    with pytest.raises((DegenerateDataError, InvalidValueError)):
        measure(method, ndflow.Histogram([5.0], [100.0]))


# ── averages ─────────────────────────────────────────────────────────────────────────────────────

Scans = list[tuple[Landmarks, Affine, float]]


def study(seed: int, method: str = "nyul", size: int = 4) -> Scans:
    generator = np.random.default_rng(seed)
    count = LANDMARK_METHODS[method].count or 7
    return [
        (
            Landmarks(method, np.cumsum(generator.uniform(0.1, 3, count))),
            Affine(generator.uniform(0.1, 3), generator.normal()),
            float(generator.integers(1, 5)),
        )
        for _ in range(size)
    ]


def average(scans: Any, method: str = "nyul") -> Landmarks:
    return LANDMARK_METHODS[method].average(scans)


@pytest.mark.parametrize("method", ["nyul", "quantile", "hellier"])
@given(seed=seeds)
def test_they_are_averaged_where_each_scan_is_aligned(method: str, seed: int) -> None:
    scans = study(seed, method)
    rows = [
        float(aligned.matrix[0, 0]) * own.values + float(aligned.offset[0])
        for own, aligned, _ in scans
    ]
    expected = np.average(rows, axis=0, weights=[weight for *_, weight in scans])
    found = average(iter(scans), method)
    assert found.method == method
    np.testing.assert_allclose(found.values, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", FIXED)
def test_some_averages_are_known_beforehand(method: str) -> None:
    for seed in range(3):
        assert average(study(seed, method), method) == Landmarks(method, FIXED[method])


@given(seed=seeds)
def test_a_weight_counts_a_scan_that_many_times(seed: int) -> None:
    scans = study(seed)
    replicated = [(own, aligned, 1.0) for own, aligned, times in scans for _ in range(int(times))]
    np.testing.assert_allclose(average(replicated).values, average(scans).values, rtol=1e-12)
    alone = [(own, aligned, float(place == 2)) for place, (own, aligned, _) in enumerate(scans)]
    own, aligned, _ = scans[2]
    np.testing.assert_allclose(average(alone).values, aligned(own.values), rtol=1e-12)


@pytest.mark.parametrize(
    ("scans", "message"),
    [
        (study(0, "nyul") + study(0, "hellier"), "'nyul' needs its own landmarks"),
        ([*study(0), (Landmarks("nyul", [1, 2]), Affine(1.0, 0.0), 1.0)], "the same number"),
    ],
)
def test_what_cannot_be_averaged_is_refused(scans: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        average(scans)


# ── targets ──────────────────────────────────────────────────────────────────────────────────────


@every_method
@pytest.mark.parametrize("averaged", [True, False])
def test_a_target_has_those_that_were_saved_with_it(method: str, averaged: bool) -> None:
    saved = Landmarks(method, OF_EACH[method])
    options = Options(method=method, landmarks=saved.values.size if method == "nyul" else 11)
    chosen = LANDMARK_METHODS[method]
    assert chosen.target_landmarks(saved, MIXTURE, options, averaged=averaged) is saved


@every_method
@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("saved", [None, Landmarks("another", [1.0, 2.0])])
def test_without_them_they_are_those_of_its_density_or_it_is_refused(
    method: str, averaged: bool, saved: Landmarks | None
) -> None:
    chosen, options = LANDMARK_METHODS[method], Options(method=method)
    # The landmarks of an average density are not the average of the landmarks.
    if method not in FROM_DENSITIES or (averaged and method not in FIXED):
        with pytest.raises(InvalidValueError, match=f"no landmarks of {method}; .*--method"):
            chosen.target_landmarks(saved, MIXTURE, options, averaged=averaged)
        return
    found = chosen.target_landmarks(saved, MIXTURE, options, averaged=averaged)
    expected = chosen.landmarks_of_density(MIXTURE, options)
    assert expected is not None
    assert found == Landmarks(method, expected)


def test_a_target_with_another_number_of_landmarks_says_which() -> None:
    saved = Landmarks("nyul", OF_EACH["nyul"])
    with pytest.raises(InvalidValueError, match="holds 4 landmarks, not 11; use --set landmarks=4"):
        LANDMARK_METHODS["nyul"].target_landmarks(
            saved, MIXTURE, Options(method="nyul"), averaged=True
        )


# ── joins ────────────────────────────────────────────────────────────────────────────────────────


@every_method
def test_landmarks_join_to_themselves_by_the_identity(method: str) -> None:
    own = Landmarks(method, np.unique(OF_EACH[method]))
    x = np.linspace(-20, 20, 101)
    np.testing.assert_allclose(join(own, own).imap(x), x, atol=1e-9)


@every_method
def test_the_map_of_a_scan_is_the_one_that_joins_its_landmarks(method: str) -> None:
    own, target = (Landmarks(method, f * np.unique(OF_EACH[method])) for f in (1.0, 3.0))
    models = [DensityModel(MIXTURE, own), DensityModel(MIXTURE.transformed(2.0, 1.0), target)]
    options = Options(method=method)
    solution = LANDMARK_METHODS[method].solve(*models, options)
    joined = join(own, target)
    assert (solution.imap, solution.message) == (joined.imap, joined.message)
    assert solution.affine == ndflow.transport.align(models[0].mixture, models[1].mixture)
    assert solution.divergence is None


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Landmarks("quantile", [1.0, 2.0, 3.0, 5.0]), "'nyul' needs its own landmarks"),
        (Landmarks("nyul", [1.0, 2.0, 3.0]), "4 landmarks cannot be joined to 3; use a reference"),
        (None, "'nyul' needs its own landmarks"),
    ],
)
def test_landmarks_that_do_not_correspond_are_not_joined(
    other: Landmarks | None, message: str
) -> None:
    own = DensityModel(MIXTURE, Landmarks("nyul", OF_EACH["nyul"]))
    method = LANDMARK_METHODS["nyul"]
    with pytest.raises(InvalidValueError, match=message):
        method.solve(own, DensityModel(MIXTURE, other), Options(method="nyul"))


@every_method
@pytest.mark.parametrize("other", ["another", "ndflow"])
def test_the_landmarks_of_another_method_are_refused(method: str, other: str) -> None:
    with pytest.raises(InvalidValueError, match=f"'{method}' needs its own landmarks"):
        LANDMARK_METHODS[method].check_landmarks(Landmarks(other, OF_EACH[method]))


@every_method
def test_the_order_of_the_scans_does_not_matter(method: str) -> None:
    first, *others = (average(order, method) for order in permutations(study(0, method)))
    for other in others:
        np.testing.assert_allclose(other.values, first.values, rtol=1e-14, atol=1e-14)
