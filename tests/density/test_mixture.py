"""GaussianMixture against scipy, quadrature and Monte Carlo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures, random_mixture
from scipy import integrate, optimize, special, stats

from ndflow import GaussianMixture, InvalidValueError
from ndflow.density import stack
from ndflow.density.mixture import marginal, projected


def components_of(m: GaussianMixture) -> list[tuple[float, np.ndarray, np.ndarray]]:
    return [
        (w, mean, np.linalg.inv(precision))
        for w, mean, precision in zip(m.weights, m.means, m.precisions, strict=True)
    ]


def log_sum_of(function: str, m: GaussianMixture, x: np.ndarray) -> np.ndarray:
    """``ln Σ π_k f_k(x)`` with scipy's own logarithms of f, in one channel."""
    terms = [
        getattr(stats.norm(mean[0], np.sqrt(v[0, 0])), function)(x)
        for _, mean, v in components_of(m)
    ]
    return special.logsumexp(terms, axis=0, b=m.weights[:, np.newaxis])


def grid(m: GaussianMixture, reach: float, size: int = 81) -> np.ndarray:
    """Points up to `reach` standard deviations to both sides."""
    return m.mean()[0] + np.sqrt(m.covariance()[0, 0]) * np.linspace(-reach, reach, size)


seeds = st.integers(0, 2**32 - 1)


# ── densities ────────────────────────────────────────────────────────────────────────────────────


@given(mixtures(), seeds)
def test_the_density_is_that_of_scipy_in_any_number_of_channels(m, seed):
    x = 3 * np.random.default_rng(seed).standard_normal((20, m.channels))
    expected = sum(w * stats.multivariate_normal(mean, v).pdf(x) for w, mean, v in components_of(m))
    assert m.pdf(x).shape == (20,)
    np.testing.assert_allclose(m.pdf(x), expected, rtol=1e-11)
    np.testing.assert_allclose(m.logpdf(x), np.log(expected), rtol=1e-11, atol=1e-11)


@given(mixtures(channels=1))
def test_log_densities_and_normal_scores_are_precise_200_sds_out(m):
    x = grid(m, 200)
    np.testing.assert_allclose(m.logpdf(x), log_sum_of("logpdf", m, x), rtol=1e-12, atol=1e-12)
    z = m.normal_score(x)
    assert (np.diff(z) > 0).all()
    np.testing.assert_allclose(m.from_normal_score(z), x, rtol=1e-12, atol=1e-12)
    # The definition, Φ(z) = F(x), in logarithms of the lighter tail.
    tail = np.where(z < 0, log_sum_of("logcdf", m, x), log_sum_of("logsf", m, x))
    np.testing.assert_allclose(stats.norm.logcdf(-np.abs(z)), tail, rtol=1e-10)


@given(mixtures(), st.sampled_from([1.0, 30.0, 1e4, 1e150]), seeds)
def test_responsibilities_are_posteriors_however_far_out(m, far, seed):
    x = far * np.random.default_rng(seed).standard_normal((20, m.channels))
    r = m.responsibilities(x)
    assert r.shape == (20, m.components)
    assert (r >= 0).all()
    np.testing.assert_allclose(r.sum(axis=-1), 1, rtol=1e-13)
    if far == 1.0:  # here Bayes' rule can be written down plainly
        joint = np.stack(
            [w * stats.multivariate_normal(mean, v).pdf(x) for w, mean, v in components_of(m)], -1
        )
        joint = joint.reshape(20, -1)
        np.testing.assert_allclose(r, joint / joint.sum(axis=1, keepdims=True), atol=1e-12)


# ── distribution functions ───────────────────────────────────────────────────────────────────────


@given(mixtures(channels=1))
def test_the_distribution_function_is_that_of_scipy(m):
    x = grid(m, 8)
    np.testing.assert_allclose(m.cdf(x), np.exp(log_sum_of("logcdf", m, x)), rtol=1e-12)


@given(mixtures(channels=1, spread=5.0))
def test_quantiles_invert_the_distribution_function(m):
    p = np.concatenate([10.0 ** -np.arange(1, 301, 23), np.linspace(0.01, 0.99, 25)])
    np.testing.assert_allclose(m.cdf(m.quantile(p)), p, rtol=1e-11)
    root = optimize.brentq(lambda x: m.cdf(x) - 0.3, *grid(m, 30, 2), xtol=1e-13)
    np.testing.assert_allclose(m.quantile(0.3), root, atol=1e-9)
    np.testing.assert_array_equal(m.quantile([0, 1]), [-np.inf, np.inf])


