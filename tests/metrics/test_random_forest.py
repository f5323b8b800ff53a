"""The forest is scikit-learn's, whichever way it is grown."""

import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from ndflow.errors import InvalidValueError
from ndflow.metrics.random_forest import forest_probabilities


def scans(seed, count, wide, kinds, dtype=np.float32):
    generator = np.random.default_rng(seed)
    labels = np.array(["bern", "oslo", "rome", "york"])[np.arange(count) % kinds]
    table = generator.normal(size=(2 * count, wide)) + (np.arange(2 * count) % kinds)[:, None] / 2
    if seed % 2:
        table = np.rint(table)  # many splits are equally good, and many values equal
    return (table[:count].astype(dtype), table[count:].astype(dtype)), labels


@pytest.mark.parametrize(
    ("seed", "count", "wide", "kinds", "dtype"),
    [
        (0, 34, 500, 3, np.float32),
        (1, 34, 500, 3, np.float32),
        (2, 20, 7, 2, np.float64),
        (3, 60, 40, 4, np.float64),
        (4, 9, 1, 3, np.float32),
    ],
)
def test_probabilities_are_those_of_scikit_learn_to_the_last_bit(seed, count, wide, kinds, dtype):
    features, labels = scans(seed, count, wide, kinds, dtype)
    forest = RandomForestClassifier(40, random_state=seed).fit(features[0], labels)
    found = forest_probabilities(features, labels, seed, 40)
    np.testing.assert_array_equal(found, forest.predict_proba(features[1]))
    assert not np.array_equal(found, forest_probabilities(features, labels, seed + 10, 40))


@pytest.mark.parametrize("part", ["sklearn.tree._tree", "sklearn.tree._splitter"])
def test_without_the_builder_of_trees_the_forest_is_the_same(monkeypatch, part):
    features, labels = scans(5, 30, 50, 3)
    quick = forest_probabilities(features, labels, 7, 12)
    made = []

    class Counted(RandomForestClassifier):
        def fit(self, *arguments):
            made.append(self)
            return super().fit(*arguments)

    monkeypatch.setattr("sklearn.ensemble.RandomForestClassifier", Counted)
    np.testing.assert_array_equal(forest_probabilities(features, labels, 7, 12), quick)
    assert not made
    monkeypatch.setitem(sys.modules, part, None)
    np.testing.assert_array_equal(forest_probabilities(features, labels, 7, 12), quick)
    assert len(made) == 1


def test_a_builder_with_another_interface_is_left_alone(monkeypatch):
    features, labels = scans(6, 30, 50, 3)
    quick = forest_probabilities(features, labels, 7, 12)
    monkeypatch.setattr("sklearn.tree._tree.DepthFirstTreeBuilder", lambda splitter: None)
    np.testing.assert_array_equal(forest_probabilities(features, labels, 7, 12), quick)


def test_sites_that_differ_are_recognised_and_noise_is_not():
    labels = np.repeat([*"abc"], 20)
    features = np.random.default_rng(0).normal(size=(60, 6))
    for shift, least, most in ((3, 0.9, 1), (0, 0.1, 0.6)):
        table = features + shift * np.repeat(np.arange(3), 20)[:, None]
        found = forest_probabilities((table[::2], table[1::2]), labels[::2], 0, 50)
        assert found.sum(axis=1) == pytest.approx(np.ones(30))
        right = np.array([*"abc"])[found.argmax(axis=1)] == labels[1::2]
        assert least < right.mean() <= most


def test_a_forest_without_trees_is_refused():
    features, labels = scans(0, 6, 2, 2)
    with pytest.raises(InvalidValueError, match="trees"):
        forest_probabilities(features, labels, 0, 0)
