"""Scores of predictions: against scikit-learn's metrics and scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from ndflow.errors import InvalidValueError
from ndflow.metrics.predictions import Predictions, accuracy, confidence, entropy, paired_t

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.lists(st.sampled_from("abc"), max_size=30))
def test_accuracies_are_those_of_scikit_learn(seed, more):
    labels = [*"abc", *more]
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(3), len(labels))
    predicted = np.array(list("abc"))[probabilities.argmax(axis=1)]
    found = accuracy(Predictions(probabilities, ("a", "b", "c")), labels)
    recalls = metrics.recall_score(labels, predicted, average=None, labels=["a", "b", "c"])
    assert list(found.per_class) == ["a", "b", "c"]
    assert list(found.per_class.values()) == pytest.approx(recalls.tolist())
    assert found.pooled == pytest.approx(metrics.accuracy_score(labels, predicted))
    assert found.balanced == pytest.approx(metrics.balanced_accuracy_score(labels, predicted))


def test_labels_of_other_scans_are_refused():
    predictions = Predictions(np.eye(2), ("a", "b"))
    for labels in (["a", "b", "a"], ["a", "c"], ["a", "a"]):
        with pytest.raises(InvalidValueError, match="labels must be those"):
            accuracy(predictions, labels)


@given(seeds, st.integers(1, 8))
def test_entropy_is_scipys_in_bits_and_confidence_the_largest(seed, classes):
    probabilities = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3), 10)
    np.testing.assert_allclose(
        entropy(probabilities), stats.entropy(probabilities, base=2, axis=1), atol=1e-12
    )
    assert confidence(probabilities).tolist() == [max(row) for row in probabilities.tolist()]


def test_certainty_has_no_entropy_and_four_equal_guesses_have_two_bits():
    np.testing.assert_allclose(entropy([[0, 1, 0, 0], [0.25] * 4]), [0, 2])


@pytest.mark.parametrize("wrong", [[[0.5, 0.6]], [[-0.5, 1.5]], np.zeros((0, 2))])
def test_what_are_no_probabilities_is_refused(wrong):
    for measure in (entropy, confidence):
        with pytest.raises(InvalidValueError, match="probabilities"):
            measure(wrong)


@given(seeds, st.integers(2, 30))
def test_the_paired_test_is_scipys(seed, n):
    generator = np.random.default_rng(seed)
    one, other = generator.normal(0.3, 1, n), generator.normal(0, 1, n)
    found, truth = paired_t(one, other), stats.ttest_rel(one, other)
    assert found.statistic == pytest.approx(truth.statistic, rel=1e-9)
    assert found.p == pytest.approx(truth.pvalue, rel=1e-9)


def test_where_there_is_nothing_to_test_p_is_one_and_where_all_differ_alike_it_is_zero():
    x = np.random.default_rng(0).normal(size=10)
    assert paired_t(x, x) == (0, 1)
    assert paired_t(x, x + 1e-15) == (0, 1)  # rounding is no difference
    assert paired_t([1.0], [2.0]) == (0, 1)
    assert paired_t([], []) == (0, 1)
    assert paired_t(x + 1, x) == (np.inf, 0)
    assert paired_t(x, x + 1) == (-np.inf, 0)
    with pytest.raises(InvalidValueError, match="other must have the shape"):
        paired_t(x, x[:-1])
