"""The contract that every method keeps, and what those with landmarks share."""

from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from every_method import EVERY_METHOD, LANDMARK_METHODS, join
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import random_mixture
from phantoms import head

import ndflow
from ndflow import Affine, GaussianMixture, Histogram, InvalidValueError
from ndflow.methods.base import DensityModel, Method, Solution, build_reference
from ndflow.options import METHODS, Options
from ndflow.population import Landmarks
from ndflow.transport import DETERMINED_RANGE, PiecewiseLinear, align

every_method = pytest.mark.parametrize("name", METHODS)

# Contrasts that no straight line makes equal.
HEADS = [
    head(seed, gain=gain, tissues=((csf, 60.0), (gm, 50.0), (1000.0, 40.0)))
    for seed, (csf, gm, gain) in enumerate(
        [(300.0, 700.0, 1.0), (250.0, 760.0, 2.5), (350.0, 650.0, 0.6), (300.0, 720.0, 1.3)]
    )
]


@cache
def scans() -> list[tuple[Histogram, GaussianMixture]]:
    counted = [ndflow.histogram(scan, scan != 0) for scan in HEADS]
    return [(histogram, ndflow.fit(histogram).mixture) for histogram in counted]


def models(method: Method, options: Options) -> list[DensityModel]:
    return [DensityModel(fitted, method.measure(one, options)) for one, fitted in scans()]


@every_method
def test_a_method_finds_increasing_maps_that_bring_scans_together(name: str) -> None:
    method, options = EVERY_METHOD[name], Options(method=name)
    known = models(method, options)
    made = build_reference(known[1:], method)
    assert made == build_reference(models(method, options)[1:], method)
    found = method.target_landmarks(made.landmarks, made.mixture, options, averaged=True)
    target = DensityModel(made.mixture, found)
    first = method.solve(known[0], target, options)
    assert first == method.solve(known[0], target, options)
    values = scans()[0][0].values[:, 0]
    x = np.linspace(values[0] - np.ptp(values), values[-1] + np.ptp(values), 2001)
    y = first.imap(x)
    slope = np.diff(y) / np.diff(x)
    assert 0 < slope.max() < 100 * slope.min()
    np.testing.assert_allclose(first.imap.inverse()(y), x, atol=1e-6 * np.ptp(x))
    brains = [scan[scan != 0].astype(float) for scan in HEADS]
    after = [
        method.solve(model, target, options).imap(voxels)
        for model, voxels in zip(known, brains, strict=True)
    ]

    def disagreement(scans: list[Any]) -> float:
        medians = [np.median(scan) for scan in scans]
        return float(np.std(medians) / np.mean([np.std(scan) for scan in scans]))

    assert disagreement(after) < 0.2 * disagreement(brains)


def test_a_solution_says_how_steep_it_is() -> None:
    source, affine = random_mixture(np.random.default_rng(0), 3), Affine(2.0, 1.0)
    low, middle, high = source.quantile([DETERMINED_RANGE[0], 0.5, DETERMINED_RANGE[1]]).tolist()
    curve = PiecewiseLinear([low, middle, high], [0.0, middle - low, 4 * high - 3 * middle - low])
    slopes = Solution(curve, affine, "matched").record(source).slopes
    assert slopes is not None
    assert slopes == pytest.approx((0.5, 2.0))


# ── landmarks ────────────────────────────────────────────────────────────────────────────────────

OF_EACH: dict[str, list[float]] = {
    "zscore": [3.0, 5.0],
    "nyul": [1.0, 2.0, 2.0, 4.0],
    "quantile": [-1.0, 0.0, 2.0],
    "hellier": [1.0, 2.0, 3.0, 4.0, 6.0],
}
FROM_DENSITIES = {"zscore", "nyul", "quantile"}
MIXTURE = GaussianMixture([0.25, 0.75], [-1.0, 3.0], [4.0, 1.0])
every_landmark_method = pytest.mark.parametrize("method", OF_EACH)