# ── moments, samples ─────────────────────────────────────────────────────────────────────────────


@settings(max_examples=15)
@given(mixtures(channels=1))
def test_moments_are_those_of_the_density(m):
    low, high = grid(m, 30, 2)
    options = {"points": sorted(m.means[:, 0]), "limit": 400, "epsabs": 1e-12}
    mean, _ = integrate.quad(lambda x: x * m.pdf(x), low, high, **options)
    variance, _ = integrate.quad(lambda x: (x - mean) ** 2 * m.pdf(x), low, high, **options)
    np.testing.assert_allclose(m.mean(), [mean], atol=1e-9)
    np.testing.assert_allclose(m.covariance(), [[variance]], rtol=1e-9)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_samples_have_the_moments_of_the_mixture(channels):
    m = random_mixture(np.random.default_rng(5), 4, channels)
    size = 50_000
    x = m.sample(size, np.random.default_rng(6))
    sds = np.sqrt(np.diagonal(m.covariance()))
    assert (np.abs(x.mean(axis=0) - m.mean()) < 4 * sds / np.sqrt(size)).all()
    np.testing.assert_allclose(
        np.cov(x.T).reshape(channels, channels), m.covariance(), atol=0.04 * sds.max() ** 2
    )


# ── mixtures from mixtures ───────────────────────────────────────────────────────────────────────


@given(mixtures(), seeds)
def test_an_affine_change_of_units_keeps_mass(m, seed):
    g = np.random.default_rng(seed)
    matrix, offset = g.standard_normal((m.channels, m.channels)), g.standard_normal(m.channels)
    matrix += 0.1 * np.sign(np.linalg.det(matrix)) * np.eye(m.channels)
    x = g.standard_normal((10, m.channels))
    y = x @ matrix.T + offset
    log_jacobian = np.linalg.slogdet(matrix)[1]
    moved = m.transformed(matrix, offset)
    np.testing.assert_allclose(moved.logpdf(y) + log_jacobian, m.logpdf(x), rtol=1e-7, atol=1e-7)


@given(st.lists(mixtures(channels=2), min_size=1, max_size=4), seeds)
def test_a_stack_is_exactly_the_average_density(parts, seed):
    g = np.random.default_rng(seed)
    x = 2 * g.standard_normal((10, 2))
    average = np.mean([m.pdf(x) for m in parts], axis=0)
    np.testing.assert_allclose(stack(parts).pdf(x), average, rtol=1e-12)
    shares = g.uniform(0, 5, len(parts))
    average = np.average([m.pdf(x) for m in parts], axis=0, weights=shares)
    np.testing.assert_allclose(stack(parts, shares).pdf(x), average, rtol=1e-12)


def test_a_marginal_is_the_density_summed_over_the_other_channel():
    mixture = random_mixture(np.random.default_rng(3), 4, 2)
    low, high = mixture.mean() - 12, mixture.mean() + 12
    y = np.linspace(low[1], high[1], 4001)
    for x in np.linspace(low[0] + 9, high[0] - 9, 7):
        summed = mixture.pdf(np.column_stack([np.full_like(y, x), y])).sum() * (y[1] - y[0])
        assert marginal(mixture, 0).pdf(x) == pytest.approx(summed, rel=1e-6)


# ── what is refused, and why ─────────────────────────────────────────────────────────────────────

M1 = GaussianMixture([1.0], [0.0], [1.0])
M2 = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianMixture([], [], []), "must be 1 to"),
        (lambda: GaussianMixture([1.0], [0, 1], [1, 1]), r"means .*\(1, any\)"),
        (lambda: M1.quantile(1.2), "probability .*between 0 and 1"),
        (lambda: M2.cdf(0.0), "one channel, but this mixture has 2"),
        (lambda: M2.pdf([1.0, 2.0, 3.0]), r"2 channels.*\(3,\)"),
        (lambda: stack([]), "one or more"),
        (lambda: stack([M1, M2]), "same number of channels"),
        (lambda: stack([M1], [-1.0]), "weights .*negative"),
        (lambda: projected(M2, [1.0, 0.0, 0.0]), "direction"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_message_that_says_which(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()
