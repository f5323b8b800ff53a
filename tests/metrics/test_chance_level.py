"""What chance gives: exact p-values, agreement with scikit-learn, and subjects kept together."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics
from sklearn.ensemble import RandomForestClassifier

from ndflow.errors import InvalidValueError
from ndflow.metrics.chance_level import chance_level, shuffle_accuracy, shuffled
from ndflow.metrics.folds import folds

LABELS = ["oslo"] * 12 + ["bern"] * 9 + ["rome"] * 7
PLACE = np.array([["bern", "oslo", "rome"].index(name) for name in LABELS])


def accuracies(table, labels, seed, shuffles, trees, groups=None):
    """Return the accuracy of the labels as they are, and of each shuffle."""
    parts = folds(labels, 0, groups=groups)
    features = [(table[train], table[test]) for train, test in parts]
    options = {"seed": seed, "trees": trees, "groups": groups}
    return [
        shuffle_accuracy(features, parts, labels, number=number, **options)
        for number in range(shuffles + 1)
    ]


def noise(seed, features=6):
    return np.random.default_rng(seed).normal(size=(len(LABELS), features))


def test_accuracies_are_those_of_scikit_learn_trained_anew_on_the_shuffled_labels():
    table, parts = noise(0) + 3 * PLACE[:, None], folds(LABELS, 0)
    found = accuracies(table, LABELS, 4, 5, 7)
    for number, reached in enumerate(found):
        generator = np.random.default_rng([4, number])
        own = shuffled(LABELS, parts, generator) if number else np.array(LABELS)
        state = int(generator.integers(1 << 32))
        predicted = np.empty_like(own)
        for train, test in parts:
            forest = RandomForestClassifier(7, random_state=state)
            predicted[test] = forest.fit(table[train], own[train]).predict(table[test])
        assert reached == pytest.approx(metrics.balanced_accuracy_score(own, predicted))
    assert found[0] > 0.6 > np.mean(found[1:])


def test_p_values_are_uniform_where_labels_mean_nothing_and_small_where_they_do():
    generator = np.random.default_rng(1)
    labels = ["a"] * 8 + ["b"] * 6
    p_values = []
    for seed in range(60):
        table = generator.normal(size=(len(labels), 3))
        reached, *others = accuracies(table, labels, seed, 9, 3)
        p_values.append(chance_level(reached, others).p)
    # Accuracies are often tied, which makes p larger, never smaller than it should be.
    p = np.array(p_values)
    for level in (0.1, 0.2, 0.3, 0.5, 0.7):
        most = stats.binom.isf(0.001, p.size, level) / p.size
        assert (p <= level + 1e-9).mean() <= most
    assert (p <= 0.5).mean() > 0.2
    reached, *others = accuracies(noise(2) + 3 * PLACE[:, None], LABELS, 0, 19, 5)
    assert chance_level(reached, others).p == 1 / 20


def test_small_forests_have_the_chance_level_of_large_ones():
    table = noise(3) + 3 * PLACE[:, None]
    small = chance_level(*split(accuracies(table, LABELS, 0, 25, 25)))
    large = chance_level(*split(accuracies(table, LABELS, 1, 25, 60)))
    assert small.mean == pytest.approx(large.mean, abs=0.05)
    assert small.high == pytest.approx(large.high, abs=0.08)


def split(reached):
    return reached[0], reached[1:]


def test_shuffles_differ_but_each_is_always_the_same():
    parts = folds(LABELS, 0)
    table = noise(0)
    features = [(table[train], table[test]) for train, test in parts]
    alone = shuffle_accuracy(features, parts, LABELS, seed=5, number=3, trees=4)
    found = accuracies(table, LABELS, 5, 6, 4)
    assert found[3] == alone
    assert len(set(found)) > 1


def test_folds_keep_their_labels_and_subjects_are_exchanged_as_wholes():
    # Two scans of each subject at one site, but q travelled; u has three.
    labels, subjects = [*"aaaabbbbabccaaab"], [*"ppmmrrssqqttuuuv"]
    parts = [(np.array([15]), np.arange(15)), (np.arange(15), np.array([15]))]
    generator = np.random.default_rng(0)
    travelled, moved = set(), set()
    for _ in range(60):
        found = shuffled(labels, parts, generator, subjects)
        assert sorted(found) == sorted(labels)
        assert found[12:].tolist() == [
            *"aaab"
        ]  # nobody else has three scans, or is in the other fold
        pairs = ["".join(found[place : place + 2]) for place in range(0, 12, 2)]
        mixed = [place for place, pair in enumerate(pairs) if pair in ("ab", "ba")]
        assert len(mixed) == 1
        travelled.add(mixed[0])
        moved.add(pairs[mixed[0]])
    assert travelled == set(range(6))
    assert moved == {"ab", "ba"}


def test_repeated_scans_do_not_make_chance_look_like_sites():
    # Three nearly equal scans of each of twelve subjects, and sites that mean nothing: were scans
    # shuffled one by one, true sites would look better than most shuffles.
    generator = np.random.default_rng(0)
    p_values = []
    for seed in range(20):
        subject = np.repeat(np.arange(12), 3)
        labels = [*np.array(["a", "b"])[np.repeat(generator.permutation(12) % 2, 3)].tolist()]
        table = generator.normal(size=(12, 2))[subject] + 0.01 * generator.normal(size=(36, 2))
        names = [str(one) for one in subject]
        reached, *others = accuracies(table, labels, seed, 9, 3, names)
        p_values.append(chance_level(reached, others).p)
    assert (np.array(p_values) <= 0.2).mean() < 0.45


def test_a_chance_level_without_shuffles_is_refused():
    with pytest.raises(InvalidValueError, match="at least one shuffle"):
        chance_level(0.5, [])
