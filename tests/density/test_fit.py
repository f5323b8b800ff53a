"""A fit recovers the density of the data, in any units; what its options do; what it refuses."""

import itertools
from importlib import import_module

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mixtures import mixtures, random_mixture
from scipy import stats

from ndflow import DegenerateDataError, GaussianMixture, Histogram, InvalidValueError
from ndflow.density import fit, histogram
from ndflow.density.condense import joint_histogram
from ndflow.density.variational import sweep

FIT = import_module("ndflow.density.fit")  # the module, whose name the function has in its room

seeds = st.integers(0, 2**32 - 1)
slopes = st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3)


def exact_histogram(m: GaussianMixture, bins: int = 500) -> Histogram:
    """Expected counts, without noise: the probability of each bin times a million."""
    edges = np.linspace(*m.quantile([1e-9, 1 - 1e-9]), bins + 1)
    counts = 1e6 * np.diff(m.cdf(edges))
    return Histogram(0.5 * (edges[1:] + edges[:-1]), counts, edges[1] - edges[0], edges[0])


def gaussian_counts(width: float) -> Histogram:
    """Exact counts of a million voxels of one Gaussian in bins of the given width."""
    count = int(np.ceil(8 / width))
    edges = width * (np.arange(-count, count + 2) - 0.5)
    counts = 1e6 * np.diff(stats.norm.cdf(edges))
    return Histogram(0.5 * (edges[1:] + edges[:-1]), counts, width, edges[0])


def total_variation(one: GaussianMixture, two: GaussianMixture) -> float:
    """``½ ∫ |p − q|``."""
    ends = [m.quantile(p) for m in (one, two) for p in (1e-12, 1 - 1e-12)]
    x = np.linspace(min(ends), max(ends), 20_001)
    return float(0.5 * np.trapezoid(np.abs(one.pdf(x) - two.pdf(x)), x))


@pytest.fixture(scope="module")
def wavy() -> Histogram:
    """Eight overlapping tissues: how many of them a fit separates depends on its options."""
    m = GaussianMixture(np.full(8, 1 / 8), 3.0 * np.arange(8), np.full(8, 1 / 1.3**2))
    x = np.arange(-6, 27, 0.1)
    return Histogram(x, 1e6 * m.pdf(x) / m.pdf(x).sum(), 0.1, x[0] - 0.05)


# ── the density ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(12))
def test_a_million_exact_counts_give_the_density_within_two_percent(seed):
    g = np.random.default_rng(seed)
    m = random_mixture(g, int(g.integers(1, 7)))
    fitted = fit(exact_histogram(m))
    assert fitted.status.converged
    assert (np.diff(fitted.bounds) >= -1e-12 * np.abs(fitted.bounds[1:])).all()
    assert total_variation(fitted.mixture, m) < 0.02


@pytest.mark.parametrize("channels", [2, 3])
def test_several_channels_are_recovered_too(channels):
    m = random_mixture(np.random.default_rng(channels), 3, channels, spread=3.0)
    x = m.sample(50_000, np.random.default_rng(0))
    fitted = fit(joint_histogram(x)).mixture
    # ∫ |p − q| = E_p |1 − q/p|: the sample that was fitted serves as points of integration.
    assert 0.5 * np.mean(np.abs(1 - fitted.pdf(x) / m.pdf(x))) < 0.05


@pytest.mark.parametrize("width", [0.05, 0.5, 1.0])
def test_the_width_of_the_bins_does_not_widen_the_density(width):
    h = gaussian_counts(width)
    for truncation in (1, 20):
        fitted = fit(h, truncation=truncation).mixture
        # Uncorrected, sd² + h²/12 would be 4 % too wide at h = sd (Sheppard).
        assert abs(np.sqrt(fitted.covariance()[0, 0]) - 1) < 0.005
    # Nor are coarse bins fitted by one narrow component each.
    assert total_variation(fitted, GaussianMixture([1.0], [0.0], [1.0])) < 0.02


def test_channels_are_corrected_for_the_width_of_their_own_bins():
    sds = np.array([1.0, 30.0])
    x = np.random.default_rng(0).standard_normal((100_000, 2)) * sds
    h = Histogram(np.rint(x / sds) * sds, np.ones(len(x)), sds, -0.5 * sds)
    fitted = fit(h, effective_count=2e5, truncation=1).mixture
    np.testing.assert_allclose(np.sqrt(np.diagonal(fitted.covariance())), sds, rtol=0.005)


