"""Landmarks: what is refused, how they are averaged over a study, and how they are joined."""

import json
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from phantoms import head

import ndflow
from ndflow import Affine, DegenerateDataError, GaussianMixture, InvalidValueError, Landmarks
from ndflow.methods.landmarks import BASELINES, measure, of_density, standard
from ndflow.values import Value

OF_EACH: dict[str, list[float]] = {
    "zscore": [3.0, 5.0],
    "nyul": [1.0, 2.0, 2.0, 4.0],
    "quantile": [-1.0, 0.0, 2.0],
    "hellier": [1.0, 2.0, 3.0, 4.0, 6.0],
    "whitestripe": [-4.0, 5.0],
    "kde": [7.0],
    "fcm": [0.5],
    "lsq": [2.0, 3.0, 5.0],
}
FIXED = {"zscore": [0.0, 1.0], "whitestripe": [0.0, 1.0], "kde": [1.0], "fcm": [1.0]}
OWN_UNITS = {"whitestripe", "kde", "fcm", "lsq"}
SCAN = head(0)
COUNTED = ndflow.histogram(SCAN, SCAN != 0)

every_method = pytest.mark.parametrize("method", OF_EACH)
seeds = st.integers(0, 10**6)


def test_there_is_an_example_of_each_method() -> None:
    assert set(OF_EACH) == set(BASELINES)


# ── what they are ────────────────────────────────────────────────────────────────────────────────


@every_method
def test_landmarks_survive_json_and_cannot_be_changed(method: str) -> None:
    landmarks = Landmarks(method, OF_EACH[method])
    again = Value.from_dict(json.loads(json.dumps(landmarks.to_dict())))
    assert again == landmarks
    assert landmarks != Landmarks(method, 2 * landmarks.values)
    assert landmarks.own_units == (method in OWN_UNITS)
    with pytest.raises(ValueError, match="read-only"):
        landmarks.values[0] = 0.0


