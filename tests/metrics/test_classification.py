"""Classification of sites: no leakage between folds, and agreement with scikit-learn."""

import sys
from collections import Counter

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from ndflow.errors import InvalidValueError
from ndflow.metrics.classification import classify, folds
from ndflow.metrics.predictions import accuracy

LABELS = ["oslo"] * 12 + ["bern"] * 9 + ["rome"] * 7


def noise(seed: int = 0, features: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(len(LABELS), features))


def informative() -> np.ndarray:
    return noise() + 3.0 * np.array([["bern", "oslo", "rome"].index(c) for c in LABELS])[:, None]


def rows(table: np.ndarray):
    return lambda train, test: (table[train], table[test])


@pytest.mark.parametrize("count", [2, 3])
def test_folds_partition_the_scans_with_the_same_proportions_of_sites(count):
    parts = folds(LABELS, seed=1, count=count)
    assert sorted(np.concatenate([test for _, test in parts])) == list(range(len(LABELS)))
    for train, test in parts:
        assert sorted([*train, *test]) == list(range(len(LABELS)))
        sizes = Counter(LABELS[i] for i in test)
        for name, size in Counter(LABELS).items():
            assert abs(sizes[name] - size / count) < 1
    assert [t.tolist() for _, t in parts] == [t.tolist() for _, t in folds(LABELS, 1, count)]
    assert [t.tolist() for _, t in parts] != [t.tolist() for _, t in folds(LABELS, 2, count)]


def test_features_are_requested_fold_by_fold_and_test_scans_are_not_trained_on():
    # Each scan has a feature of its own: a forest trained on a scan would know its site.
    requested = []

    def features(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        requested.append((train.tolist(), test.tolist()))
        return np.eye(len(LABELS))[train], np.eye(len(LABELS))[test]

    predictions = classify(features, LABELS, seed=3, trees=30)
    assert requested == [(a.tolist(), b.tolist()) for a, b in folds(LABELS, 3)]
    assert accuracy(predictions, LABELS).balanced < 0.5


def test_predictions_agree_with_scikit_learns_forest_on_each_fold():
    table = informative()
    found = classify(rows(table), LABELS, seed=4, trees=25, count=3)
    assert found.classes == ("bern", "oslo", "rome")
    for train, test in folds(LABELS, 4, 3):
        forest = RandomForestClassifier(25, random_state=4)
        forest.fit(table[train], np.array(LABELS)[train])
        np.testing.assert_array_equal(found.probabilities[test], forest.predict_proba(table[test]))
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)


def test_sites_that_differ_are_recognised_and_noise_is_not():
    clear = accuracy(classify(rows(informative()), LABELS, seed=0, trees=50), LABELS)
    assert clear.balanced > 0.9
    blind = [
        accuracy(classify(rows(noise(seed)), LABELS, seed=seed, trees=20), LABELS).balanced
        for seed in range(8)
    ]
    assert np.mean(blind) == pytest.approx(1 / 3, abs=0.1)


def test_the_same_seed_gives_the_same_probabilities():
    one, same, other = (
        classify(rows(noise()), LABELS, seed=seed, trees=10).probabilities for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: folds(["a"] * 4 + ["b"], 0), "at least 2 scans.*'b' has 1"),
        (lambda: folds(["a"] * 4 + ["b"] * 2, 0, 3), "at least 3 scans.*'b' has 2"),
        (lambda: folds(["a"] * 4, 0), "at least two classes"),
        (lambda: folds(list("abab"), 0, 1), "count"),
        (lambda: folds(list("abab"), -1), "seed"),
        (lambda: classify(rows(noise()), LABELS, seed=0, trees=0), "trees"),
        (lambda: classify(lambda a, b: (noise(), noise()), LABELS, seed=0), "training scans"),
        (
            lambda: classify(lambda a, b: (noise()[a], noise(features=2)[b]), LABELS, seed=0),
            "test scans",
        ),
    ],
)
def test_too_few_scans_and_invalid_arguments_are_refused(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()


def test_without_scikit_learn_the_error_names_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.model_selection", None)
    with pytest.raises(InvalidValueError, match=r"pip install 'ndflow\[evaluate\]'"):
        folds(LABELS, 0)


def test_scans_of_one_subject_stay_together_and_every_class_is_trained_on():
    labels, subjects = [*"aaabbbcccc"], [*"ppqqrrsstt"]  # q was scanned at two sites
    for seed in range(5):
        parts = folds(labels, seed, groups=subjects)
        assert sorted(np.concatenate([test for _, test in parts])) == list(range(10))
        for train, test in parts:
            assert {subjects[i] for i in train}.isdisjoint({subjects[i] for i in test})
            assert {labels[i] for i in train} == set(labels)


def test_a_class_with_a_single_subject_is_refused():
    with pytest.raises(InvalidValueError, match="scans of one subject stay together"):
        folds([*"aabbbb"], 0, groups=[*"ppqqrr"])
