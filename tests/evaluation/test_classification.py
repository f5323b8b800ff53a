"""Folds, forests, predictions and chance; and what a forest is shown of a study."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared_runs import NAMES, SITE, TREES, Array, Desk
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics
from sklearn.ensemble import RandomForestClassifier

from ndflow.errors import InvalidValueError
from ndflow.evaluation.classification import (
    _sampled,
    accuracy,
    chance_level,
    classify_folds,
    entropy,
    folds,
    shuffle_accuracy,
    shuffled,
)
from ndflow.study.finished import FinishedStudy, read_finished

# Predictions.

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.lists(st.sampled_from("abc"), max_size=30))
def test_accuracies_agree_with_scikit_learn(seed, more):
    labels = [*"abc", *more]
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(3), len(labels))
    predicted = np.array(list("abc"))[probabilities.argmax(axis=1)]
    found = accuracy(probabilities, labels)
    recalls = metrics.recall_score(labels, predicted, average=None, labels=["a", "b", "c"])
    assert list(found.per_class) == ["a", "b", "c"]
    assert list(found.per_class.values()) == pytest.approx(recalls.tolist())
    assert found.pooled == pytest.approx(metrics.accuracy_score(labels, predicted))
    assert found.balanced == pytest.approx(metrics.balanced_accuracy_score(labels, predicted))


@given(seeds, st.integers(1, 8))
def test_entropy_in_bits_agrees_with_scipy(seed, classes):
    probabilities = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3), 10)
    np.testing.assert_allclose(
        entropy(probabilities), stats.entropy(probabilities, base=2, axis=1), atol=1e-12
    )


# Folds.

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
    ],
)
def test_too_few_scans_are_refused(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()


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


# Random forest.


# Chance level.

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


# Site classifier.


@pytest.mark.parametrize("shape", [(192, 208, 192), (160, 200, 200), (91, 109, 91), (7, 5, 3)])
def test_voxels_are_taken_from_everywhere_in_the_grid(shape: tuple[int, ...]) -> None:
    places = np.indices(shape).reshape(3, -1)
    number = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    kept = _sampled(number).astype(int)
    assert min(2000, number.size) <= kept.size <= 40_000
    for axis, length in enumerate(shape):
        found = np.unique(places[axis][kept])
        assert found[0] <= length // 20 + 2
        assert found[-1] >= length - length // 20 - 3
        assert np.diff(found).max() <= length // 20 + 1


def features_of(run: FinishedStudy) -> Callable[[], tuple[Array, ...]]:
    """Return a function that computes features of training and test scans."""
    scans = list(run.study.scans)
    voxels = np.random.default_rng(0).uniform(300, 900, (12, 50)).astype(np.float32)

    def features() -> tuple[Array, ...]:
        parts = [(TRAIN, TEST)]
        return classify_folds(voxels, scans, run.study, parts, seed=0, trees=TREES)[1][0]

    return features


TRAIN, TEST = np.arange(0, 12, 2), np.arange(1, 12, 2)
WAYS: dict[str, dict[str, Any]] = {
    "flow": {},
    "nyul": {"method": "nyul"},
    "site": {"mode": "site"},
}


@pytest.fixture
def copied(desk: Desk, tmp_path: Path) -> Callable[..., FinishedStudy]:
    """Return a function that copies a finished study, so that it may be changed."""

    def copy(name: str, **how: Any) -> FinishedStudy:
        shutil.copytree(desk.run(name, **how), tmp_path / name)
        return read_finished([tmp_path / name])[0]

    return copy


def swap(run: FinishedStudy, number: int) -> None:
    """Give a scan the model of another scan of its site."""
    models = run.study.folder / "models"
    shutil.copy(models / f"{NAMES[number ^ 2]}.json", models / f"{NAMES[number]}.json")


@pytest.mark.parametrize("way", WAYS)
def test_no_test_scan_leaks_into_the_features_of_others(
    way: str, copied: Callable[..., FinishedStudy]
) -> None:
    run = copied(way, **WAYS[way])
    features = features_of(run)
    before = features()
    swap(run, int(TEST[2]))
    known, tested = features()
    assert np.array_equal(known, before[0])
    changed = (tested != before[1]).any(axis=1)
    assert changed.tolist() == [place == 2 for place in range(6)]
    swap(run, int(TRAIN[3]))
    assert (features()[1] != tested).any(axis=1).all() or way == "site"
    assert (features()[1] != tested).any(axis=1)[3]  # of the same site


@pytest.mark.parametrize("mode", ["individual", "site"])
def test_a_given_reference_is_used_and_references_of_sites_are_nested(
    mode: str, desk: Desk, copied: Callable[..., FinishedStudy]
) -> None:
    # In a folder of its own, without the references of sites beside it.
    alone = desk.folder / f"alone_{mode}" / "reference.json"
    alone.parent.mkdir()
    shutil.copy(desk.run("flow") / "reference.json", alone)
    run = copied(f"given_{mode}", mode=mode, given=alone)
    features = features_of(run)
    before = features()
    swap(run, int(TRAIN[0]))
    changed = (features()[1] != before[1]).any(axis=1)
    first = [site == SITE[0] for site in np.array(SITE)[TEST]]
    assert changed.tolist() == [mode == "site" and own for own in first]
