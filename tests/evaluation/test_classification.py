"""Folds, forests, predictions and chance; and what a forest is shown of a study."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared_runs import NAMES, SITE, TREES, Array, Desk
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics
from sklearn.ensemble import RandomForestClassifier

from ndflow.errors import InvalidValueError
from ndflow.evaluation.classification import (
    accuracy,
    chance_level,
    classify_folds,
    entropy,
    folds,
    shuffle_accuracy,
    shuffled,
)
from ndflow.study.finished import FinishedStudy, read_finished

SITES = [*"abc"]
LABELS = ["a"] * 9 + ["b"] * 12 + ["c"] * 7
PLACE = np.array([SITES.index(name) for name in LABELS])


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from(SITES), max_size=30))
def test_accuracies_and_entropy_agree_with_scikit_learn_and_scipy(seed, more):
    labels = [*SITES, *more]
    probabilities = np.random.default_rng(seed).dirichlet(np.full(3, 0.3), len(labels))
    predicted = np.array(SITES)[probabilities.argmax(axis=1)]
    per_class, pooled, balanced = accuracy(probabilities, labels)
    recalls = metrics.recall_score(labels, predicted, average=None, labels=SITES)
    assert per_class == pytest.approx(dict(zip(SITES, recalls.tolist(), strict=True)))
    assert pooled == pytest.approx(metrics.accuracy_score(labels, predicted))
    assert balanced == pytest.approx(metrics.balanced_accuracy_score(labels, predicted))
    bits = stats.entropy(probabilities, base=2, axis=1)
    np.testing.assert_allclose(entropy(probabilities), bits, atol=1e-12)


def test_folds_partition_the_scans_with_the_same_proportions_of_sites():
    parts = folds(LABELS, seed=1)
    for train, test in parts:
        assert sorted([*train, *test]) == list(range(len(LABELS)))
        sizes = Counter(LABELS[i] for i in test)
        assert all(abs(sizes[name] - LABELS.count(name) / 2) < 1 for name in SITES)
    divided = [[test.tolist() for _, test in folds(LABELS, seed)] for seed in (1, 1, 2)]
    assert divided[0] == divided[1] != divided[2]


def test_scans_of_one_subject_stay_together_and_every_class_is_trained_on():
    labels, subjects = [*"aaabbbcccc"], [*"ppqqrrsstt"]  # q was scanned at two sites
    for seed in range(5):
        parts = folds(labels, seed, groups=subjects)
        assert sorted(np.concatenate([test for _, test in parts])) == list(range(10))
        for train, test in parts:
            assert {subjects[i] for i in train}.isdisjoint({subjects[i] for i in test})
            assert {labels[i] for i in train} == set(labels)
    with pytest.raises(InvalidValueError, match="at least 2 subjects"):
        folds([*"aabbbb"], 0, groups=[*"ppqqrr"])
    with pytest.raises(InvalidValueError, match="at least 2 subjects"):
        folds([*"aab"], 0)


def test_accuracies_are_those_of_scikit_learn_trained_anew_on_the_shuffled_labels():
    table = np.random.default_rng(0).normal(size=(len(LABELS), 6)) + 3 * PLACE[:, None]
    subjects = [f"{label}{number // 2}" for number, label in enumerate(LABELS)]
    parts = folds(LABELS, 0, groups=subjects)
    features = [(table[train], table[test]) for train, test in parts]
    found = [
        shuffle_accuracy(features, parts, LABELS, number=number, seed=4, trees=7, groups=subjects)
        for number in range(10)
    ]
    for number, reached in enumerate(found[:3]):
        generator = np.random.default_rng([4, number])
        own = np.array(shuffled(LABELS, parts, generator, subjects) if number else LABELS)
        state = int(generator.integers(1 << 32))
        predicted = np.empty_like(own)
        for train, test in parts:
            forest = RandomForestClassifier(7, random_state=state)
            predicted[test] = forest.fit(table[train], own[train]).predict(table[test])
        assert reached == pytest.approx(metrics.balanced_accuracy_score(own, predicted))
    assert chance_level(found[0], found[1:]).p == 1 / 10


def test_folds_keep_their_labels_and_subjects_are_exchanged_as_wholes():
    # Two scans of each subject at one site, but q travelled; u has three.
    labels, subjects = [*"aaaabbbbabccaaab"], [*"ppmmrrssqqttuuuv"]
    parts = [(np.array([15]), np.arange(15)), (np.arange(15), np.array([15]))]
    generator = np.random.default_rng(0)
    travelled, moved = set(), set()
    for _ in range(60):
        found = shuffled(labels, parts, generator, subjects)
        assert sorted(found) == sorted(labels)
        # Nobody else has three scans, or is in the other fold.
        assert found[12:] == [*"aaab"]
        pairs = ["".join(found[place : place + 2]) for place in range(0, 12, 2)]
        mixed = [place for place, pair in enumerate(pairs) if pair in ("ab", "ba")]
        assert len(mixed) == 1
        travelled.add(mixed[0])
        moved.add(pairs[mixed[0]])
    assert travelled == set(range(6))
    assert moved == {"ab", "ba"}


def features_of(run: FinishedStudy) -> Callable[[], tuple[Array, ...]]:
    """Return a function that computes features of training and test scans."""
    # Folds keep the visits of a person together, but these parts do not.
    scans = [replace(scan, person=None) for scan in run.study.scans]
    voxels = np.random.default_rng(0).uniform(300, 900, (12, 50)).astype(np.float32)

    def features() -> tuple[Array, ...]:
        parts = [(TRAIN, TEST)]
        return classify_folds(voxels, scans, run.study, parts, seed=0, trees=TREES)[1][0]

    return features


TRAIN, TEST = np.arange(0, 12, 2), np.arange(1, 12, 2)


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


@pytest.mark.parametrize("mode", ["individual", "site"])
def test_no_test_scan_leaks_into_the_features_of_others(
    mode: str, copied: Callable[..., FinishedStudy]
) -> None:
    run = copied(mode, mode=mode)
    features = features_of(run)
    before = features()
    swap(run, int(TEST[2]))
    known, tested = features()
    assert np.array_equal(known, before[0])
    changed = (tested != before[1]).any(axis=1)
    assert changed.tolist() == [place == 2 for place in range(6)]
    swap(run, int(TRAIN[3]))
    changed = (features()[1] != tested).any(axis=1)
    assert changed.all() or (mode == "site" and changed[3])  # of the same site


def test_features_of_visits_come_from_the_map_that_they_share(
    copied: Callable[..., FinishedStudy],
) -> None:
    run = copied("individual", mode="individual")
    study = replace(run.study, options=replace(run.study.options, visits="together"))
    named = list(study.scans)
    alone = [replace(scan, person=None) for scan in named]
    voxels = np.random.default_rng(0).uniform(300, 900, (12, 50)).astype(np.float32)
    parts = [(np.arange(12), np.arange(12))]
    shared, apart = (
        classify_folds(voxels, scans, study, parts, seed=0, trees=TREES)[1][0][1]
        for scans in (named, alone)
    )
    people = Counter((scan.person, scan.site) for scan in named)
    twice = [people[scan.person, scan.site] > 1 for scan in named]
    assert 0 < sum(twice) < 12
    assert (shared != apart).any(axis=1).tolist() == twice


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
