"""Voxels of any kind become occupied bins and counts, and chunks add up to the whole."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ndflow
from ndflow import DegenerateDataError, Histogram, InvalidValueError

INTEGERS = [np.dtype(kind + size) for kind in "iu" for size in "1248"]
FLOATS = [np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)]


def as_counter(histogram: Histogram) -> Counter[float]:
    rows = (tuple(row) for row in histogram.values.tolist())
    return Counter(dict(zip(rows, histogram.counts.tolist(), strict=True)))


def brute_force(values: np.ndarray) -> Counter[float]:
    """Count with Python integers, which neither wrap around nor overflow."""
    return Counter((float(v) + 0.0,) for v in values.tolist())


def chunked(voxels: np.ndarray, cuts: list[float], **options: object) -> Histogram:
    """The sum of the histograms of consecutive chunks, cut at given fractions of the voxels."""
    where = sorted({int(cut * len(voxels)) for cut in cuts} - {0, len(voxels)})
    first, *rest = (ndflow.histogram(c, **options) for c in np.split(voxels, where))
    return sum(rest, first)


any_cuts = st.lists(st.floats(0, 1), min_size=1, max_size=4)
seeds = st.integers(0, 2**32 - 1)


# ── what is counted ──────────────────────────────────────────────────────────────────────────────


@given(
    st.sampled_from([np.dtype(bool), *INTEGERS, *FLOATS]).flatmap(
        lambda dtype: hnp.arrays(
            dtype,
            st.integers(1, 60),
            elements={"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else None,
        )
    )
)
def test_voxels_of_every_numeric_type_keep_their_values(voxels):
    assert as_counter(ndflow.histogram(voxels)) == brute_force(voxels)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_extremes_of_an_integer_type_do_not_wrap_around(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for voxels in ([low, high, high], [high - 1, high, high], [low, low + 1, low + 1]):
        h = ndflow.histogram(np.array(voxels, dtype))
        assert as_counter(h) == brute_force(np.array(voxels, object))


def test_only_voxels_inside_the_mask_count():
    voxels = np.arange(24).reshape(2, 3, 4) % 5
    mask = np.arange(24).reshape(2, 3, 4) % 3  # any non-zero number is inside
    assert as_counter(ndflow.histogram(voxels, mask)) == brute_force(voxels[mask > 0])


def test_weights_are_added_up_and_voxels_without_weight_leave_no_bin():
    h = ndflow.histogram([3, 7, 3, 9], weights=[0.25, 2.0, 0.5, 0.0])
    assert as_counter(h) == {(3.0,): 0.75, (7.0,): 2.0}
    masked = ndflow.histogram([3, 7, 3, 9], [1, 0, 1, 1], weights=[0.25, np.nan, 0.5, 0.0])
    assert as_counter(masked) == {(3.0,): 0.75}  # what lies outside the mask is not even looked at


def test_nan_and_infinite_voxels_are_ignored():
    voxels = np.array([1.5, np.nan, 2.5, np.inf, -np.inf, 2.5], np.float32)
    assert as_counter(ndflow.histogram(voxels)) == {(1.5,): 1, (2.5,): 2}
    weighted = ndflow.histogram(voxels, weights=[1, 9, 1, 9, 9, 1])
    assert as_counter(weighted) == {(1.5,): 1, (2.5,): 2}


def test_several_channels_keep_occupied_bins_only():
    voxels = np.array([[[0, 5], [0, 5]], [[2, 1], [0, 1]]], np.int16)
    h = ndflow.histogram(voxels, channels=2)
    assert as_counter(h) == {(0.0, 5.0): 2, (2.0, 1.0): 1, (0.0, 1.0): 1}
    # A voxel that is not finite in one channel is left out of all.
    assert ndflow.histogram([[1.0, np.nan], [1.0, 2.0]], channels=2).total == 1


def test_moments_and_quantiles_are_those_of_the_voxels():
    voxels = np.random.default_rng(0).integers(0, 50, (1000, 2))
    h = ndflow.histogram(voxels, channels=2)
    np.testing.assert_allclose(h.mean(), voxels.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(h.covariance(), np.cov(voxels.T, bias=True), rtol=1e-12)
    p = np.linspace(0, 1, 37)
    expected = np.quantile(voxels[:, 1], p, method="inverted_cdf")
    np.testing.assert_array_equal(h.quantile(p, channel=1), expected)


# ── bins and the quantum ─────────────────────────────────────────────────────────────────────────


@given(
    slope=st.sampled_from([-3.0, -0.125, 0.01, 1.0, 2.5]),
    inter=st.sampled_from([-1024.0, 0.0, 0.3]),
    seed=seeds,
)
def test_scaled_integers_keep_their_scaled_values_and_their_quantum(slope, inter, seed):
    stored = np.random.default_rng(seed).integers(-300, 300, 50, dtype=np.int16)
    h = ndflow.histogram(stored, slope=slope, inter=inter)
    assert as_counter(h) == brute_force(stored * slope + inter)
    assert h.widths == abs(slope)
    # Each level is the centre of its bin, so rounding never moves it to a neighbour.
    np.testing.assert_allclose((h.values - h.origin) / h.widths % 1, 0.5, atol=1e-9)


@given(slope=st.sampled_from([-0.7, 1.0, 3.0]), seed=seeds)
def test_coarse_bins_are_whole_multiples_of_the_quantum_so_there_is_no_comb(slope, seed):
    first = int(np.random.default_rng(seed).integers(-(2**30), 2**30))
    stored = np.arange(first, first + 100_000)  # each level once: every bin must hold equally many
    h = ndflow.histogram(stored, slope=slope)
    assert 4096 < len(h.counts) <= 16384
    multiple = h.widths[0] / abs(slope)
    assert multiple == round(multiple) > 1
    assert (h.counts[1:-1] == multiple).all()
    np.testing.assert_allclose(np.diff(h.values[:, 0]), h.widths[0], rtol=1e-5)


@given(seed=seeds, scale=st.sampled_from([1e-3, 1.0, 1e4]))
def test_floats_are_binned_close_to_where_they_were(seed, scale):
    voxels = scale * np.random.default_rng(seed).standard_normal(20_000)
    h = ndflow.histogram(voxels)
    assert len(h.counts) <= 16384
    assert h.total == 20_000
    nearest = np.abs(voxels[:, None][::100] - h.values[:, 0]).min(axis=1)
    assert nearest.max() <= h.widths[0] / 2 <= scale * 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stray", [1e30, -1e30])
@pytest.mark.parametrize("size", [1_000, 40_000])
def test_a_single_outlier_ruins_neither_the_bins_nor_the_fit(stray, size, dtype):
    clean = np.random.default_rng(1).normal(100, 15, size).astype(dtype)
    dirty = np.append(clean, dtype(stray))
    before, after = ndflow.histogram(clean), ndflow.histogram(dirty)
    assert after.widths == before.widths
    assert ndflow.fit(after).mixture == ndflow.fit(before).mixture


def test_an_outlier_does_no_harm_where_nearly_all_voxels_are_equal():
    # Both percentiles that bound the bulk are 7: its width must come from further out.
    voxels = np.repeat([7.0, 8.0, 1e30], [10_000, 40, 1])
    mean = ndflow.fit(ndflow.histogram(voxels)).mixture.mean()[0]
    assert 7 <= mean < 7.1


# ── chunks add up ────────────────────────────────────────────────────────────────────────────────


@given(
    seed=seeds, bits=st.integers(1, 63), dtype=st.sampled_from([np.int64, np.uint64]), cuts=any_cuts
)
def test_histograms_of_chunks_of_integers_of_any_width_add_up_exactly(seed, bits, dtype, cuts):
    voxels = np.random.default_rng(seed).integers(0, 2**bits, 18_000, dtype)
    assert chunked(voxels, cuts) == ndflow.histogram(voxels)


@given(seed=seeds, far=st.sampled_from([-(2**63) + 2**21, 2**53, 2**62, 2**63 - 2**21]),
       spread=st.sampled_from([2**10, 2**19, 2**21]), cuts=any_cuts)  # fmt: skip
def test_histograms_of_chunks_of_integers_beyond_doubles_add_up_exactly(seed, far, spread, cuts):
    # Neighbouring integers are the same double out there: each voxel must still be rounded the
    # same way, whatever else is in its chunk.
    g = np.random.default_rng(seed)
    voxels = far + g.integers(-spread, spread, 300)
    assert chunked(voxels, cuts) == ndflow.histogram(voxels)


@given(seed=seeds, slope=st.sampled_from([-0.1, 0.37, 12.0]), cuts=any_cuts)
def test_histograms_of_chunks_of_scaled_integers_add_up_exactly(seed, slope, cuts):
    voxels = np.random.default_rng(seed).integers(-(2**17), 2**17, 30_000, np.int32)
    whole = ndflow.histogram(voxels, slope=slope, inter=4.2)
    assert chunked(voxels, cuts, slope=slope, inter=4.2) == whole


@given(
    seed=seeds, size=st.sampled_from([50, 17_000, 40_000]), dtype=st.sampled_from(FLOATS),
    heavy=st.booleans(), cuts=any_cuts,
)  # fmt: skip
def test_histograms_of_chunks_of_floats_add_up_exactly(seed, size, dtype, heavy, cuts):
    g = np.random.default_rng(seed)
    drawn = g.standard_cauchy(size) if heavy else g.normal(5, 1, size)
    with np.errstate(over="ignore"):  # what half precision cannot hold is infinite, and not counted
        voxels = drawn.astype(dtype)
    assert chunked(voxels, cuts) == ndflow.histogram(voxels)


@given(seed=seeds, kind=st.sampled_from(["i2", "f8"]), cuts=any_cuts)
def test_histograms_of_chunks_of_several_channels_add_up_exactly(seed, kind, cuts):
    voxels = (100 * np.random.default_rng(seed).standard_normal((3000, 2))).astype(kind)
    voxels[:, 1] *= 7
    assert chunked(voxels, cuts, channels=2) == ndflow.histogram(voxels, channels=2)


# ── what is refused, and why ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ndflow.histogram(np.zeros((2, 3)), np.ones((3, 2))), r"mask .*\(2, 3\).*\(3, 2\)"),
        (lambda: ndflow.histogram([1, 2], weights=[1]), r"weights .*\(2,\).*\(1,\)"),
        (lambda: ndflow.histogram([1, 2], weights=[1, -1]), "weights .*negative"),
        (lambda: ndflow.histogram([1, 2], weights=[1, np.nan]), "weights .*finite"),
        (lambda: ndflow.histogram([1j]), "voxels .*real.*complex128"),
        (lambda: ndflow.histogram(["a"]), "voxels .*real"),
        (lambda: ndflow.histogram([1, 2], slope=0), "slope .*zero"),
        (lambda: ndflow.histogram([1, 2], slope=np.nan), "slope .*finite"),
        (lambda: ndflow.histogram([1, 2, 3], channels=2), r"2 channels.*\(3,\)"),
        (
            lambda: ndflow.histogram([1, 2], slope=2) + ndflow.histogram([1, 2], slope=3),
            "unrelated bins.*slope",
        ),
        (lambda: ndflow.histogram([1], inter=0.5) + ndflow.histogram([1]), "unrelated bins.*inter"),
        (lambda: Histogram([1.0, 2.0], [1.0, -1.0]), "counts .*negative"),
        (lambda: Histogram([1.0, 2.0], [1.0]), r"counts .*\(2\).*\(1,\)"),
        (lambda: Histogram([1.0], [1.0], [-1.0]), "widths .*negative"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_message_that_says_which(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ndflow.histogram([1, 2], [0, 0]),
        lambda: ndflow.histogram([1.0, 2.0], [0, 0]),
        lambda: ndflow.histogram([[1, 2]], [0], channels=2),
        lambda: ndflow.histogram([np.nan, np.inf]),
        lambda: ndflow.histogram([]),
        lambda: ndflow.histogram([1, 2], weights=[0, 0]),
    ],
)
def test_the_message_for_an_empty_mask_says_so(make):
    with pytest.raises(DegenerateDataError, match="no voxel to count; check that the mask"):
        make()
