"""Folds have the proportions of all scans, and keep the scans of a subject together."""

import sys
from collections import Counter

import numpy as np
import pytest

from ndflow.errors import InvalidValueError
from ndflow.metrics.folds import folds

LABELS = ["oslo"] * 12 + ["bern"] * 9 + ["rome"] * 7


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: folds(["a"] * 4 + ["b"], 0), "at least 2 scans.*'b' has 1"),
        (lambda: folds(["a"] * 4 + ["b"] * 2, 0, 3), "at least 3 scans.*'b' has 2"),
        (lambda: folds(["a"] * 4, 0), "at least two classes"),
        (lambda: folds(list("abab"), 0, 1), "count"),
        (lambda: folds(list("abab"), -1), "seed"),
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
