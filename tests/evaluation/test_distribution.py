"""Distributions of intensities against sums over voxels, and how well they fit a target."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, spatial

from ndflow.evaluation.distribution import (
    EmpiricalDistribution,
    average_distribution,
    empirical_distribution,
    histogram_fit,
    smoothness,
)

counted = st.dictionaries(st.integers(-300, 300), st.integers(1, 50), min_size=2, max_size=30)


def made(levels: dict[int, int]) -> EmpiricalDistribution:
    return empirical_distribution(list(levels), list(levels.values()))


def spread_out(levels: dict[int, int], each: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Represent each level by many points across its bin; return them and their weights."""
    values = np.array(sorted(levels), float)
    points, weights = [], []
    for i, value in enumerate(values):
        left = (value - values[i - 1]) / 2 if i else (values[1] - value) / 2
        right = (values[i + 1] - value) / 2 if i + 1 < len(values) else (value - values[-2]) / 2
        parts = (np.arange(each) + 0.5) / each
        points.append(value - left + parts * (left + right))
        weights.append(np.full(each, levels[int(value)] / each))
    return np.concatenate(points), np.concatenate(weights) / sum(levels.values())


@settings(max_examples=30)
@given(counted)
def test_moments_cdf_and_density_agree_with_levels_spread_over_their_bins(levels):
    scan = made(levels)
    points, weights = spread_out(levels)
    mean = np.average(points, weights=weights)
    assert scan.mean() == pytest.approx(mean, abs=1e-9)
    variance = np.average((points - mean) ** 2, weights=weights)
    assert scan.sd() == pytest.approx(np.sqrt(variance), rel=1e-4)
    x = np.linspace(scan.edges[0] - 5, scan.edges[-1] + 5, 37)
    below = [weights[points < at].sum() for at in x]
    np.testing.assert_allclose(scan.cdf(x), below, atol=1.01 * weights.max())
    np.testing.assert_allclose(
        scan.density(x) * np.diff(x),
        np.histogram(points, x, weights=weights)[0],
        atol=2.02 * weights.max(),
    )


@settings(max_examples=30)
@given(counted, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_quantiles_invert_the_distribution_function(levels, shares):
    scan = made(levels)
    np.testing.assert_allclose(scan.cdf(scan.quantile(shares)), shares, atol=1e-12)
    x = scan.quantile(np.sort(shares))
    assert (np.diff(x) >= -1e-12).all()
    assert scan.edges[0] <= x[0]
    assert x[-1] <= scan.edges[-1] + 1e-9


@settings(max_examples=30)
@given(st.lists(counted, min_size=1, max_size=5))
def test_the_average_of_scans_is_exact_or_has_few_nodes_and_a_small_error(scans):
    parts = [made(levels) for levels in scans]
    x = np.linspace(-700, 700, 2001)
    mean = np.mean([part.cdf(x) for part in parts], axis=0)
    np.testing.assert_allclose(average_distribution(parts).cdf(x), mean, atol=1e-12)
    few = average_distribution(parts, points=21)
    assert few.edges.size <= 21
    assert np.abs(few.cdf(x) - mean).max() <= 4.1 / 21 + 1e-12


@st.composite
def distributions(draw: st.DrawFn) -> EmpiricalDistribution:
    values = draw(st.lists(st.integers(-50, 50), min_size=2, max_size=15, unique=True))
    counts = draw(st.lists(st.integers(1, 9), min_size=len(values), max_size=len(values)))
    return empirical_distribution(values, counts)


@settings(max_examples=30)
@given(distributions(), distributions())
def test_w1_and_ks_agree_with_adaptive_integration_and_dense_sampling(one, other):
    found = histogram_fit(one, other)
    corners = np.union1d(one.edges, other.edges)
    area, error = integrate.quad(
        lambda x: float(np.abs(one.cdf(x) - other.cdf(x))),
        corners[0],
        corners[-1],
        points=corners[1:-1],
        limit=500,
        epsrel=1e-10,
    )
    assert found.w1 == pytest.approx(area, abs=1e-5 + error)  # quad only estimates its error
    dense = np.union1d(corners, np.linspace(corners[0], corners[-1], 5000))
    assert found.ks == pytest.approx(np.abs(one.cdf(dense) - other.cdf(dense)).max(), abs=1e-12)


@settings(max_examples=30)
@given(distributions(), distributions())
def test_binned_measures_and_quantiles_agree_with_numpy_and_scipy(one, other):
    found = histogram_fit(one, other, bins=20)
    edges = np.linspace(other.quantile(0.001), other.quantile(0.999), 21)
    p, q = (np.array([d.cdf(b) - d.cdf(a) for a, b in pairwise(edges)]) for d in (one, other))
    width = edges[1] - edges[0]
    assert found.mae == pytest.approx(np.abs(p - q).sum() / width / 20, abs=1e-12)
    assert found.rmse == pytest.approx(np.linalg.norm(p - q) / width / np.sqrt(20), abs=1e-12)
    whole = [[d.cdf(edges[0]), *m, 1 - d.cdf(edges[-1])] for d, m in ((one, p), (other, q))]
    divergence = spatial.distance.jensenshannon(*np.clip(whole, 0, 1), base=2) ** 2
    assert found.js == pytest.approx(divergence, abs=1e-7)
    assert 0 <= found.js <= 1 + 1e-12
    quantiles = [[float(d.quantile(k / 200)) for k in range(1, 200)] for d in (one, other)]
    apart = np.subtract(*quantiles)
    assert found.qq == pytest.approx(np.sqrt(np.mean(apart**2)), abs=1e-9)


def test_smoothness_agrees_with_closed_forms():
    assert smoothness(np.full(50, 3.0)) == (0, 0)
    x = np.linspace(0, 2, 2001)
    rising = smoothness(np.exp(x))  # ln f' rises by 2, and never falls
    assert rising.variation == pytest.approx(2, rel=1e-12)
    assert rising.jump == pytest.approx(np.exp(2) * 1e-3, rel=1e-3)
    wave = smoothness(np.exp(np.sin(2 * np.pi * x)))  # two waves, each up and down by 2
    assert wave.variation == pytest.approx(8, rel=1e-4)
    corner = smoothness([1.0, 1.0, 3.0, 3.0, 2.0])
    assert corner.jump == 2
    assert corner.variation == pytest.approx(np.log(3) + np.log(1.5))
    assert smoothness([1.0, -0.5, 1.0]) == (np.inf, 1.5)  # it cannot be inverted
