"""Voxels of any kind become occupied bins and counts, and chunks add up to the whole."""

from collections import Counter
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ndflow import DegenerateDataError, Histogram, InvalidValueError
from ndflow.density import histogram, tally
from ndflow.density.binning import midpoint_edges

INTEGERS = [np.dtype(kind + size) for kind in "iu" for size in "1248"]
FLOATS = [np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)]


def as_counter(h: Histogram) -> Counter[float]:
    rows = (tuple(row) for row in h.values.tolist())
    return Counter(dict(zip(rows, h.counts.tolist(), strict=True)))


def brute_force(values: np.ndarray) -> Counter[float]:
    """Count with Python integers, which neither wrap around nor overflow."""
    return Counter((float(v) + 0.0,) for v in values.tolist())


seeds = st.integers(0, 2**32 - 1)


# ── what is counted ──────────────────────────────────────────────────────────────────────────────


def small_arrays(dtype: np.dtype[Any]) -> st.SearchStrategy[np.ndarray]:
    finite = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else None
    return hnp.arrays(dtype, st.integers(1, 60), elements=finite)


@given(st.sampled_from([np.dtype(bool), *INTEGERS, *FLOATS]).flatmap(small_arrays))
def test_voxels_of_every_numeric_type_keep_their_values(voxels):
    assert as_counter(histogram(voxels)) == brute_force(voxels)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_extremes_of_an_integer_type_do_not_wrap_around(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for voxels in ([low, high, high], [high - 1, high, high], [low, low + 1, low + 1]):
        h = histogram(np.array(voxels, dtype))
        assert as_counter(h) == brute_force(np.array(voxels, object))


def test_only_voxels_inside_the_mask_count():
    voxels = np.arange(24).reshape(2, 3, 4) % 5
    mask = np.arange(24).reshape(2, 3, 4) % 3  # any non-zero number is inside
    assert as_counter(histogram(voxels, mask)) == brute_force(voxels[mask > 0])


def test_weights_are_added_up_and_voxels_without_weight_leave_no_bin():
    h = histogram([3, 7, 3, 9], weights=[0.25, 2.0, 0.5, 0.0])
    assert as_counter(h) == {(3.0,): 0.75, (7.0,): 2.0}
    masked = histogram([3, 7, 3, 9], [1, 0, 1, 1], weights=[0.25, np.nan, 0.5, 0.0])
    assert as_counter(masked) == {(3.0,): 0.75}  # what lies outside the mask is not even looked at


def test_nan_and_infinite_voxels_are_ignored():
    voxels = np.array([1.5, np.nan, 2.5, np.inf, -np.inf, 2.5], np.float32)
    assert as_counter(histogram(voxels)) == {(1.5,): 1, (2.5,): 2}
    weighted = histogram(voxels, weights=[1, 9, 1, 9, 9, 1])
    assert as_counter(weighted) == {(1.5,): 1, (2.5,): 2}


def test_several_channels_keep_occupied_bins_only():
    h = Histogram([[0, 5], [0, 5], [2, 1], [0, 1]], np.ones(4))
    assert as_counter(h) == {(0.0, 5.0): 2, (2.0, 1.0): 1, (0.0, 1.0): 1}


def test_moments_and_quantiles_are_those_of_the_voxels():
    voxels = np.random.default_rng(0).integers(0, 50, (1000, 2))
    h = Histogram(voxels, np.ones(len(voxels)))
    np.testing.assert_allclose(h.mean(), voxels.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(h.covariance(), np.cov(voxels.T, bias=True), rtol=1e-12)
    p = np.linspace(0, 1, 37)
    expected = np.quantile(voxels[:, 1], p, method="inverted_cdf")
    np.testing.assert_array_equal(h.quantile(p, channel=1), expected)


@given(seeds, st.integers(1, 3))
def test_splitting_bins_adding_empty_ones_and_permuting_them_change_nothing(seed, d):
    g = np.random.default_rng(seed)
    values, counts = g.integers(-9, 9, (60, d)).astype(float), 2.0 * g.integers(0, 20, 60)
    split = np.concatenate([values, values, 9 + g.random((5, d))])
    halves = np.concatenate([counts / 2, counts / 2, np.zeros(5)])
    order = g.permutation(125)
    assert Histogram(split[order], halves[order]) == Histogram(values, counts)


# ── bins and the quantum ─────────────────────────────────────────────────────────────────────────


@given(
    slope=st.sampled_from([-3.0, -0.125, 0.01, 1.0, 2.5]),
    inter=st.sampled_from([-1024.0, 0.0, 0.3]),
    seed=seeds,
)
def test_scaled_integers_keep_their_scaled_values_and_their_quantum(slope, inter, seed):
    stored = np.random.default_rng(seed).integers(-300, 300, 50, dtype=np.int16)
    h = histogram(stored, slope=slope, inter=inter)
    assert as_counter(h) == brute_force(stored * slope + inter)
    assert h.widths == abs(slope)
    # Each level is the centre of its bin, so rounding never moves it to a neighbour.
    np.testing.assert_allclose((h.values - h.origin) / h.widths % 1, 0.5, atol=1e-9)


@settings(max_examples=10)
@given(slope=st.sampled_from([-0.7, 1.0, 3.0]), seed=seeds)
def test_coarse_bins_are_whole_multiples_of_the_quantum_so_there_is_no_comb(slope, seed):
    first = int(np.random.default_rng(seed).integers(-(2**30), 2**30))
    stored = np.arange(first, first + 100_000)  # each level once: every bin must hold equally many
    h = histogram(stored, slope=slope)
    assert 4096 < len(h.counts) <= 16384
    multiple = h.widths[0] / abs(slope)
    assert multiple == round(multiple) > 1
    assert (h.counts[1:-1] == multiple).all()
    np.testing.assert_allclose(np.diff(h.values[:, 0]), h.widths[0], rtol=1e-5)


@settings(max_examples=10)
@given(seed=seeds, scale=st.sampled_from([1e-3, 1.0, 1e4]))
def test_floats_are_binned_close_to_where_they_were(seed, scale):
    voxels = scale * np.random.default_rng(seed).standard_normal(20_000)
    h = histogram(voxels)
    assert len(h.counts) <= 16384
    assert h.total == 20_000
    nearest = np.abs(voxels[:, None][::100] - h.values[:, 0]).min(axis=1)
    assert nearest.max() <= h.widths[0] / 2 <= scale * 1e-3


# ── chunks are counted like all voxels at once ───────────────────────────────────────────────────


TYPES = [*INTEGERS, np.dtype(bool), *FLOATS, np.dtype(">i2"), np.dtype(">f4")]


def tallied(voxels: np.ndarray, length: int, **scale: float) -> Any:
    pieces = [voxels[start : start + length] for start in range(0, voxels.size, length)]
    return tally(lambda: iter(pieces), **scale)


@given(st.sampled_from(TYPES).flatmap(small_arrays), st.integers(1, 90))
def test_voxels_of_every_type_are_tallied(voxels, length):
    assert tallied(voxels, length) == histogram(voxels)


@pytest.mark.parametrize("kind", ["i2", "u2", "i4", "whole f4", "f2", "f4", "f8", "wide i4"])
@settings(max_examples=5)
@given(scale=st.sampled_from([(0.25, -3.0), (-0.37, 1024.0), (1e-3, 7.0)]), seed=seeds)
def test_many_levels_fall_into_the_same_bins_of_a_tally(kind, scale, seed):
    g = np.random.default_rng(seed)
    values = np.clip(8000 * g.standard_t(g.choice([1, 30]), 40_000), -6e4, 6e4)
    if kind not in ("f2", "f4", "f8"):
        values = np.rint(np.clip(np.abs(values), 0, 32000))
    voxels = values.astype(kind.split()[-1])
    if kind == "wide i4":
        voxels = voxels * np.int32(60_000)
    options = {"slope": scale[0], "inter": scale[1]}
    assert tallied(voxels, 7000, **options) == histogram(voxels, **options)


def test_a_table_is_really_used(monkeypatch):
    """Otherwise the tests above would compare the slow path with itself."""
    g = np.random.default_rng(0)
    whole = g.integers(0, 900, 5000, "i2")
    kinds = (g.normal(0, 1, 40_000), whole, whole.astype("f4"))
    expected = [histogram(voxels) for voxels in kinds]

    def refused(voxels: Any, **options: Any) -> Any:
        assert "weights" in options, "voxels were sorted"
        return histogram(voxels, **options)

    monkeypatch.setattr(import_module("ndflow.density.histogram"), "histogram", refused)
    for voxels, truth in zip(kinds, expected, strict=True):
        assert tallied(voxels, 3000) == truth


def test_without_voxels_there_is_no_tally():
    with pytest.raises(DegenerateDataError, match="no voxel"):
        tally(lambda: [np.zeros(0, "f4")] * 2)


# ── edges ────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=20, unique=True))
def test_every_level_lies_between_its_edges_and_inner_edges_are_midpoints(numbers):
    levels = np.sort(np.array(numbers, dtype=np.float64))
    edges = midpoint_edges(levels)
    np.testing.assert_array_equal(edges[1:-1], (levels[1:] + levels[:-1]) / 2)
    assert levels[0] - edges[0] == edges[1] - levels[0]
    assert edges[-1] - levels[-1] == levels[-1] - edges[-2]


def test_edges_around_levels_near_the_largest_double_do_not_overflow():
    top = np.finfo(np.float64).max
    assert np.isfinite(midpoint_edges(np.array([0.9 * top, 0.95 * top]))).all()


# ── what is refused, and why ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: histogram(np.zeros((2, 3)), np.ones((3, 2))), r"mask .*\(2, 3\).*\(3, 2\)"),
        (lambda: histogram([1, 2], weights=[1]), r"weights .*\(2,\).*\(1,\)"),
        (lambda: histogram([1, 2], weights=[1, -1]), "weights .*negative"),
        (lambda: histogram([1, 2], weights=[1, np.nan]), "weights .*finite"),
        (lambda: histogram(["a"]), "voxels .*real"),
        (lambda: histogram([1, 2], slope=0), "slope .*zero"),
        (lambda: Histogram([1.0], [1.0], [-1.0]), "widths .*negative"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_message_that_says_which(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()
