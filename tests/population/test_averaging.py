"""Averages and pushforwards of densities: against closed forms, root finding and scipy."""

import numpy as np
import pytest
from hypothesis import given
from mixtures import mixtures, moved, random_mixture
from scipy import optimize, stats

from ndflow import GaussianMixture
from ndflow.population.averaging import Pushforward, mean_density, mean_quantiles, pushforward
from ndflow.transport import QuantileMap, align


def spread_out(channels: int = 1, count: int = 4) -> list[tuple[GaussianMixture, float]]:
    """Mixtures of different shapes, and shares that sum to 1."""
    generator = np.random.default_rng(channels)
    shares = generator.dirichlet(np.full(count, 3.0)).tolist()
    return [(random_mixture(generator, 4, channels), share) for share in shares]


def cdf(mixture: GaussianMixture, x: np.ndarray | float) -> np.ndarray:
    """The distribution function, by scipy."""
    sds = mixture.precisions[:, 0, 0] ** -0.5
    below = stats.norm.cdf(np.asarray(x)[..., np.newaxis], mixture.means[:, 0], sds)
    return (below * mixture.weights).sum(axis=-1)


def test_bins_hold_the_mean_of_the_masses_that_scipy_finds_there():
    densities = spread_out()
    histogram = mean_density(densities)
    centres, half = histogram.values[:, 0], histogram.widths[0] / 2
    mass = sum(w * (cdf(m, centres + half) - cdf(m, centres - half)) for m, w in densities)
    assert np.abs(histogram.counts - 1e9 * mass).max() <= 0.5 + 1e-3
    assert 1e9 - 3000 < histogram.total <= 1e9  # the rest is beyond the ends
    np.testing.assert_allclose(np.diff(centres), 2 * half, rtol=1e-12)  # no bin is missing
    assert len(centres) > 512
    assert (histogram.counts == np.rint(histogram.counts)).all()  # so 1e-16 makes no difference


def test_a_narrow_peak_far_from_a_light_one_gets_bins_of_its_own_width():
    # 99.8 % of the mass lies within 1/50 of a standard deviation.
    spike = GaussianMixture([0.998, 0.002], [0.0, 22.4], [10_000.0, 10_000.0])
    histogram = mean_density([(spike, 1.0)])
    assert histogram.widths[0] < 0.01 / 20


def test_quantiles_are_averaged_as_root_finding_says():
    densities = spread_out()
    histogram = mean_quantiles(densities)
    upper = histogram.values[:, 0] + histogram.widths[0] / 2
    below = np.cumsum(histogram.counts) / 1e9
    for p in (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999):
        roots = [
            optimize.brentq(lambda x, m=m, p=p: float(cdf(m, x)) - p, -20, 20) for m, _ in densities
        ]
        average = sum(w * root for (_, w), root in zip(densities, roots, strict=True))
        assert np.interp(average, upper, below) == pytest.approx(p, abs=2e-5)


def test_groups_of_points_have_the_mass_of_the_mean_density_in_every_half_space():
    densities = spread_out(channels=2)
    histogram = mean_density(densities)
    generator = np.random.default_rng(0)
    for _ in range(20):
        normal = generator.standard_normal(2)
        along = histogram.values @ normal
        offset = generator.choice(along)
        mass = 0.0
        for mixture, share in densities:
            sds = np.sqrt(
                np.einsum("i,kij,j->k", normal, np.linalg.inv(mixture.precisions), normal)
            )
            below = stats.norm.cdf(offset, mixture.means @ normal, sds)
            mass += share * float(mixture.weights @ below)
        found = histogram.counts[along <= offset].sum() / histogram.total
        assert found == pytest.approx(mass, abs=0.01)


# ── pushforwards ─────────────────────────────────────────────────────────────────────────────────


@given(mixtures(1), mixtures(1))
def test_the_map_from_one_density_to_another_gives_the_other(source, target):
    density, scores = Pushforward(source, QuantileMap(source, target)), np.linspace(-4, 4, 81)
    at = target.from_normal_score(scores)
    np.testing.assert_allclose(density.cdf(at), target.cdf(at), atol=1e-9)
    np.testing.assert_allclose(density.from_normal_score(scores), at, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_moved_to_another_is_like_the_other_in_any_units(seed):
    generator = np.random.default_rng(seed)
    source, target = (random_mixture(generator, 3) for _ in range(2))
    source, target = source.transformed(317.0, -20.0), moved(target, align(target))

    def apart(found):
        x = np.linspace(-4, 4, 801)
        return np.abs(found.cdf(x) - target.cdf(x)).max()

    # Less than the noise of as many points as a fit is told that it sees.
    assert apart(pushforward(source, QuantileMap(source, target))) < 3e4**-0.5
    assert apart(moved(source, align(source))) > 0.01  # alignment alone is not enough
