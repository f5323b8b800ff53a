"""scikit-learn's own checks of the transformer, and what it promises beyond them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from ndflow import GaussianMixture
from ndflow.integrations.sklearn import DensityFlowTransformer

SKEWED = GaussianMixture([0.3, 0.7], [100.0, 160.0], [1 / 400, 1 / 100])


@parametrize_with_checks([DensityFlowTransformer(truncation=2)])  # few components, for speed
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def sample_of(mixture, size, seed=0):
    return mixture.sample(size, np.random.default_rng(seed))


def dependent(size, seed=0):
    """Return two features that depend on each other, in a line and not only so."""
    first, noise = np.random.default_rng(seed).normal(size=(2, size))
    return np.stack([np.exp(0.5 * first), 300 + 40 * first + 25 * noise], axis=1)


def test_a_known_mixture_becomes_normal_as_in_closed_form():
    X = sample_of(SKEWED, 20_000)
    flow = DensityFlowTransformer().fit(X)
    inner = np.linspace(*SKEWED.quantile([0.005, 0.995]), 50)
    sd = 1 / np.sqrt(SKEWED.precisions[:, 0, 0])
    parts = stats.norm.cdf(inner[:, np.newaxis], SKEWED.means[:, 0], sd)
    exact = stats.norm.ppf(parts @ SKEWED.weights)
    assert_allclose(flow.transform(inner[:, np.newaxis])[:, 0], exact, atol=0.05)
    assert stats.kstest(flow.transform(sample_of(SKEWED, 2000, seed=1))[:, 0], "norm").pvalue > 0.01


def test_outliers_are_neither_clipped_nor_folded():
    flow = DensityFlowTransformer().fit(sample_of(SKEWED, 500))
    far = np.array([[-1e6], [0.0], [300.0], [1e6], [2e6]])
    mapped = flow.transform(far)[:, 0]
    assert (np.diff(mapped) > 1).all()
    assert_allclose(flow.inverse_transform(mapped[:, np.newaxis]), far, rtol=1e-6, atol=1e-3)


def test_a_weight_is_a_number_of_repetitions():
    generator = np.random.default_rng(3)
    X = generator.normal(size=(40, 3)) @ [[1, 0.5, 0], [0, 1, 0.3], [0, 0, 1]]
    times = generator.integers(0, 4, size=40)
    flow = DensityFlowTransformer(truncation=3)
    order = generator.permutation(times.sum())
    repeated = clone(flow).fit(X.repeat(times, axis=0)[order]).transform(X)
    assert_array_equal(clone(flow).fit(X, sample_weight=times).transform(X), repeated)
    assert np.abs(clone(flow).fit(X).transform(X) - repeated).max() > 0.01


def test_sites_that_differ_come_to_the_reference_site():
    generator = np.random.default_rng(4)
    reference, own = np.exp(generator.normal(5.0, 0.2, size=(2, 2000, 1)))
    scanned = 30 + 1.3 * own**1.05  # what another scanner makes of the same kind of people
    assert scanned.mean() - reference.mean() > 3 * reference.std()
    mapped = DensityFlowTransformer(reference).fit(scanned).transform(scanned)
    assert_allclose(mapped.mean(), reference.mean(), rtol=0.01)
    inner = np.abs(own - np.median(own)) < 2 * own.std()
    assert_allclose(mapped[inner], own[inner], atol=0.15 * own.std())


def test_a_constant_feature_goes_to_the_mean_of_the_target():
    X = np.array([[1.0, 7.0], [2.0, 7.0], [4.0, 7.0]])
    flow = DensityFlowTransformer(SKEWED).fit(X)
    assert_allclose(flow.transform(X)[:, 1], SKEWED.mean()[0])
    assert_allclose(flow.inverse_transform(flow.transform(X)), X)


def test_a_rare_indicator_is_scaled():
    X = np.zeros((200, 1))
    X[7] = 1.0
    assert_allclose(DensityFlowTransformer().fit_transform(X), (X - X.mean()) / X.std())


def test_each_feature_has_its_own_channel_of_a_target():
    both = GaussianMixture([1.0], [[10.0, -5.0]], [np.diag([0.25, 4.0])])
    X = dependent(300)
    mapped = DensityFlowTransformer(both).fit(X).transform(X)
    assert_allclose(mapped.mean(axis=0), [10, -5], atol=0.1)
    assert_allclose(mapped.std(axis=0), [2, 0.5], rtol=0.1)
    sample = both.sample(2000, np.random.default_rng(6))
    like = DensityFlowTransformer(sample).fit(X).transform(X)
    assert_allclose(like, mapped, atol=0.25)
    shared = DensityFlowTransformer(sample[:, :1]).fit(X).transform(X)
    assert_allclose(shared[:, 0], like[:, 0])
    assert_allclose(shared.mean(axis=0), 10, atol=0.2)


def test_a_target_has_the_columns_of_the_table_in_order():
    X = pd.DataFrame(dependent(200), columns=["a", "b"])
    generator = np.random.default_rng(8)
    table = pd.DataFrame({"a": generator.normal(0, 1, 300), "b": generator.normal(100, 1, 300)})
    flow = DensityFlowTransformer(table, truncation=2).fit(X)
    assert_allclose(flow.transform(X).mean(axis=0), [0, 100], atol=0.5)
    for other in (table[["b", "a"]], table.rename(columns={"a": "c"})):
        with pytest.raises(ValueError, match="target has other columns than X, or in another"):
            DensityFlowTransformer(other).fit(X)
    by_place = DensityFlowTransformer(table[["b", "a"]].to_numpy(), truncation=2).fit(X)
    assert_allclose(by_place.transform(X).mean(axis=0), [100, 0], atol=0.5)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.zeros((9, 3)) + np.arange(9)[:, None], "target must have 1 or 2 features, not 3"),
        (None, "target must be 'normal', a GaussianMixture, or a table"),
        ("uniform", "a table with the columns of X, not 'uniform'"),
        (np.ones((50, 2)), "target has a column without two different values"),
    ],
)
def test_targets_that_are_none_are_refused(target, message):
    with pytest.raises(ValueError, match=message):
        DensityFlowTransformer(target).fit(dependent(50))