@pytest.mark.parametrize(
    ("method", "values", "message"),
    [
        ("zscore", [1.0], "zscore needs 2 landmarks, not 1"),
        ("nyul", [1.0], "nyul needs two or more landmarks, not 1"),
        ("nyul", [1.0, 3.0, 2.0], "landmarks must rise"),
        ("nyul", [1.0, np.nan], "values must be finite"),
    ],
)
def test_what_cannot_be_landmarks_is_refused(method: str, values: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        LANDMARK_METHODS[method].check_landmarks(Landmarks(method, values))


def study(seed: int, method: str = "nyul") -> list[tuple[Landmarks, Affine, float]]:
    generator = np.random.default_rng(seed)
    count = LANDMARK_METHODS[method].count or 7
    return [
        (
            Landmarks(method, np.cumsum(generator.uniform(0.1, 3, count))),
            Affine(generator.uniform(0.1, 3), generator.normal()),
            float(generator.integers(1, 5)),
        )
        for _ in range(4)
    ]


@every_landmark_method
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_landmarks_are_averaged_where_each_scan_is_aligned(method: str, seed: int) -> None:
    known, chosen = study(seed, method), LANDMARK_METHODS[method]
    found = chosen.average(iter(known)).values
    rows = [float(at.matrix[0, 0]) * own.values + float(at.offset[0]) for own, at, _ in known]
    expected = np.average(rows, axis=0, weights=[weight for *_, weight in known])
    if method == "zscore":  # known beforehand
        expected = np.array([0.0, 1.0])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    for order in permutations(known):
        np.testing.assert_allclose(chosen.average(order).values, found, rtol=1e-14, atol=1e-14)


@every_landmark_method
@pytest.mark.parametrize("averaged", [True, False])
def test_a_target_has_saved_landmarks_or_those_of_its_density(method: str, averaged: bool) -> None:
    chosen, saved = LANDMARK_METHODS[method], Landmarks(method, OF_EACH[method])
    options = Options(method=method, landmarks=saved.values.size if method == "nyul" else 11)
    assert chosen.target_landmarks(saved, MIXTURE, options, averaged=averaged) is saved
    for other in (None, Landmarks("another", [1.0, 2.0])):
        # The landmarks of an average density are not the average of the landmarks.
        if method not in FROM_DENSITIES or (averaged and method != "zscore"):
            with pytest.raises(InvalidValueError, match=f"no landmarks of {method}; .*--method"):
                chosen.target_landmarks(other, MIXTURE, options, averaged=averaged)
        else:
            found = chosen.target_landmarks(other, MIXTURE, options, averaged=averaged)
            expected = chosen.landmarks_of_density(MIXTURE, options)
            assert np.array_equal(found.values, expected)  # type: ignore[arg-type]


@every_landmark_method
def test_the_map_of_a_scan_joins_its_landmarks(method: str) -> None:
    own, target = (Landmarks(method, f * np.unique(OF_EACH[method])) for f in (1.0, 3.0))
    x = np.linspace(-20, 20, 101)
    np.testing.assert_allclose(join(own, own).imap(x), x, atol=1e-9)
    there = MIXTURE.transformed(2.0, 1.0)
    solution = LANDMARK_METHODS[method].solve(
        DensityModel(MIXTURE, own), DensityModel(there, target), Options(method=method)
    )
    assert solution.imap == join(own, target).imap
    assert solution.affine == align(MIXTURE, there)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Landmarks("quantile", [1.0, 2.0, 3.0, 5.0]), "'nyul' needs its own landmarks"),
        (Landmarks("nyul", [1.0, 2.0, 3.0]), "4 landmarks cannot be joined to 3; use a reference"),
    ],
)
def test_landmarks_that_do_not_correspond_are_not_joined(
    other: Landmarks | None, message: str
) -> None:
    own = DensityModel(MIXTURE, Landmarks("nyul", OF_EACH["nyul"]))
    with pytest.raises(InvalidValueError, match=message):
        LANDMARK_METHODS["nyul"].solve(own, DensityModel(MIXTURE, other), Options(method="nyul"))
