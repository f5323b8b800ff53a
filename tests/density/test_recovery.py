"""A fit recovers the density that generated the data, whatever its starting point."""

import os

import numpy as np
import pytest
from mixtures import random_mixture

import ndflow
from ndflow import GaussianMixture, Histogram

MIXTURES = range(50)


def any_mixture(g: np.random.Generator) -> GaussianMixture:
    return random_mixture(g, int(g.integers(1, 7)), channels=1)


def exact_histogram(m: GaussianMixture, total: float = 1e6, bins: int = 1000) -> Histogram:
    """Expected counts, without noise: the probability of each bin times a million."""
    edges = np.linspace(*m.quantile([1e-9, 1 - 1e-9]), bins + 1)
    counts = total * np.diff(m.cdf(edges))
    return Histogram(0.5 * (edges[1:] + edges[:-1]), counts, edges[1] - edges[0], edges[0])


def total_variation(one: GaussianMixture, two: GaussianMixture) -> float:
    """``½ ∫ |p − q|``."""
    ends = [m.quantile(p) for m in (one, two) for p in (1e-12, 1 - 1e-12)]
    x = np.linspace(min(ends), max(ends), 20_001)
    return float(0.5 * np.trapezoid(np.abs(one.pdf(x) - two.pdf(x)), x))


@pytest.mark.parametrize("seed", MIXTURES)
def test_a_million_exact_counts_give_the_density_within_two_percent(seed):
    m = any_mixture(np.random.default_rng(seed))
    fit = ndflow.fit(exact_histogram(m))
    assert fit.status.converged
    assert total_variation(fit.mixture, m) < 0.02


def test_more_evidence_gives_a_closer_density():
    errors = []
    for worth in (1e2, 1e4, 1e6):
        pairs = [(m, ndflow.fit(exact_histogram(m), effective_count=worth).mixture)
                 for m in map(any_mixture, map(np.random.default_rng, range(10)))]  # fmt: skip
        errors.append(np.mean([total_variation(*pair) for pair in pairs]))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def random_start(h: Histogram, g: np.random.Generator, truncation: int = 20) -> GaussianMixture:
    means = g.choice(h.values[:, 0], truncation, p=h.counts / h.total)
    precision = 1 / h.covariance()[0, 0]
    return GaussianMixture(
        np.full(truncation, 1 / truncation), means, np.full(truncation, precision)
    )


# Three hundred random starts take minutes: all fifty mixtures only where there is time to explore.
@pytest.mark.parametrize("seed", MIXTURES if os.environ.get("EXPLORE") else [36])
def test_the_deterministic_start_is_as_good_as_the_best_of_six_random_ones(seed):
    g = np.random.default_rng(seed)
    h = exact_histogram(any_mixture(g))
    random = max(ndflow.fit(h, start=random_start(h, g)).bounds[-1] for _ in range(6))
    assert ndflow.fit(h).bounds[-1] > random - 5  # nats, of the evidence of ten thousand voxels


@pytest.mark.parametrize("channels", [2, 3])
def test_several_channels_are_recovered_too(channels):
    m = random_mixture(np.random.default_rng(channels), 3, channels, spread=3.0)
    x = m.sample(100_000, np.random.default_rng(0))
    fitted = ndflow.fit(ndflow.histogram(np.rint(10 * x).astype(int), channels=channels, slope=0.1))
    # ∫ |p − q| = E_p |1 − q/p|: the sample that was fitted serves as points of integration.
    assert 0.5 * np.mean(np.abs(1 - fitted.mixture.pdf(x) / m.pdf(x))) < 0.05