def test_a_component_narrower_than_a_bin_keeps_a_positive_width():
    h = Histogram([0.0, 1.0, 2.0, 10.0], [1.0, 1e5, 1.0, 1e5], 1.0, -0.5)
    fitted = fit(h, effective_count=1e9).mixture
    assert (fitted.covariances > 0).all()
    np.testing.assert_allclose(fitted.cdf(5.0), 0.5, atol=1e-3)


def test_with_one_component_the_mixture_has_a_closed_form():
    # E Λ = ν/(W⁻¹) with ν0 = 4, W0⁻¹ = ν0 κ0/(1 + κ0) s², κ0 = 0.1, N = 20.
    x = np.random.default_rng(0).standard_normal(20)
    fitted = fit(Histogram(x, np.ones(20)), truncation=1).mixture
    expected = (4 + 20) / ((4 * 0.1 / 1.1 + 20) * x.var())
    np.testing.assert_allclose(fitted.precisions, [[[expected]]], rtol=1e-9)
    np.testing.assert_allclose(fitted.means, [[x.mean()]], rtol=1e-9)


def test_components_below_a_thousandth_are_pruned_and_the_rest_sums_to_one(wavy):
    fitted = fit(wavy, effective_count=1e6).mixture
    assert fitted.weights.min() >= 1e-3
    np.testing.assert_allclose(fitted.weights.sum(), 1, rtol=1e-12)
    assert (np.diff(fitted.means[:, 0]) > 0).all()
    h = Histogram([0.0, 0.1, 0.2, 1.0], [3e3, 5e3, 2e3, 4.0])  # 4 in 10,000 is too little
    assert fit(h).mixture.means.max() < 0.3


@pytest.mark.parametrize("dtype", [bool, np.float32])
def test_two_valued_data_have_a_density_with_two_peaks(dtype):
    fitted = fit(histogram(np.array([0, 1, 1] * 2000, dtype))).mixture
    # Each peak is as wide as its bin, so a little of it lies in the other.
    np.testing.assert_allclose(fitted.cdf(0.5), 1 / 3, atol=0.02)
    assert fitted.components == 2


@pytest.mark.parametrize("stray", [1e30, -1e30])
@pytest.mark.parametrize("size", [1_000, 40_000])
def test_a_single_outlier_ruins_neither_the_bins_nor_the_fit(stray, size):
    clean = np.random.default_rng(1).normal(100, 15, size)
    before, after = histogram(clean), histogram(np.append(clean, stray))
    assert after.widths == before.widths
    assert fit(after).mixture == fit(before).mixture


def test_an_outlier_does_no_harm_where_nearly_all_voxels_are_equal():
    # Both percentiles that bound the bulk are 7: its width must come from further out.
    voxels = np.repeat([7.0, 8.0, 1e30], [10_000, 40, 1])
    assert 7 <= fit(histogram(voxels)).mixture.mean()[0] < 7.1


# ── units ────────────────────────────────────────────────────────────────────────────────────────


# Without care for the sign, these two would end elsewhere.
@example(random_mixture(np.random.default_rng(9), 4), 9, [-1.0], 0.0)
@example(random_mixture(np.random.default_rng(10), 4), 10, [-1.0], 0.0)
@settings(max_examples=8)  # each is two fits
@given(mixtures(most=4), seeds, st.lists(slopes, min_size=3, max_size=3), st.floats(-1e3, 1e3))
def test_a_fit_commutes_with_a_change_of_units_and_of_sign(m, seed, several, offset):
    x, slope = m.sample(4000, np.random.default_rng(seed)), np.array(several[: m.channels])
    offset = offset * np.abs(slope)
    bins, truncation = (300, 20) if m.channels == 1 else (12, 8)
    step = np.ptp(x, axis=0) / bins
    values, counts = np.unique(np.rint(x / step), axis=0, return_counts=True)
    h = Histogram(values * step, counts, step, -0.5 * step)
    moved = Histogram(
        slope * h.values + offset, h.counts, abs(slope) * h.widths, slope * h.origin + offset
    )
    one, two = (fit(data, truncation=truncation) for data in (h, moved))
    expected, ours = one.mixture.transformed(np.diag(slope), offset), two.mixture
    order = np.argsort(expected.means[:, 0])
    sds = np.sqrt(np.diagonal(expected.covariance()))
    unit = np.outer(sds, sds)
    np.testing.assert_allclose(ours.weights, expected.weights[order], rtol=1e-6)
    np.testing.assert_allclose(ours.means / sds, expected.means[order] / sds, atol=1e-6)
    np.testing.assert_allclose(
        ours.covariances / unit, expected.covariances[order] / unit, rtol=1e-6, atol=1e-9
    )
    # A density in other units is scaled by the slope, once per voxel.
    change = 4000 * np.log(np.abs(slope)).sum()
    np.testing.assert_allclose(two.bounds[-1], one.bounds[-1] - change, atol=1e-6)