@pytest.mark.parametrize(
    ("method", "values", "message"),
    [
        ("nyull", [1.0, 2.0], "method must be one of zscore, .*lsq, not 'nyull'"),
        ("ndflow", [1.0, 2.0], "method must be one of"),
        ("zscore", [1.0], "values of zscore must be 2"),
        ("hellier", [1.0, 2.0, 3.0, 4.0], "values of hellier must be 5"),
        ("kde", [1.0, 2.0], "values of kde must be 1"),
        ("lsq", [1.0, 2.0], "values of lsq must be 3"),
        ("kde", [], "values of kde must be 1"),
        ("nyul", [], "values of nyul must be"),
        ("nyul", [1.0, 3.0, 2.0], "landmarks must rise"),
        ("nyul", [2.0, 2.0, 2.0], "landmarks must rise"),
        ("zscore", [2.0, 1.0], "landmarks must rise"),
        ("kde", [0.0], "must be brighter than 0"),
        ("fcm", [-3.0], "must be brighter than 0"),
        ("nyul", [1.0, np.nan], "values must be finite"),
        ("nyul", [[1.0, 2.0]], r"values must have the shape \(any\)"),
        ("nyul", ["a", "b"], "values must be an array of real numbers"),
    ],
)
def test_what_cannot_be_landmarks_is_refused(method: str, values: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        Landmarks(method, values)


def test_mean_and_spread_are_those_of_the_voxels() -> None:
    voxels = SCAN[SCAN != 0]
    found = measure("zscore", COUNTED).values
    np.testing.assert_allclose(found, [voxels.mean(), voxels.mean() + voxels.std()], rtol=1e-12)


@pytest.mark.parametrize("method", ["zscore", "nyul", "quantile", "hellier", "kde", "lsq"])
def test_a_scan_of_one_intensity_has_no_landmarks(method: str) -> None:
    if method in OWN_UNITS:
        pytest.importorskip("intensity_normalization")
    with pytest.raises((DegenerateDataError, InvalidValueError)):
        measure(method, ndflow.Histogram([5.0], [100.0]))


def test_several_channels_have_none() -> None:
    two = ndflow.Histogram([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0])
    with pytest.raises(InvalidValueError, match="of one channel, not of 2"):
        measure("nyul", two)


def test_an_unknown_method_is_named_with_those_that_are_known() -> None:
    for call in (lambda: measure("mean", COUNTED), lambda: of_density("mean", MIXTURE)):
        with pytest.raises(InvalidValueError, match=r"one of zscore, nyul, .*not 'mean'"):
            call()


MIXTURE = GaussianMixture([0.25, 0.75], [-1.0, 3.0], [4.0, 1.0])


def test_a_density_has_those_that_it_can_have() -> None:
    # Closed form: mean ¾·3 − ¼, variance ¼·¼ + ¾·1 + ¼·¾·4².
    found = of_density("zscore", MIXTURE)
    assert found is not None
    np.testing.assert_allclose(found.values, [2.0, 2.0 + np.sqrt(3.8125)])
    for method in BASELINES:
        assert (of_density(method, MIXTURE) is None) == (
            method not in {"zscore", "nyul", "quantile"}
        )


@given(st.sampled_from(sorted(OF_EACH)), st.floats(1e-3, 1e3), st.floats(0, 1e3))
def test_in_other_units_they_are_those_of_the_scan_in_other_units(
    method: str, factor: float, offset: float
) -> None:
    moved = Landmarks(method, OF_EACH[method]).transformed(Affine(factor, offset))
    assert moved == Landmarks(method, factor * np.array(OF_EACH[method]) + offset)


# ── averages ─────────────────────────────────────────────────────────────────────────────────────


def study(seed: int, method: str = "nyul", size: int = 4) -> list[tuple[Landmarks, Affine, float]]:
    generator = np.random.default_rng(seed)
    count = BASELINES[method].size or 7
    return [
        (
            Landmarks(method, np.cumsum(generator.uniform(0.1, 3, count))),
            Affine(generator.uniform(0.1, 3), generator.normal()),
            float(generator.integers(1, 5)),
        )
        for _ in range(size)
    ]


@pytest.mark.parametrize("method", ["nyul", "quantile", "hellier"])
@given(seed=seeds)
def test_they_are_averaged_where_each_scan_is_aligned(method: str, seed: int) -> None:
    scans = study(seed, method)
    rows = [
        float(aligned.matrix[0, 0]) * own.values + float(aligned.offset[0])
        for own, aligned, _ in scans
    ]
    expected = np.average(rows, axis=0, weights=[weight for *_, weight in scans])
    found = standard(iter(scans))
    assert found.method == method
    np.testing.assert_allclose(found.values, expected, rtol=1e-12, atol=1e-12)


@given(seed=seeds)
def test_lsq_averages_multiples_of_fluid(seed: int) -> None:
    scans = study(seed, "lsq")
    rows = [own.values / own.values[0] for own, *_ in scans]
    expected = np.average(rows, axis=0, weights=[weight for *_, weight in scans])
    np.testing.assert_allclose(standard(scans).values, expected, rtol=1e-12)
    assert standard(scans).values[0] == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("method", FIXED)
def test_some_averages_are_known_beforehand(method: str) -> None:
    for seed in range(3):
        assert standard(study(seed, method)) == Landmarks(method, FIXED[method])


@pytest.mark.parametrize("method", OF_EACH)
def test_the_order_of_the_scans_does_not_matter(method: str) -> None:
    first, *others = (standard(order) for order in permutations(study(0, method)))
    for other in others:
        np.testing.assert_allclose(other.values, first.values, rtol=1e-14, atol=1e-14)


@given(seed=seeds)
def test_a_weight_is_so_many_scans(seed: int) -> None:
    scans = study(seed)
    replicated = [(own, aligned, 1.0) for own, aligned, times in scans for _ in range(int(times))]
    np.testing.assert_allclose(standard(replicated).values, standard(scans).values, rtol=1e-12)
    alone = [(own, aligned, float(place == 2)) for place, (own, aligned, _) in enumerate(scans)]
    own, aligned, _ = scans[2]
    np.testing.assert_allclose(standard(alone).values, aligned(own.values), rtol=1e-12)


@pytest.mark.parametrize(
    ("scans", "message"),
    [
        ([], "no landmarks to average"),
        ([(own, aligned, 0.0) for own, aligned, _ in study(0)], "no landmarks to average"),
        (study(0, "nyul") + study(0, "hellier"), "of one method, and of the same number"),
        (study(0, "nyul") + study(0, "quantile"), "of one method, and of the same number"),
        ([*study(0), (Landmarks("nyul", [1, 2]), Affine(1.0, 0.0), 1.0)], "of the same number"),
    ],
)
def test_what_cannot_be_averaged_is_refused(scans: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        standard(scans)


# ── joins ────────────────────────────────────────────────────────────────────────────────────────


@every_method
def test_landmarks_join_to_themselves_by_the_identity(method: str) -> None:
    own = Landmarks(method, np.unique(OF_EACH[method]))
    x = np.linspace(-20, 20, 101)
    np.testing.assert_allclose(own.to(own).imap(x), x, atol=1e-9)


@pytest.mark.parametrize("method", ["zscore", "whitestripe"])
def test_two_landmarks_are_joined_by_a_line(method: str) -> None:
    imap = Landmarks(method, [10.0, 14.0]).to(Landmarks(method, [0.0, 1.0])).imap
    np.testing.assert_allclose(imap([2.0, 10.0, 14.0, 30.0]), [-2.0, 0.0, 1.0, 5.0])


@given(seed=seeds)
def test_lsq_is_joined_by_the_factor_of_least_squares(seed: int) -> None:
    (own, _, _), (target, _, _) = study(seed, "lsq", 2)
    factor = np.linalg.lstsq(own.values[:, np.newaxis], target.values, rcond=None)[0]
    np.testing.assert_allclose(own.to(target).imap([0.0, 1.0, 50.0]), factor * [0.0, 1.0, 50.0])


@pytest.mark.parametrize("method", ["kde", "fcm"])
def test_white_matter_is_multiplied_to_where_it_should_be(method: str) -> None:
    joined = Landmarks(method, [800.0]).to(Landmarks(method, [1.0]))
    np.testing.assert_allclose(joined.imap([0.0, 400.0, 800.0]), [0.0, 0.5, 1.0])
    assert joined.as_meant


def test_tissues_below_zero_have_no_ratios() -> None:
    with pytest.raises(InvalidValueError, match="must be brighter than 0, not at -1"):
        Landmarks("lsq", [-1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "other", [Landmarks("quantile", [1.0, 2.0, 3.0, 5.0]), Landmarks("nyul", [1.0, 2.0, 3.0])]
)
def test_landmarks_that_do_not_correspond_are_not_joined(other: Landmarks) -> None:
    message = f"4 landmarks of nyul cannot be joined to {other.values.size} of {other.method}"
    with pytest.raises(InvalidValueError, match=f"{message}; use a reference made in the same way"):
        Landmarks("nyul", OF_EACH["nyul"]).to(other)
