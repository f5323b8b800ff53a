"""Accuracy, entropy and confidence, compared with scikit-learn's metrics and with scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from ndflow.errors import InvalidValueError
from ndflow.metrics.predictions import Predictions, accuracy, confidence, entropy

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.lists(st.sampled_from("abc"), max_size=30))
def test_accuracies_agree_with_scikit_learn(seed, more):
    labels = [*"abc", *more]
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(3), len(labels))
    predicted = np.array(list("abc"))[probabilities.argmax(axis=1)]
    found = accuracy(Predictions(probabilities, ("a", "b", "c")), labels)
    recalls = metrics.recall_score(labels, predicted, average=None, labels=["a", "b", "c"])
    assert list(found.per_class) == ["a", "b", "c"]
    assert list(found.per_class.values()) == pytest.approx(recalls.tolist())
    assert found.pooled == pytest.approx(metrics.accuracy_score(labels, predicted))
    assert found.balanced == pytest.approx(metrics.balanced_accuracy_score(labels, predicted))


def test_labels_that_do_not_match_the_predictions_are_refused():
    predictions = Predictions(np.eye(2), ("a", "b"))
    for labels in (["a", "b", "a"], ["a", "c"], ["a", "a"]):
        with pytest.raises(InvalidValueError, match="labels must be those"):
            accuracy(predictions, labels)


@given(seeds, st.integers(1, 8))
def test_entropy_in_bits_agrees_with_scipy_and_confidence_is_the_largest_probability(seed, classes):
    probabilities = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3), 10)
    np.testing.assert_allclose(
        entropy(probabilities), stats.entropy(probabilities, base=2, axis=1), atol=1e-12
    )
    assert confidence(probabilities).tolist() == [max(row) for row in probabilities.tolist()]


def test_a_certain_prediction_has_zero_bits_and_four_equal_ones_have_two():
    np.testing.assert_allclose(entropy([[0, 1, 0, 0], [0.25] * 4]), [0, 2])


@pytest.mark.parametrize("wrong", [[[0.5, 0.6]], [[-0.5, 1.5]], np.zeros((0, 2))])
def test_rows_that_are_not_probabilities_are_refused(wrong):
    for measure in (entropy, confidence):
        with pytest.raises(InvalidValueError, match="probabilities"):
            measure(wrong)