# ── options ──────────────────────────────────────────────────────────────────────────────────────


def test_more_evidence_finds_more_components(wavy):
    found = [fit(wavy, effective_count=n).mixture.components for n in (1e3, 1e4, 1e5)]
    assert found[0] < found[1] < found[2]


def test_counts_below_the_effective_count_are_taken_as_they_are(wavy):
    few = Histogram(wavy.values, wavy.counts / 1e4, wavy.widths, wavy.origin)
    assert fit(few) == fit(few, effective_count=few.total)
    tempered = fit(wavy, effective_count=few.total)
    np.testing.assert_allclose(tempered.bounds[-1], fit(few).bounds[-1], rtol=1e-9)


@pytest.mark.parametrize("concentration", [0.01, 2.0, 30.0])
def test_the_concentration_takes_weight_from_the_heavy_components(concentration):
    # Two far groups of 12 and 8 voxels: the first of two sticks is Beta(1 + 12, α + 8).
    h = Histogram([0.0, 0.1, 50.0, 50.1], [6.0, 6.0, 4.0, 4.0])
    two = GaussianMixture([0.5, 0.5], [0.0, 50.0], [1.0, 1.0])
    fitted = fit(h, concentration=concentration, truncation=2, start=two).mixture
    np.testing.assert_allclose(fitted.weights[0], 13 / (21 + concentration), rtol=1e-6)


def test_merges_tried_at_once_are_chosen_as_if_one_after_the_other(monkeypatch):
    g = np.random.default_rng(0)
    tissues = [(g.uniform(0, 10), g.uniform(0.2, 1.5), int(g.uniform(500, 9000))) for _ in range(6)]
    h = histogram(np.concatenate([g.normal(*tissue) for tissue in tissues]))
    together = fit(h).mixture
    monkeypatch.setattr(FIT, "_AT_ONCE", 1)
    assert fit(h).mixture == together


def test_a_fit_with_a_large_concentration_ends(monkeypatch):
    # The prior tends to refill what was merged: without care, merges would go round in circles.
    count = itertools.count()

    def counted_sweep(*arguments):
        assert next(count) < 10_000, "merges go round in circles"
        return sweep(*arguments)

    monkeypatch.setattr(FIT.variational, "sweep", counted_sweep)
    voxels = np.rint(10 * np.random.default_rng(0).standard_normal(300)).astype(int)
    assert fit(histogram(voxels), concentration=20.0).status.converged


def test_a_fit_can_start_from_the_result_of_another(wavy):
    first = fit(wavy)
    again = fit(wavy, start=first.mixture)
    assert again.status.iterations < first.status.iterations
    assert again.bounds[-1] > first.bounds[-1] - 1
    one = fit(wavy, start=GaussianMixture([1.0], [10.0], [0.01]))
    assert one.mixture.components == 1  # a start with one component is nowhere to split


# ── what is refused, and why ─────────────────────────────────────────────────────────────────────

X = np.random.default_rng(0).integers(0, 50, 500)


@pytest.mark.parametrize(
    ("voxels", "message"),
    [
        ([[7], [7], [7]], "all voxels are 7"),
        (np.stack([X, 0 * X + 5], -1), "all voxels are 5"),
        (np.stack([X, 3 * X + 5], -1), "linear function of the others"),
    ],
)
def test_data_without_a_density_are_refused(voxels, message):
    with pytest.raises(DegenerateDataError, match=message):
        fit(Histogram(voxels, np.ones(len(voxels))))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concentration": 0.0}, "concentration must be a positive number, not 0.0"),
        ({"truncation": 3.5}, "truncation must"),
        ({"truncation": 0}, "truncation must lie between 1 and"),
        ({"effective_count": -1.0}, "effective_count must be a positive"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_a_message_that_says_which(options, message):
    with pytest.raises(InvalidValueError, match=message):
        fit(histogram(X), **options)
