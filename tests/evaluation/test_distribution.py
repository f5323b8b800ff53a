"""Distributions of intensities against sums over voxels, and how well they fit a target."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, spatial, stats

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.errors import InvalidValueError
from ndflow.evaluation.distribution import (
    EmpiricalDistribution,
    average_distribution,
    empirical_distribution,
    histogram_fit,
    smoothness,
)

# Distribution.

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


def test_equally_frequent_integers_have_a_uniform_density():
    scan = empirical_distribution(np.arange(10, 20))
    assert scan.mean() == pytest.approx(14.5, rel=1e-14)
    assert scan.sd() == pytest.approx(10 / np.sqrt(12), rel=1e-14)
    np.testing.assert_allclose(scan.quantile([0, 0.05, 0.5, 1]), [9.5, 10, 14.5, 19.5])
    # The density is the same in bins of any width: there is no comb.
    np.testing.assert_allclose(scan.density(np.linspace(9.5, 19.5, 8)), 0.1)


@given(counted, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_quantiles_invert_the_distribution_function(levels, shares):
    scan = made(levels)
    np.testing.assert_allclose(scan.cdf(scan.quantile(shares)), shares, atol=1e-12)
    x = scan.quantile(np.sort(shares))
    assert (np.diff(x) >= -1e-12).all()
    assert scan.edges[0] <= x[0]
    assert x[-1] <= scan.edges[-1] + 1e-9


def test_a_quantile_on_a_plateau_is_its_lower_end_and_the_first_is_where_the_mass_begins():
    edges, below = (
        np.array([0.0, 1.0, 2.0, 5.0, 6.0, 7.0]),
        np.array([0.0, 0.0, 0.5, 0.5, 1.0, 1.0]),
    )
    gap = EmpiricalDistribution(edges, below)
    np.testing.assert_allclose(gap.quantile([0.0, 0.5, 0.5 + 1e-9, 1.0]), [1, 2, 5, 6], atol=1e-6)


@given(counted, st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_a_change_of_units_transforms_moments_and_quantiles(levels, scale, offset):
    scan, there = made(levels), made(levels).transformed(scale, offset)
    assert there.mean() == pytest.approx(scale * scan.mean() + offset, rel=1e-9, abs=1e-9)
    assert there.sd() == pytest.approx(scale * scan.sd(), rel=1e-6)
    shares = np.linspace(0, 1, 11)
    np.testing.assert_allclose(
        there.quantile(shares), scale * scan.quantile(shares) + offset, rtol=1e-9, atol=1e-8
    )


@given(st.lists(counted, min_size=1, max_size=5))
def test_the_average_of_scans_with_few_levels_is_exact_everywhere(scans):
    parts = [made(levels) for levels in scans]
    x = np.linspace(-700, 700, 2001)
    mean = np.mean([part.cdf(x) for part in parts], axis=0)
    np.testing.assert_allclose(average_distribution(parts).cdf(x), mean, atol=1e-12)


@pytest.mark.parametrize("outlier", [0.0, 1e6])
def test_the_average_of_scans_with_many_levels_keeps_its_error_bounds(outlier):
    generator = np.random.default_rng(1)
    shapes = [(0.0, 1.0), (3.0, 0.2), (-2.0, 5.0)]
    voxels = [m + s * generator.standard_normal(20_000) for m, s in shapes]
    voxels[2][0] += outlier
    parts = [empirical_distribution(v) for v in voxels]
    found = average_distribution(parts, points=1001)
    assert found.edges.size <= 1001
    x = np.unique(np.concatenate([part.edges for part in (*parts, found)]))
    off = np.abs(found.cdf(x) - np.mean([part.cdf(x) for part in parts], axis=0))
    assert off.max() <= 4.1 / 1001
    assert np.trapezoid(off, x) <= 1.01 * np.ptp(x) / 1001
    # One bright voxel widens the range but does not spoil the rest.
    assert np.trapezoid(off, x) < (5 if outlier else 0.01)
    # At the nodes there is no error at all.
    mean = np.mean([part.cdf(found.edges) for part in parts], axis=0)
    np.testing.assert_allclose(found.below, mean, atol=1e-14)


@pytest.mark.parametrize("level", [3.0, np.nextafter(3.0, 4)])
def test_the_last_two_levels_may_be_adjacent_doubles(level):
    scan = empirical_distribution([1.0, level, np.nextafter(level, 4)])
    np.testing.assert_allclose(scan.cdf([0.0, 2.0, 3.01]), [0, 1 / 3, 1])
    assert (np.diff(scan.edges) > 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: empirical_distribution([3, 3, 3]), "two or more levels"),
        (lambda: empirical_distribution([1, 2], [5, 0]), "two or more levels"),
        (lambda: empirical_distribution([1, np.nan]), "finite"),
    ],
)
def test_invalid_distributions_are_refused(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()


# Histogram fit.


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


def test_a_shift_of_a_uniform_density_has_closed_forms():
    # A box of width 1, shifted by a quarter; the bins cover all but 0.2 % of it.
    box = EmpiricalDistribution(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
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


def test_voxels_and_counted_levels_give_the_same_distribution():
    voxels = np.random.default_rng(0).binomial(40, 0.3, 5000)
    levels, counts = np.unique(voxels, return_counts=True)
    for scan in (
        empirical_distribution(levels[::-1], counts[::-1]),
        empirical_distribution([*levels, 99], [*counts, 0]),
    ):
        np.testing.assert_array_equal(scan.edges, empirical_distribution(voxels).edges)
        np.testing.assert_array_equal(scan.below, empirical_distribution(voxels).below)


def test_distances_between_large_samples_agree_with_scipy():
    generator = np.random.default_rng(3)
    a, b = generator.normal(0, 1, 20_000), generator.gamma(4, 0.5, 20_000)
    found = histogram_fit(empirical_distribution(a), empirical_distribution(b))
    assert found.w1 == pytest.approx(stats.wasserstein_distance(a, b), rel=1e-4)
    assert found.ks == pytest.approx(stats.ks_2samp(a, b).statistic, abs=2e-4)
    apart = np.quantile(a, QUANTILE_LEVELS) - np.quantile(b, QUANTILE_LEVELS)
    assert found.qq == pytest.approx(np.sqrt(np.mean(apart**2)), rel=1e-3)
