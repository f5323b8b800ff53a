"""scikit-learn's own checks of the transformer, and what it promises beyond them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ndflow
from ndflow import GaussianMixture, Reference, ScannerMaps
from ndflow.integrations.sklearn import DensityFlowTransformer

# Few components, so that the hundred checks take seconds.
CHECKED = [
    DensityFlowTransformer(truncation=2),
    DensityFlowTransformer(joint=True, truncation=1),
]

SKEWED = GaussianMixture([0.3, 0.7], [100.0, 160.0], [1 / 400, 1 / 100])


def expected_to_fail(estimator):
    """Return what docs/guides/scikit-learn.md says about checks that fail."""
    if not estimator.joint:
        return {}
    return {
        "check_sample_weight_equivalence_on_dense_data": (
            "it has 15 rows of 30 features, which have no joint density"
        )
    }


@parametrize_with_checks(CHECKED, expected_failed_checks=expected_to_fail)
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


def test_any_density_becomes_any_other():
    two_peaks = GaussianMixture([0.5, 0.5], [-1.0, 1.0], [9.0, 9.0])
    flow = DensityFlowTransformer(two_peaks).fit(sample_of(SKEWED, 5000))
    mapped = flow.transform(sample_of(SKEWED, 2000, seed=1))[:, 0]
    assert stats.kstest(mapped, two_peaks.cdf).pvalue > 0.01


def test_held_back_it_is_the_map_of_scans():
    X = sample_of(SKEWED, 2000)
    flow = DensityFlowTransformer(regularisation=1e-3).fit(X)
    normal = GaussianMixture([1.0], [0.0], [1.0])
    scan = ndflow.normalising_map(ndflow.fit(ndflow.histogram(X)), normal, objective="cramer")
    assert_allclose(flow.transform(X), scan(X), atol=1e-6)


def test_outliers_are_neither_clipped_nor_folded():
    flow = DensityFlowTransformer().fit(sample_of(SKEWED, 500))
    far = np.array([[-1e6], [0.0], [300.0], [1e6], [2e6]])
    mapped = flow.transform(far)[:, 0]
    assert (np.diff(mapped) > 1).all()
    assert_allclose(flow.inverse_transform(mapped[:, np.newaxis]), far, rtol=1e-6, atol=1e-3)


@pytest.fixture(scope="module")
def joint_flow():
    return DensityFlowTransformer(joint=True, truncation=5).fit(dependent(2000))


def test_joint_features_become_independent(joint_flow):
    fresh = dependent(2000, seed=1)
    separate = DensityFlowTransformer().fit(fresh).transform(fresh)
    assert np.corrcoef(separate.T)[0, 1] > 0.8  # which maps of each feature cannot change
    mapped = joint_flow.transform(fresh)
    assert_allclose(mapped.mean(axis=0), 0, atol=0.08)
    assert_allclose(np.cov(mapped.T), np.eye(2), atol=0.08)
    # the squares of a normal point are exponentially distributed: shares within three circles
    radii = (mapped**2).sum(axis=1)
    shares = [(radii < 2 * level).mean() for level in (0.5, 1, 2)]
    assert_allclose(shares, 1 - np.exp([-0.5, -1, -2]), atol=0.04)


@pytest.mark.parametrize("joint", [False, True])
def test_the_way_back(joint, joint_flow):
    X = dependent(300, seed=2)
    flow = joint_flow if joint else DensityFlowTransformer().fit(X)
    off = np.abs(flow.inverse_transform(flow.transform(X)) - X) / X.std(axis=0)
    assert off.max() < (2e-3 if joint else 1e-9)


@pytest.mark.parametrize("joint", [False, True])
def test_a_weight_is_a_number_of_repetitions(joint):
    generator = np.random.default_rng(3)
    X = generator.normal(size=(40, 3)) @ [[1, 0.5, 0], [0, 1, 0.3], [0, 0, 1]]
    times = generator.integers(0, 4, size=40)
    flow = DensityFlowTransformer(joint=joint, truncation=3)
    order = generator.permutation(times.sum())
    repeated = clone(flow).fit(X.repeat(times, axis=0)[order]).transform(X)
    assert_array_equal(clone(flow).fit(X, sample_weight=times).transform(X), repeated)
    assert np.abs(clone(flow).fit(X).transform(X) - repeated).max() > 0.01


def test_weighted_rows_get_the_density_of_the_target_jointly():
    X = dependent(2000)
    weights = np.exp(-0.05 * np.abs(X[:, 1] - 340))  # most are there, where few rows are
    weights *= len(X) / weights.sum()
    mapped = DensityFlowTransformer(joint=True, truncation=5).fit(X, None, weights).transform(X)
    assert_allclose(np.average(mapped, axis=0, weights=weights), 0, atol=0.05)
    assert_allclose(np.cov(mapped.T, aweights=weights), np.eye(2), atol=0.1)
    assert np.abs(mapped.mean(axis=0)).max() > 0.3


def test_sites_that_differ_come_to_the_reference_site():
    generator = np.random.default_rng(4)
    reference, own = np.exp(generator.normal(5.0, 0.2, size=(2, 2000, 1)))
    scanned = 30 + 1.3 * own**1.05  # what another scanner makes of the same kind of people
    assert scanned.mean() - reference.mean() > 3 * reference.std()
    mapped = DensityFlowTransformer(reference).fit(scanned).transform(scanned)
    assert_allclose(mapped.mean(), reference.mean(), rtol=0.01)
    inner = np.abs(own - np.median(own)) < 2 * own.std()
    assert_allclose(mapped[inner], own[inner], atol=0.15 * own.std())


def test_in_a_pipeline_with_columns_and_names():
    generator = np.random.default_rng(5)
    table = pd.DataFrame(dependent(200), columns=["T1w", "volume"])
    sick = generator.normal(size=200) + (table["volume"] - 300) / 20 > 0
    columns = ColumnTransformer(
        [("flow", DensityFlowTransformer(truncation=3), ["T1w"])],
        remainder=StandardScaler(),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = make_pipeline(columns, LogisticRegression())
    assert model.fit(table, sick).score(table, sick) > 0.8
    mapped = model[:-1].transform(table)
    assert list(mapped.columns) == ["T1w", "volume"]
    alone = DensityFlowTransformer(truncation=3).fit(table[["T1w"]])
    assert_array_equal(mapped["T1w"], alone.transform(table[["T1w"]])[:, 0])
    assert_array_equal(alone.get_feature_names_out(), ["T1w"])


def test_a_constant_feature_goes_to_the_mean_of_the_target():
    X = np.array([[1.0, 7.0], [2.0, 7.0], [4.0, 7.0]])
    flow = DensityFlowTransformer(SKEWED).fit(X)
    assert_allclose(flow.transform(X)[:, 1], SKEWED.mean()[0])
    assert_allclose(flow.inverse_transform(flow.transform(X)), X)
    with pytest.raises(ValueError, match=r"constant feature \(x1\); leave it out, or use joint="):
        DensityFlowTransformer(joint=True).fit(X)


def test_a_rare_indicator_is_scaled():
    X = np.zeros((200, 1))
    X[7] = 1.0
    assert_allclose(DensityFlowTransformer().fit_transform(X), (X - X.mean()) / X.std())


def test_near_copies_become_independent_jointly():
    common, own = np.random.default_rng(8).normal(size=(2, 300, 2))
    X = common[:, [0, 0]] + 0.01 * own
    mapped = DensityFlowTransformer(joint=True, truncation=2).fit_transform(X)
    assert_allclose(np.cov(mapped.T), np.eye(2), atol=0.1)


def test_targets_of_all_kinds_are_one(tmp_path):
    standard = GaussianMixture([0.5, 0.5], [-0.8, 0.8], [1 / 0.36, 1 / 0.36])
    reference = Reference(standard, ("T1w",), scans=3)
    ndflow.save(tmp_path / "reference.json", reference)
    X = pd.DataFrame(sample_of(SKEWED, 200), columns=["T1w"])
    kinds = [standard, reference, tmp_path / "reference.json", str(tmp_path / "reference.json")]
    results = [DensityFlowTransformer(kind).fit(X).transform(X) for kind in kinds]
    results.append(DensityFlowTransformer({"T1w": reference}).fit(X).transform(X))
    for result in results:
        assert_array_equal(result, results[0])
    builtin = ["builtin:T1w", ndflow.builtin_reference("T1w")]
    assert_array_equal(*(DensityFlowTransformer(kind).fit(X).transform(X) for kind in builtin))
    normal = DensityFlowTransformer("normal").fit(X).transform(X)
    assert np.abs(normal - results[0]).max() > 0.1


def test_each_feature_has_its_own_channel_of_a_target():
    both = GaussianMixture([1.0], [[10.0, -5.0]], [np.diag([0.25, 4.0])])
    X = dependent(300)
    mapped = DensityFlowTransformer(both).fit(X).transform(X)
    assert_allclose(mapped.mean(axis=0), [10, -5], atol=0.1)
    assert_allclose(mapped.std(axis=0), [2, 0.5], rtol=0.1)
    sample = both.sample(2000, np.random.default_rng(6))
    like = DensityFlowTransformer(sample).fit(X).transform(X)
    assert_allclose(like, mapped, atol=0.25)
    together = DensityFlowTransformer(sample, joint=True, truncation=3).fit(X).transform(X)
    assert_allclose(together.std(axis=0), [2, 0.5], rtol=0.1)
    assert abs(np.corrcoef(together.T)[0, 1]) < 0.1


@pytest.mark.parametrize("joint", [False, True])
def test_columns_of_a_table_are_found_by_name(joint):
    X = pd.DataFrame(dependent(200), columns=["a", "b"])
    generator = np.random.default_rng(8)
    table = pd.DataFrame({"b": generator.normal(100, 1, 300), "a": generator.normal(0, 1, 300)})
    flow = DensityFlowTransformer(table, joint=joint, truncation=2)
    assert_allclose(flow.fit(X).transform(X).mean(axis=0), [0, 100], atol=0.5)
    in_order = clone(flow).set_params(target=table[["a", "b"]])
    assert_array_equal(in_order.fit(X).transform(X), flow.transform(X))
    by_place = clone(flow).fit(X.to_numpy())  # which has no names
    assert_allclose(by_place.transform(X.to_numpy()).mean(axis=0), [100, 0], atol=0.5)
    flow.set_params(target=table.rename(columns={"a": "c"}))
    with pytest.raises(ValueError, match=r"target has the columns b, c, but X has a, b; give it"):
        flow.fit(X)
    flow.set_params(target=table.rename(columns={"a": "c"}).to_numpy())
    assert_allclose(flow.fit(X).transform(X).mean(axis=0), [100, 0], atol=0.5)


def test_a_table_of_a_dictionary_may_have_any_name():
    X = pd.DataFrame(dependent(100), columns=["a", "b"])
    table = pd.DataFrame({"c": np.random.default_rng(8).normal(100, 1, 300)})
    flow = DensityFlowTransformer({"b": table, "a": "normal"}, truncation=2)
    assert_allclose(flow.fit(X).transform(X).mean(axis=0), [0, 100], atol=0.5)


FLAIR_FIRST = Reference(GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)]), ("FLAIR", "T1w"), 1)


SCANNERS = ScannerMaps(GaussianMixture([1.0], [0.0], [1.0]), [-3, 3], [0, 0], [], [], 5, 1, "T1w")
FLAT = np.stack([np.arange(9.0), np.full(9, 7.0)], axis=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": FLAIR_FIRST}, "same names in another order: T1w, FLAIR; sort the columns"),
        ({"target": {"T1w": "normal"}}, "target has nothing for FLAIR, only for T1w"),
        ({"target": np.zeros((9, 3)) + np.arange(9)[:, None]}, "3 channels, but X has 2 features"),
        ({"target": SKEWED, "joint": True}, "1 channel, but X has 2 features; a joint map needs"),
        ({"target": {"T1w": SKEWED, "FLAIR": SKEWED}, "joint": True}, "give a joint one"),
        ({"target": None}, "target must be 'normal', a density"),
        ({"target": 3}, "target must be 'normal', a density, .* names of features, not 3"),
        ({"target": SCANNERS}, r"target must be 'normal', a density, .* not ScannerMaps\("),
        ({"target": []}, "target is an empty sample; give at least two different values"),
        ({"target": [5.0]}, "target needs at least two different values .* its 1 value is 5"),
        ({"target": np.ones(50)}, "target needs at least two .* its 50 values are all 1"),
        ({"target": FLAT, "joint": True}, "its 9 values in column 1 are all 7"),
        ({"regularisation": -1.0}, "regularisation must be zero or a positive number"),
        ({"truncation": 0}, "truncation must lie between 1"),
    ],
)
def test_what_cannot_be_is_refused_in_words(options, message):
    X = pd.DataFrame(dependent(50), columns=["T1w", "FLAIR"])
    with pytest.raises(ValueError, match=message):
        DensityFlowTransformer(**options).fit(X)


def test_values_that_cannot_be_squared_are_refused():
    with pytest.raises(ValueError, match="cannot be squared; scale it first"):
        DensityFlowTransformer().fit(1e200 * dependent(20))


def test_features_without_a_joint_density_are_refused():
    X = np.random.default_rng(7).normal(size=(20, 11))
    with pytest.raises(ValueError, match="at most 10 features, but X has 11; use joint=False"):
        DensityFlowTransformer(joint=True).fit(X)
    X[:, 2] = X[:, 0] - 2 * X[:, 1]
    with pytest.raises(ValueError, match="one of them is a linear function of the others in the 2"):
        DensityFlowTransformer(joint=True).fit(X[:, :3])


def test_one_weight_serves_for_all_rows():
    X = dependent(50)
    flow = DensityFlowTransformer(truncation=2)
    repeated = clone(flow).fit(np.repeat(X, 2, axis=0))
    assert_array_equal(flow.fit(X, sample_weight=2.0).transform(X), repeated.transform(X))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "one number for each of the 50 rows"),
        (-np.ones(50), "must not be negative"),
        (np.full(50, np.nan), "sample_weight contains NaN"),
        (0.0, "must not be zero for all rows"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        DensityFlowTransformer().fit(dependent(50), sample_weight=weights)
