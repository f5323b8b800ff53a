"""From one density to another in one call, with all components free or some of them frozen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import moved, random_mixture

from ndflow import Affine, GaussianMixture, InvalidValueError, normalising_map
from ndflow.transport import Flow, QuantileMap, align, match, tabulate

SOLVERS = ["exact", "rk4"]
seeds = st.integers(0, 10**6)


def pair(seed, channels=1):
    """A scan in units of its own, and what it should look like."""
    generator = np.random.default_rng(seed)
    source = random_mixture(generator, 4, channels)
    return (
        source.transformed(80.0 * np.eye(channels), np.full(channels, 500.0)),
        random_mixture(generator, 3, channels),
    )


@settings(max_examples=20)
@given(seeds)
def test_it_conserves_mass_increases_and_is_straight_beyond_the_outer_quantiles(seed):
    source, target = pair(seed)
    imap = normalising_map(source, target)
    matched = match(moved(source, align(source, target)), target).matched
    inner = source.quantile(np.linspace(0.001, 0.999, 51))
    np.testing.assert_allclose(matched.cdf(imap(inner)), source.cdf(inner), rtol=1e-9)
    low, high = source.quantile([0.0005, 0.9995])
    sd = np.sqrt(source.covariance()[0, 0])
    x = source.mean() + sd * np.linspace(-200, 200, 501)
    assert np.isfinite(imap(x)).all()
    assert (np.diff(imap(x)) > 0).all()
    for end, sign in ((low, -1), (high, 1)):
        out = end + sign * sd * np.array([1e-6, 1.0, 10.0, 100.0])
        slopes = (imap(out) - imap(end)) / (out - end)
        np.testing.assert_allclose(slopes[1:], slopes[-1], rtol=1e-9)
        # Just inside, it bends: the range is neither wider nor narrower.
        inside = imap.log_det_jacobian(end - sign * sd * np.array([0.0, 0.05]))
        assert inside[1] != inside[0]
        assert inside[0] == pytest.approx(np.log(slopes[-1]), abs=1e-9)


def test_several_channels_flow():
    source, target = pair(0, 2)
    chain = normalising_map(source, target, steps=20)
    assert [type(part) for part in chain.maps] == [Affine, Flow]
    assert chain.maps[1].steps == 20
    x = source.sample(50, np.random.default_rng(0))
    np.testing.assert_allclose(chain.inverse()(chain(x)), x, rtol=1e-3)


def test_options_reach_the_match():
    source, target = pair(0)
    aligned = moved(source, align(source, target))
    options = {"objective": "cramer", "regularisation": 1e-2, "frozen": [1]}
    inner = normalising_map(source, target, **options).maps[1].inner
    assert inner == QuantileMap(aligned, match(aligned, target, **options).matched)


def test_steps_are_checked_for_any_solver():
    with pytest.raises(InvalidValueError, match="steps must lie between"):
        normalising_map(*pair(0), steps=0)  # a mistake, though the exact solver has none


# ── frozen components ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("separation", "most"), [(6.0, 5e-4), (12.0, 4e-7)])
def test_far_inside_a_frozen_component_the_map_is_the_alignment(solver, separation, most):
    # A lesion, so many standard deviations (of itself, 0.25) above tissue that has to move.
    source = GaussianMixture([0.5, 0.4, 0.1], [-1.0, 0.0, 0.25 * separation], [16.0] * 3)
    target = GaussianMixture([0.5, 0.5], [-0.8, 0.9], [9.0, 9.0])
    affine = align(source, target)
    imap = normalising_map(source, target, frozen=[2], solver=solver)
    x = source.means[2, 0] + 0.25 * np.linspace(-0.5, 2, 26)
    assert np.abs(imap(x) - affine(x)).max() < most
    # The tissue does move, and the lesion would have moved with it.
    assert np.abs(imap(np.array([-1.0, 0.0])) - affine(np.array([-1.0, 0.0]))).max() > 0.1
    free = normalising_map(source, target, solver=solver)
    assert np.abs(free(x) - affine(x)).max() > 10 * most


# ── gaps without any mass ────────────────────────────────────────────────────────────────────────


def apart(generator, narrowest):
    """A mixture of components in places far apart, or overlapping, as chance has it."""
    count = int(generator.integers(1, 7))
    weights = np.maximum(generator.dirichlet(np.ones(count)), 1e-3)
    means = generator.uniform(0, 1000, count)
    if narrowest:
        sds = 80 ** generator.uniform(-0.5, 1, count)
    else:
        sds = generator.uniform(0.5, 80, count)
    return GaussianMixture(weights / weights.sum(), means, sds**-2)


def dense(source):
    """Intensities over the whole range of a source, and somewhat beyond."""
    low, high = source.quantile([1e-4, 1 - 1e-4])
    return np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 1001)


@pytest.mark.parametrize("seed", range(24))
def test_it_increases_strictly_across_gaps_and_can_be_undone(seed):
    generator = np.random.default_rng(seed)
    source, target = apart(generator, True), apart(generator, True)
    imap = normalising_map(source, target)
    x = dense(source)
    y, log_slopes = imap.with_log_det_jacobian(x)
    assert (np.diff(y) > 0).all()
    assert np.isfinite(log_slopes).all()
    assert np.abs(imap.inverse()(y) - x).max() < 1e-5 * np.ptp(x)
    table = tabulate(imap, x[0], x[-1], tolerance=1e-4 * np.ptp(y))
    assert (np.diff(table(x)) > 0).all()
    assert np.abs(table.inverse()(table(x)) - x).max() < 1e-5 * np.ptp(x)


def test_a_gap_is_mapped_to_a_gap():
    source = GaussianMixture([0.3, 0.7], [0.0, 1000.0], [1.0, 1.0])
    target = GaussianMixture([0.3, 0.7], [-1.0, 1.0], [1e6, 1e6])
    x = np.linspace(100, 900, 5)
    line = np.interp(x, [0.0, 1000.0], [-1.0, 1.0])
    np.testing.assert_allclose(normalising_map(source, target)(x), line, atol=0.02)


@pytest.mark.parametrize("seed", [1, 12])
def test_an_integrated_flow_that_falls_is_refused(seed):
    generator = np.random.default_rng(seed)
    source, target = apart(generator, False), apart(generator, False)
    with pytest.raises(InvalidValueError, match=r"100 steps .* more steps, or the solver 'exact'"):
        normalising_map(source, target, solver="rk4")
    assert (np.diff(normalising_map(source, target)(dense(source))) > 0).all()
