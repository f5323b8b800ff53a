"""A fit does not depend on how bins are split and ordered, nor on units."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures

import ndflow
from ndflow import GaussianMixture, Histogram
from ndflow.density.climb import sweep
from ndflow.density.variational import Data, Moments, Prior

seeds = st.integers(0, 2**32 - 1)
slopes = st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3)


def binned(m: GaussianMixture, seed: int, bins: int = 120) -> Histogram:
    """A sample of the mixture on an even grid; scaled integers, as in stored images."""
    x = m.sample(4000, np.random.default_rng(seed))
    step = np.ptp(x, axis=0) / bins
    values, counts = np.unique(np.rint(x / step), axis=0, return_counts=True)
    return Histogram(values * step, counts, step, -0.5 * step)


def assert_same(ours: GaussianMixture, expected: GaussianMixture, rtol: float) -> None:
    """The same components sorted by their first means, in standard deviations of the mixture."""
    assert ours.components == expected.components
    order = np.argsort(expected.means[:, 0])
    sds = np.sqrt(np.diagonal(expected.covariance()))
    unit = np.outer(sds, sds)
    np.testing.assert_allclose(ours.weights, expected.weights[order], rtol=rtol)
    np.testing.assert_allclose(
        (ours.means - expected.means[order]) / sds, np.zeros_like(ours.means), atol=rtol
    )
    np.testing.assert_allclose(
        ours.covariances / unit, expected.covariances[order] / unit, rtol=rtol, atol=rtol * 1e-3
    )


# ── bins ─────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=15)  # each is two fits, in up to three channels
@given(mixtures(most=4), seeds)
def test_splitting_bins_adding_empty_ones_and_permuting_them_change_no_fit(m, seed):
    g = np.random.default_rng(seed)
    h = binned(m, seed)
    values = np.concatenate([h.values, h.values[::2], h.values.max() + g.uniform(0, 9, (5, 1)) @
                             np.ones((1, h.channels))])  # fmt: skip
    counts = np.concatenate([h.counts, h.counts[::2] / 2, np.zeros(5)])
    counts[: len(h.counts) : 2] /= 2
    order = g.permutation(len(counts))
    shuffled = Histogram(values[order], counts[order], h.widths, h.origin)
    one, two = (ndflow.fit(data, truncation=6, tolerance=1.0) for data in (h, shuffled))
    assert_same(two.mixture, one.mixture, rtol=1e-9)
    np.testing.assert_allclose(two.bounds, one.bounds, rtol=1e-9)


@given(seeds, st.integers(1, 3))
def test_splitting_bins_adding_empty_ones_and_permuting_them_change_no_sweep(seed, d):
    # A histogram joins equal values by itself. The mathematics must not depend on that.
    g = np.random.default_rng(seed)
    x, counts = g.standard_normal((60, d)), g.uniform(0, 20, 60)
    both = np.concatenate([x, x, 9 * g.standard_normal((5, d))])
    halves = np.concatenate([counts / 2, counts / 2, np.zeros(5)])
    order = g.permutation(125)
    mass = counts.sum() * g.dirichlet(np.ones(4))
    start = Moments(mass, g.standard_normal((4, d)), mass[:, None, None] * np.eye(d), 2.0)
    prior = Prior(2.0, 0.1, d + 3.0, np.eye(d))
    bound, moments = sweep(Data(x, counts, np.zeros((x.shape[1], x.shape[1]))), prior, start)
    other_bound, other = sweep(
        Data(both[order], halves[order], np.zeros((x.shape[1], x.shape[1]))), prior, start
    )
    np.testing.assert_allclose(other_bound, bound, rtol=1e-12)
    for ours, expected in zip(other[:3], moments[:3], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


# ── units ────────────────────────────────────────────────────────────────────────────────────────


@given(mixtures(channels=1), seeds, slopes, st.floats(-1e3, 1e3))
def test_a_fit_commutes_with_a_change_of_units_and_of_sign(m, seed, slope, offset):
    h = binned(m, seed)
    offset *= abs(slope)
    moved = Histogram(slope * h.values + offset, h.counts, abs(slope) * h.widths,
                      slope * h.origin + offset)  # fmt: skip
    one, two = ndflow.fit(h), ndflow.fit(moved)
    assert_same(two.mixture, one.mixture.transformed(slope, offset), rtol=1e-6)
    # A density in other units is scaled by the slope, once per voxel.
    change = min(h.total, 1e4) * np.log(abs(slope))
    np.testing.assert_allclose(two.bounds[-1], one.bounds[-1] - change, atol=1e-6)


@settings(max_examples=15)  # each is two fits in two channels
@given(mixtures(channels=2, most=3), seeds, st.tuples(slopes, slopes))
def test_each_of_several_channels_may_have_its_own_units(m, seed, slope):
    h = binned(m, seed, bins=20)
    slope = np.array(slope)
    moved = Histogram(slope * h.values, h.counts, abs(slope) * h.widths, slope * h.origin)
    options = {"truncation": 6, "tolerance": 0.1}
    one, two = ndflow.fit(h, **options), ndflow.fit(moved, **options)
    assert_same(two.mixture, one.mixture.transformed(np.diag(slope), [0, 0]), rtol=1e-6)
