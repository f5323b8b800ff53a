"""From one density to another in one call."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import random_mixture

from ndflow import Affine, GaussianMixture, IntensityMap, InvalidValueError, normalising_map
from ndflow.transport import Flow, LinearTails, QuantileMap, align, match, tabulate

SHARES = (np.arange(2000) + 0.5) / 2000
seeds = st.integers(0, 10**6)


def pair(seed, channels=1):
    """A scan in units of its own, and what it should look like."""
    generator = np.random.default_rng(seed)
    source = random_mixture(generator, 4, channels)
    return (
        source.transformed(80.0 * np.eye(channels), np.full(channels, 500.0)),
        random_mixture(generator, 3, channels),
    )


def wasserstein(source, target, imap):
    """How far the mapped source is from the target: W1, from quantiles."""
    return np.abs(imap(source.quantile(SHARES)) - target.quantile(SHARES)).mean()


@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_it_comes_nearer_to_the_target_than_alignment_alone(objective):
    before, after = np.array(
        [
            [
                wasserstein(source, target, align(source, target)),
                wasserstein(source, target, normalising_map(source, target, objective=objective)),
            ]
            for source, target in map(pair, range(20))
        ]
    ).T
    # L2 may lose a little in the tails, which it hardly sees.
    assert after.mean() < 0.6 * before.mean()
    assert (after < before).mean() >= 0.9


def test_the_moments_arrive():
    source, target = pair(0)
    y = normalising_map(source, target, objective="cramer")(source.quantile(SHARES))
    assert y.mean() == pytest.approx(target.mean()[0], abs=0.02)
    assert y.std() == pytest.approx(target.covariance()[0, 0] ** 0.5, abs=0.05)


@settings(max_examples=15)
@given(seeds)
def test_both_solvers_agree(seed):
    source, target = pair(seed)
    x = source.quantile(np.linspace(0.0001, 0.9999, 101))
    exact, rk4 = (normalising_map(source, target, solver=s) for s in ("exact", "rk4"))
    sd = np.sqrt(target.covariance()[0, 0])
    assert np.abs(exact(x) - rk4(x)).max() < 1e-6 * sd
    assert np.abs(rk4.inverse()(rk4(x)) - x).max() < 1e-6 * 80
    assert np.abs(exact.inverse()(exact(x)) - x).max() < 1e-10 * 500


@given(seeds)
def test_the_mass_of_the_source_is_conserved(seed):
    source, target = pair(seed)
    imap = normalising_map(source, target)
    affine = align(source, target)
    aligned = source.transformed(affine.matrix, affine.offset)
    matched = match(aligned, target).matched
    x = source.quantile(np.linspace(0.001, 0.999, 51))
    np.testing.assert_allclose(matched.cdf(imap(x)), source.cdf(x), rtol=1e-9)
    np.testing.assert_allclose(
        np.exp(imap.log_det_jacobian(x)) * matched.pdf(imap(x)), source.pdf(x), rtol=1e-6
    )


@given(seeds)
def test_it_is_increasing_and_straight_beyond_the_outer_quantiles(seed):
    source, target = pair(seed)
    imap = normalising_map(source, target)
    low, high = source.quantile([0.0005, 0.9995])
    sd = np.sqrt(source.covariance()[0, 0])
    x = source.mean() + sd * np.linspace(-200, 200, 2001)
    assert np.isfinite(imap(x)).all()
    assert (np.diff(imap(x)) > 0).all()
    for end, sign in ((low, -1), (high, 1)):
        out = end + sign * sd * np.array([1e-6, 1.0, 10.0, 100.0])
        slopes = (imap(out) - imap(end)) / (out - end)
        np.testing.assert_allclose(slopes[1:], slopes[-1], rtol=1e-9)
        np.testing.assert_allclose(imap.log_det_jacobian(out), np.log(slopes[-1]), atol=1e-9)
        # Just inside, it bends: the range is neither wider nor narrower.
        inside = imap.log_det_jacobian(end - sign * sd * np.array([0.0, 0.05]))
        assert inside[1] != inside[0]
        assert inside[0] == pytest.approx(np.log(slopes[-1]), abs=1e-9)


def test_the_affine_map_comes_first():
    source, target = pair(0)
    chain = normalising_map(source, target)
    assert [type(part) for part in chain.maps] == [Affine, LinearTails]
    assert chain.maps[0] == align(source, target)
    assert isinstance(chain.maps[1].inner, QuantileMap)
    assert chain(500.0) == chain.maps[1](chain.maps[0](500.0))


def test_several_channels_flow():
    source, target = pair(0, 2)
    chain = normalising_map(source, target, steps=20)
    assert [type(part) for part in chain.maps] == [Affine, Flow]
    assert chain.maps[1].steps == 20
    x = source.sample(50, np.random.default_rng(0))
    np.testing.assert_allclose(chain.inverse()(chain(x)), x, rtol=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "cramer"},
        {"regularisation": 1e-1},
        {"frozen": [0]},
        {"solver": "rk4"},
        {"solver": "rk4", "steps": 3},
    ],
    ids=str,
)
def test_each_option_changes_the_map(options):
    source, target = pair(0)
    x = source.quantile(SHARES)
    assert np.abs(
        normalising_map(source, target, **options)(x) - normalising_map(source, target)(x)
    ).max() > (1e-12)


def test_options_reach_the_match():
    source, target = pair(0)
    affine = align(source, target)
    aligned = source.transformed(affine.matrix, affine.offset)
    options = {"objective": "cramer", "regularisation": 1e-2, "frozen": [1]}
    inner = normalising_map(source, target, **options).maps[1].inner
    assert inner == QuantileMap(aligned, match(aligned, target, **options).matched)
    assert (inner.target.means[1] == aligned.means[1]).all()


def test_to_itself_it_is_the_identity():
    source, _ = pair(0)
    x = source.quantile(SHARES)
    np.testing.assert_allclose(normalising_map(source, source)(x), x, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"solver": "rk4", "steps": 9}], ids=str)
@pytest.mark.parametrize("channels", [1, 2])
def test_it_survives_json(channels, options):
    source, target = pair(0, channels)
    imap = normalising_map(source, target, **options)
    again = IntensityMap.from_dict(json.loads(json.dumps(imap.to_dict())))
    assert again == imap
    x = source.sample(20, np.random.default_rng(0))
    assert again(x).tobytes() == imap(x).tobytes()
    assert again.inverse()(x / 500).tobytes() == imap.inverse()(x / 500).tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "euler"}, "solver must be 'exact' or 'rk4', not 'euler'"),
        ({"objective": "kl"}, "objective must be one of"),
        ({"regularisation": -1}, "regularisation must be zero or a positive number"),
        ({"frozen": [9]}, "frozen must lie between 0 and"),
        ({"solver": "rk4", "steps": 0}, "steps must lie between"),
        # Not used by the exact solver, but a mistake all the same.
        ({"steps": 0}, "steps must lie between"),
    ],
    ids=str,
)
def test_bad_options_are_refused_by_name(options, message):
    with pytest.raises(InvalidValueError, match=message):
        normalising_map(*pair(0), **options)


def test_different_channels_are_refused():
    with pytest.raises(InvalidValueError, match="source has 1 channels, but target 2"):
        normalising_map(pair(0)[0], pair(0, 2)[1])


# ── gaps without any mass ────────────────────────────────────────────────────────────────────────


def apart(generator):
    """A mixture of narrow components in places far apart, or overlapping, as chance has it."""
    count = int(generator.integers(1, 7))
    weights = np.maximum(generator.dirichlet(np.ones(count)), 1e-3)
    means = generator.uniform(0, 1000, count)
    sds = 80 ** generator.uniform(-0.5, 1, count)
    return GaussianMixture(weights / weights.sum(), means, sds**-2)


def dense(source):
    """Intensities over the whole range of a source, and somewhat beyond."""
    low, high = source.quantile([1e-4, 1 - 1e-4])
    return np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 1001)


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_it_increases_strictly_across_gaps_and_can_be_undone(first):
    for seed in range(first, first + (50 if os.environ.get("EXPLORE") else 10)):
        generator = np.random.default_rng(seed)
        source, target = apart(generator), apart(generator)
        imap = normalising_map(source, target)
        x = dense(source)
        y, log_slopes = imap.with_log_det_jacobian(x)
        assert (np.diff(y) > 0).all(), seed
        assert np.isfinite(log_slopes).all(), seed
        assert np.abs(imap.inverse()(y) - x).max() < 1e-5 * np.ptp(x), seed
        table = tabulate(imap, x[0], x[-1], tolerance=1e-4 * np.ptp(y))
        assert (np.diff(table(x)) > 0).all(), seed
        assert np.abs(table.inverse()(table(x)) - x).max() < 1e-5 * np.ptp(x), seed


def test_a_gap_is_mapped_to_a_gap():
    source = GaussianMixture([0.3, 0.7], [0.0, 1000.0], [1.0, 1.0])
    target = GaussianMixture([0.3, 0.7], [-1.0, 1.0], [1e6, 1e6])
    x = np.linspace(100, 900, 5)
    line = np.interp(x, [0.0, 1000.0], [-1.0, 1.0])
    np.testing.assert_allclose(normalising_map(source, target)(x), line, atol=0.02)


def test_without_a_gap_nothing_is_added():
    source, target = pair(1)
    inner = normalising_map(source, target).maps[1].inner
    assert inner.source.components == source.components


def uneven(generator):
    count = int(generator.integers(1, 7))
    weights = np.maximum(generator.dirichlet(np.ones(count)), 1e-3)
    means, sds = generator.uniform(0, 1000, count), generator.uniform(0.5, 80, count)
    return GaussianMixture(weights / weights.sum(), means, sds**-2)


@pytest.mark.parametrize("seed", [1, 12, 17, 29])
def test_an_integrated_flow_that_falls_is_refused(seed):
    generator = np.random.default_rng(seed)
    source, target = uneven(generator), uneven(generator)
    with pytest.raises(InvalidValueError, match=r"100 steps .* more steps, or the solver 'exact'"):
        normalising_map(source, target, solver="rk4")
    assert (np.diff(normalising_map(source, target)(dense(source))) > 0).all()
