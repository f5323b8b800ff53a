"""Tissue statistics: against replication, scipy's Levene and t-tests, and a plain step-down."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ndflow.errors import InvalidValueError
from ndflow.metrics.tissue_quartiles import (
    brown_forsythe,
    holm,
    quartiles,
    tissue_table,
    weighted_quantile,
)

weighted = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(0, 6)), min_size=1, max_size=40
).filter(lambda pairs: any(weight for _, weight in pairs))
numbers = st.floats(-100, 100).map(lambda x: round(x, 3))
seeds = st.integers(0, 2**32 - 1)


@given(weighted, st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_a_weight_of_three_is_the_same_as_three_voxels(pairs, shares):
    values, weights = np.array(pairs).T
    voxels = np.repeat(values, weights)
    # The share below a voxel, and half of the ties, is its average rank less a half.
    ranks = (stats.rankdata(voxels, method="average") - 0.5) / voxels.size
    levels, first = np.unique(voxels, return_index=True)
    wanted = np.interp(shares, ranks[first], levels)
    np.testing.assert_allclose(weighted_quantile(values, weights, shares), wanted, atol=1e-9)
    np.testing.assert_allclose(
        weighted_quantile(voxels, np.ones(voxels.size), shares), wanted, atol=1e-9
    )


@given(st.lists(numbers, min_size=1, max_size=40, unique=True), st.floats(0.1, 10))
def test_equal_weights_of_distinct_values_give_the_rule_of_hazen(values, weight):
    found = weighted_quantile(values, np.full(len(values), weight), np.linspace(0, 1, 21))
    wanted = np.quantile(values, np.linspace(0, 1, 21), method="hazen")
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_fine_voxels_replicated_have_the_quartiles_that_numpy_finds():
    generator = np.random.default_rng(0)
    values, weights = generator.normal(5, 2, 4000), generator.integers(0, 5, 4000)
    wanted = np.quantile(np.repeat(values, weights), [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quartiles(values, weights), wanted, atol=2e-3)
    # And unlike those of all voxels alike, if weights favour large ones.
    bright = quartiles(values, values > 5)
    np.testing.assert_allclose(bright, stats.halfnorm.ppf([0.25, 0.5, 0.75], 5, 2), atol=0.1)


@given(seeds, st.integers(3, 30), st.integers(3, 30))
def test_the_unpaired_test_is_half_of_levenes_about_the_median(seed, n, m):
    generator = np.random.default_rng(seed)
    one, other = generator.normal(0, 1, n), generator.normal(3, 1.5, m)
    found = brown_forsythe(one, other, paired=False)
    truth = stats.levene(one, other, center="median")
    assert found.statistic**2 == pytest.approx(truth.statistic, rel=1e-9, abs=1e-12)
    less = np.abs(one - np.median(one)).mean() < np.abs(other - np.median(other)).mean()
    assert (found.statistic < 0) == less
    assert found.p == pytest.approx(truth.pvalue / 2 if less else 1 - truth.pvalue / 2, abs=1e-9)


@given(seeds, st.integers(3, 30))
def test_the_paired_test_is_scipys_on_the_distances_from_the_median(seed, n):
    generator = np.random.default_rng(seed)
    other = generator.normal(3, 1.5, n)
    one = 0.7 * other + generator.normal(0, 0.3, n)
    found = brown_forsythe(one, other, paired=True)
    a, b = np.abs(one - np.median(one)), np.abs(other - np.median(other))
    truth = stats.ttest_rel(a, b, alternative="less")
    assert found.statistic == pytest.approx(truth.statistic, rel=1e-9)
    assert found.p == pytest.approx(truth.pvalue, rel=1e-9)


@pytest.mark.parametrize("paired", [False, True])
def test_where_there_is_nothing_to_tell_p_is_one(paired):
    x = np.random.default_rng(0).normal(100, 1, 30)
    assert brown_forsythe(x, x, paired=paired) == (0, 1)
    assert brown_forsythe(x + 0.1, x, paired=paired).p == 1  # but for rounding, the same spread
    assert brown_forsythe([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], paired=paired) == (0, 1)
    assert brown_forsythe([1.0, 1.1], [1.0, 9.0], paired=paired) == (0, 1)
    assert brown_forsythe([], [], paired=paired) == (0, 1)


def test_a_difference_without_any_variance_is_certain_one_way_and_impossible_the_other():
    narrow, wide = [-1.0, 1.0, -1.0, 1.0], [-2.0, 2.0, -2.0, 2.0]
    for paired in (False, True):
        assert brown_forsythe(narrow, wide, paired=paired) == (-np.inf, 0)
        assert brown_forsythe(wide, narrow, paired=paired) == (np.inf, 1)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holms_correction_is_the_step_down_procedure(p_values):
    adjusted = holm(p_values)
    for level in (0.001, 0.01, 0.05, 0.2, 0.5, 0.9):
        # Reject the smallest while each is at most level / number of those left.
        rejected, left = set(), sorted(range(len(p_values)), key=lambda i: p_values[i])
        while left and p_values[left[0]] * len(left) <= level:
            rejected.add(left.pop(0))
        assert {i for i, p in enumerate(adjusted) if p <= level} == rejected
    assert (adjusted >= p_values).all()
    assert (adjusted <= 1).all()


def test_a_table_has_a_row_for_each_quartile_of_each_tissue():
    generator = np.random.default_rng(5)
    before = generator.normal(0, 1, (20, 2, 3)) + np.arange(6).reshape(2, 3)
    values = 0.5 * before + generator.normal(0, 0.1, before.shape)
    cells = tissue_table(values, before, ["GM", "WM"], gap=2.0)
    assert [(c.tissue, c.quartile) for c in cells] == [
        (t, q) for t in ("GM", "WM") for q in (1, 2, 3)
    ]
    truth = []
    for cell in cells:
        where = np.s_[:, ("GM", "WM").index(cell.tissue), cell.quartile - 1]
        column = values[where].tolist()
        assert cell.mean == pytest.approx(sum(column) / 20)
        assert cell.sd == pytest.approx(np.sqrt(sum((x - cell.mean) ** 2 for x in column) / 19))
        assert cell.relative_sd == pytest.approx(cell.sd / 2)
        truth.append(stats.levene(values[where], before[where], center="median").pvalue / 2)
        assert cell.unpaired == pytest.approx(truth[-1])
        assert cell.paired == brown_forsythe(values[where], before[where], paired=True).p
        assert cell.paired < cell.unpaired  # the scans are the same, so pairing tells more
    assert [c.unpaired_holm for c in cells] == pytest.approx(holm(truth).tolist())
    assert [c.paired_holm for c in cells] == holm([c.paired for c in cells]).tolist()


def test_without_a_baseline_there_are_no_tests():
    for cell in tissue_table(np.random.default_rng(0).normal(size=(4, 1, 3)), None, ["CSF"], 1.0):
        assert cell[5:] == (None, None, None, None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: weighted_quantile([1, 2], [0, 0], 0.5), "nor all of them zero"),
        (lambda: weighted_quantile([1, 2], [-1, 2], 0.5), "not be negative"),
        (lambda: weighted_quantile([1, 2], [1, 1], -0.1), "between 0 and 1"),
        (lambda: weighted_quantile([1, 2], [1], 0.5), "weights must have the shape"),
        (lambda: brown_forsythe([1, 2, 3], [1, 2, 3, 4], paired=True), "3 and 4"),
        (lambda: holm([0.5, 1.5]), "between 0 and 1"),
        (lambda: tissue_table(np.zeros((1, 1, 3)), None, ["WM"], 1.0), "two scans"),
        (lambda: tissue_table(np.zeros((3, 1, 3)), None, ["WM"], 0.0), "gap"),
        (lambda: tissue_table(np.zeros((3, 1, 3)), np.zeros((2, 1, 3)), ["WM"], 1.0), "baseline"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()
