"""Distances between histograms, compared with scipy, numerical integration and closed forms."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, spatial, stats

from ndflow.density import QUANTILE_LEVELS
from ndflow.errors import InvalidValueError
from ndflow.metrics.distribution import EmpiricalDistribution, empirical_distribution
from ndflow.metrics.histogram_fit import histogram_fit, smoothness


@st.composite
def distributions(draw: st.DrawFn) -> EmpiricalDistribution:
    values = draw(st.lists(st.integers(-50, 50), min_size=2, max_size=15, unique=True))
    counts = draw(st.lists(st.integers(1, 9), min_size=len(values), max_size=len(values)))
    return empirical_distribution(values, counts)


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


@given(distributions(), distributions())
def test_distances_are_zero_to_the_scan_itself_and_symmetric(one, other):
    assert max(histogram_fit(one, one)) == 0
    there, back = histogram_fit(one, other), histogram_fit(other, one)
    for name in ("w1", "ks", "qq"):  # the others depend on the bins, which are those of the target
        assert getattr(there, name) == pytest.approx(getattr(back, name), abs=1e-12)


@given(distributions(), distributions(), st.floats(0.01, 100), st.floats(-100, 100))
def test_distances_scale_with_the_units_of_intensity(one, other, scale, offset):
    before = histogram_fit(one, other)
    after = histogram_fit(one.transformed(scale, offset), other.transformed(scale, offset))
    factors = (1 / scale, 1 / scale, scale, 1, 1, scale)
    wanted = [factor * value for factor, value in zip(factors, before, strict=True)]
    assert list(after) == pytest.approx(wanted, rel=1e-5, abs=1e-7)


def test_distances_between_large_samples_agree_with_scipy():
    generator = np.random.default_rng(3)
    a, b = generator.normal(0, 1, 20_000), generator.gamma(4, 0.5, 20_000)
    found = histogram_fit(empirical_distribution(a), empirical_distribution(b))
    assert found.w1 == pytest.approx(stats.wasserstein_distance(a, b), rel=1e-4)
    assert found.ks == pytest.approx(stats.ks_2samp(a, b).statistic, abs=2e-4)
    apart = np.quantile(a, QUANTILE_LEVELS) - np.quantile(b, QUANTILE_LEVELS)
    assert found.qq == pytest.approx(np.sqrt(np.mean(apart**2)), rel=1e-3)


def test_a_shift_of_a_uniform_density_has_closed_forms():
    # A box of width 1, shifted by a quarter; the bins cover all but 0.2 % of it.
    box = EmpiricalDistribution([0.0, 1.0], [0.0, 1.0])
    found = histogram_fit(box.transformed(1.0, 0.25), box, bins=998)  # bins of a thousandth
    assert found.w1 == pytest.approx(0.25, rel=1e-12)
    assert found.ks == pytest.approx(0.25, rel=1e-12)
    assert found.qq == pytest.approx(0.25, rel=1e-12)
    assert found.mae == pytest.approx(249 / 998, rel=1e-9)
    assert found.rmse == pytest.approx(np.sqrt(249 / 998), rel=1e-9)
    # The bin above the range holds 0.251 and 0.001; below 0.25 there is only the target.
    middle = 0.126
    outer = 0.5 * (0.251 * np.log2(0.251 / middle) + 0.001 * np.log2(0.001 / middle))
    assert found.js == pytest.approx(0.5 * 0.25 + outer, rel=1e-9)


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


def test_a_map_that_is_not_increasing_has_infinite_variation_and_a_finite_jump():
    assert smoothness([1.0, -0.5, 1.0]) == (np.inf, 1.5)
    assert smoothness([1.0, 0.0]) == (np.inf, 1.0)


def test_a_single_slope_and_zero_bins_are_refused():
    with pytest.raises(InvalidValueError, match="two or more"):
        smoothness([1.0])
    box = EmpiricalDistribution([0.0, 1.0], [0.0, 1.0])
    with pytest.raises(InvalidValueError, match="bins"):
        histogram_fit(box, box, bins=0)
