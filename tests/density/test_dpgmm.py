"""What the options of a fit do, how it ends, and what it refuses."""

import itertools
from importlib import import_module

import numpy as np
import pytest
from scipy import stats

import ndflow
from ndflow import DegenerateDataError, GaussianMixture, Histogram, InvalidValueError
from ndflow.density.climb import sweep

START = import_module("ndflow.density.fit")  # the module, whose name the function has in its room


def gaussian_counts(width: float, sd: float = 1.0, total: float = 1e6) -> Histogram:
    """Exact counts of one Gaussian in bins of the given width, from -8 to 8 sd."""
    count = int(np.ceil(8 * sd / width))
    edges = width * (np.arange(-count, count + 2) - 0.5)
    counts = total * np.diff(stats.norm.cdf(edges, scale=sd))
    return Histogram(0.5 * (edges[1:] + edges[:-1]), counts, width, edges[0])


@pytest.fixture(autouse=True)
def no_endless_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an endless search for a starting point fail, rather than hang."""
    count = itertools.count()

    def counted_sweep(*arguments):
        assert next(count) < 10_000, "merges go round in circles"
        return sweep(*arguments)

    monkeypatch.setattr(START, "sweep", counted_sweep)


@pytest.fixture(scope="module")
def wavy() -> Histogram:
    """Eight overlapping tissues: how many of them a fit separates depends on its options."""
    m = GaussianMixture(np.full(8, 1 / 8), 3.0 * np.arange(8), np.full(8, 1 / 1.3**2))
    x = np.arange(-6, 27, 0.1)
    return Histogram(x, 1e6 * m.pdf(x) / m.pdf(x).sum(), 0.1, x[0] - 0.05)


# ── options ──────────────────────────────────────────────────────────────────────────────────────


def test_more_evidence_finds_more_components(wavy):
    found = [ndflow.fit(wavy, effective_count=n).mixture.components for n in (1e3, 1e4, 1e5)]
    assert found[0] < found[1] < found[2]


def test_counts_below_the_effective_count_are_taken_as_they_are(wavy):
    few = Histogram(wavy.values, wavy.counts / 1e4, wavy.widths, wavy.origin)
    assert ndflow.fit(few) == ndflow.fit(few, effective_count=few.total)
    tempered = ndflow.fit(wavy, effective_count=few.total)
    np.testing.assert_allclose(tempered.bounds[-1], ndflow.fit(few).bounds[-1], rtol=1e-9)


@pytest.mark.parametrize("concentration", [0.01, 2.0, 30.0])
def test_the_concentration_takes_weight_from_the_heavy_components(concentration):
    # Two far groups of 12 and 8 voxels: the first of two sticks is Beta(1 + 12, α + 8).
    h = Histogram([0.0, 0.1, 50.0, 50.1], [6.0, 6.0, 4.0, 4.0])
    two = GaussianMixture([0.5, 0.5], [0.0, 50.0], [1.0, 1.0])
    fitted = ndflow.fit(h, concentration=concentration, truncation=2, start=two).mixture
    np.testing.assert_allclose(fitted.weights[0], 13 / (21 + concentration), rtol=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_merges_tried_at_once_are_chosen_as_if_one_after_the_other(seed, monkeypatch):
    g = np.random.default_rng(seed)
    tissues = [(g.uniform(0, 10), g.uniform(0.2, 1.5), int(g.uniform(500, 9000))) for _ in range(6)]
    h = ndflow.histogram(np.concatenate([g.normal(*tissue) for tissue in tissues]))
    together = ndflow.fit(h).mixture
    monkeypatch.setattr(START, "_AT_ONCE", 1)
    assert ndflow.fit(h).mixture == together


@pytest.mark.parametrize("concentration", [10.0, 20.0, 100.0])
def test_a_fit_with_a_large_concentration_ends(concentration):
    # The prior tends to refill what was merged: without care, merges would go round in circles.
    voxels = np.rint(10 * np.random.default_rng(0).standard_normal(300)).astype(int)
    assert ndflow.fit(ndflow.histogram(voxels), concentration=concentration).status.converged


def test_a_sharp_gamma_prior_fixes_the_concentration_and_a_wide_one_lets_the_data_decide(wavy):
    fixed = ndflow.fit(wavy, concentration=5.0)
    sharp = ndflow.fit(wavy, concentration=5.0, concentration_prior=(5e7, 1e7))
    np.testing.assert_allclose(sharp.bounds[-1], fixed.bounds[-1], atol=0.1)
    # One Gaussian favours a small α: if the data decide, there is more evidence than at α = 50.
    h = gaussian_counts(0.1)
    wide = ndflow.fit(h, concentration=50.0, concentration_prior=(1.0, 0.02))
    assert wide.bounds[-1] > ndflow.fit(h, concentration=50.0).bounds[-1] + 10


def test_there_are_never_more_components_than_the_truncation(wavy):
    for truncation in (1, 2, 5):
        assert ndflow.fit(wavy, truncation=truncation).mixture.components == truncation


@pytest.mark.parametrize("strength", [1e-3, 0.1, 10.0])
def test_the_prior_strength_sets_how_narrow_components_are_expected_to_be(strength):
    # With one component E Λ = ν/(W⁻¹) has a closed form: ν0 = 4, W0⁻¹ = ν0 κ0/(1 + κ0) s², N = 20.
    x = np.random.default_rng(0).standard_normal(20)
    fitted = ndflow.fit(Histogram(x, np.ones(20)), truncation=1, prior_strength=strength).mixture
    expected = (4 + 20) / ((4 * strength / (1 + strength) + 20) * x.var())
    np.testing.assert_allclose(fitted.precisions, [[[expected]]], rtol=1e-9)
    np.testing.assert_allclose(fitted.means, [[x.mean()]], rtol=1e-9)


def test_a_smaller_tolerance_climbs_longer_and_higher(wavy):
    two = GaussianMixture([0.5, 0.5], [0.0, 20.0], [1.0, 1.0])
    coarse, fine = (ndflow.fit(wavy, start=two, tolerance=t) for t in (10.0, 1e-4))
    assert fine.status.iterations > coarse.status.iterations
    assert fine.bounds[-1] > coarse.bounds[-1]
    assert np.diff(fine.bounds)[-1] < 1e-4


def test_a_fit_can_start_from_the_result_of_another(wavy):
    first = ndflow.fit(wavy)
    again = ndflow.fit(wavy, start=first.mixture)
    assert again.status.iterations < first.status.iterations
    assert again.bounds[-1] > first.bounds[-1] - 1
    one = ndflow.fit(wavy, start=GaussianMixture([1.0], [10.0], [0.01]), tolerance=1e-3)
    assert one.mixture.components == 1  # a start with one component is nowhere to split


# ── the mixture ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("truncation", [1, 20])
@pytest.mark.parametrize("width", [0.05, 0.2, 0.5, 1.0])
def test_the_width_of_the_bins_does_not_widen_the_density(width, truncation):
    fitted = ndflow.fit(gaussian_counts(width), truncation=truncation).mixture
    # Uncorrected, sd² + h²/12 would be 4 % too wide at h = sd (Sheppard).
    assert abs(np.sqrt(fitted.covariance()[0, 0]) - 1) < 0.005


@pytest.mark.parametrize("width", [0.2, 0.5, 1.0])
def test_coarse_bins_are_not_fitted_by_one_narrow_component_each(width):
    fitted = ndflow.fit(gaussian_counts(width)).mixture
    x = np.linspace(-5, 5, 2001)
    difference = np.abs(fitted.pdf(x) - stats.norm.pdf(x))
    assert 0.5 * np.trapezoid(difference, x) < 0.02


def test_channels_are_corrected_for_the_width_of_their_own_bins():
    sds = np.array([1.0, 30.0])
    x = np.random.default_rng(0).standard_normal((200_000, 2)) * sds
    h = ndflow.histogram(np.rint(x / sds).astype(int), channels=2, slope=sds)
    fitted = ndflow.fit(h, effective_count=2e5, truncation=1).mixture
    np.testing.assert_allclose(np.sqrt(np.diagonal(fitted.covariance())), sds, rtol=0.005)


def test_a_component_narrower_than_a_bin_keeps_a_positive_width():
    h = Histogram([0.0, 1.0, 2.0, 10.0], [1.0, 1e5, 1.0, 1e5], 1.0, -0.5)
    fitted = ndflow.fit(h, effective_count=1e9).mixture
    assert (fitted.covariances > 0).all()
    np.testing.assert_allclose(fitted.cdf(5.0), 0.5, atol=1e-3)


def test_components_below_a_thousandth_are_pruned_and_the_rest_sums_to_one(wavy):
    for worth in (1e2, 1e4, 1e6):
        fitted = ndflow.fit(wavy, effective_count=worth).mixture
        assert fitted.weights.min() >= 1e-3
        np.testing.assert_allclose(fitted.weights.sum(), 1, rtol=1e-12)
        assert (np.diff(fitted.means[:, 0]) > 0).all()
    h = Histogram([0.0, 0.1, 0.2, 1.0], [3e3, 5e3, 2e3, 4.0])  # 4 in 10,000 is too little
    assert ndflow.fit(h).mixture.means.max() < 0.3


def test_the_status_says_that_it_converged_and_when(wavy):
    fit = ndflow.fit(wavy)
    assert fit.status.converged
    assert fit.status.iterations == len(fit.bounds)
    assert fit.status.message == f"converged after {len(fit.bounds)} sweeps"


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32])
def test_two_valued_data_have_a_density_with_two_peaks(dtype):
    fitted = ndflow.fit(ndflow.histogram(np.array([0, 1, 1] * 2000, dtype))).mixture
    # Each peak is as wide as its bin, so a little of it lies in the other.
    np.testing.assert_allclose(fitted.cdf(0.5), 1 / 3, atol=0.02)
    assert fitted.components == 2


# ── what is refused, and why ─────────────────────────────────────────────────────────────────────

X = np.random.default_rng(0).integers(0, 50, 500)
H = ndflow.histogram(X)
WRONG_START = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ndflow.fit(ndflow.histogram([7, 7, 7])), "all 3 voxels have the value 7"),
        (lambda: ndflow.fit(ndflow.histogram([0.1] * 9)), "all 9 voxels have the value 0.1"),
        (
            lambda: ndflow.fit(ndflow.histogram(np.stack([X, 0 * X + 5], -1), channels=2)),
            "all 500 voxels have the value 5",
        ),
        (
            lambda: ndflow.fit(ndflow.histogram(np.stack([X, 3 * X + 5], -1), channels=2)),
            "linear function of the others",
        ),
    ],
)
def test_data_without_a_density_are_refused(make, message):
    with pytest.raises(DegenerateDataError, match=message):
        make()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concentration": 0.0}, "concentration must be a positive number, not 0.0"),
        ({"concentration": np.nan}, "concentration must be"),
        ({"concentration_prior": (1.0, -1.0)}, "rate of concentration_prior"),
        ({"concentration_prior": (0.0, 1.0)}, "shape of concentration_prior"),
        ({"truncation": 3.5}, "truncation must"),
        ({"truncation": 0}, "truncation must lie between 1 and"),
        ({"effective_count": -1.0}, "effective_count must be a positive"),
        ({"prior_strength": 0.0}, "prior_strength must be a positive"),
        ({"tolerance": 0.0}, "tolerance must be a positive"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_a_message_that_says_which(options, message):
    with pytest.raises(InvalidValueError, match=message):
        ndflow.fit(H, **options)
