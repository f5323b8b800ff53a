"""Which site does a scan come from? A random forest's guess, before and after normalisation.

The better a normalisation, the less a classifier finds to tell sites by. Scans are cut into folds
with the same share of each site; each fold is predicted by a forest that has seen the others
only. What the features depend on, such as a reference, has to be made from the training scans of
each fold as well, or the test scans have already had their say: so the features are asked for, fold
by fold.

What accuracy chance gives is measured in the same way, with the labels shuffled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError
from ndflow.metrics.predictions import Chance, Predictions, accuracy
from ndflow.values import FloatArray, real_array, whole

__all__ = ["chance", "classify", "folds"]

Indices = NDArray[np.intp]
Features = tuple[FloatArray, FloatArray]  # of the training and of the test scans, a row each

_SEEDS = 1 << 32
_ATTEMPTS = 100


def folds(
    labels: Sequence[str], seed: int, count: int = 2, groups: Sequence[str] | None = None
) -> list[tuple[Indices, Indices]]:
    """Return the indices of training and test scans of each fold, with the same mix of labels.

    Parameters
    ----------
    labels : of all scans.
    seed : of the random choice.
    count : of folds.
    groups : scans that have to stay together, such as those of one subject, have the same.
    """
    whole(count, "count", 2, 1 << 20)
    sizes = Counter(labels)
    if len(sizes) < 2:
        raise InvalidValueError("labels must be of two classes or more to be told apart")
    few = sorted(name for name, size in sizes.items() if size < count)
    if few:
        raise InvalidValueError(
            f"each class needs at least {count} scans, one for each fold, "
            f"but {few[0]!r} has {sizes[few[0]]}; leave it out, or use fewer folds"
        )
    if groups is not None and len(set(groups)) == len(groups):
        groups = None
    kind = "StratifiedKFold" if groups is None else "StratifiedGroupKFold"
    first = whole(seed, "seed", 0, _SEEDS - 1)
    for attempt in range(_ATTEMPTS):  # scans that stay together may leave a fold without a class
        splitter = getattr(_sklearn("model_selection"), kind)(
            count, shuffle=True, random_state=(first + attempt) % _SEEDS
        )
        parts = list(splitter.split(np.zeros(len(labels)), np.array(labels), groups))
        if all({labels[place] for place in train} == set(labels) for train, _ in parts):
            return parts
    raise InvalidValueError(
        f"scans of one subject stay together, and so each class needs scans of {count} subjects "
        f"or more; leave out the subjects that were scanned everywhere"
    )


def classify(
    features: Callable[[Indices, Indices], tuple[ArrayLike, ArrayLike]],
    labels: Sequence[str],
    *,
    seed: int,
    trees: int = 200,
    count: int = 2,
    groups: Sequence[str] | None = None,
) -> Predictions:
    """Predict the label of each scan, by a forest that was trained on the other folds.

    Parameters
    ----------
    features : given the indices of training and of test scans, the features of both, a row a scan.
    labels : of all scans.
    seed : of folds and forests.
    trees : in a forest.
    count : of folds.
    groups : see `folds`.
    """
    parts = folds(labels, seed, count, groups)
    classes = tuple(sorted(set(labels)))
    probabilities = np.zeros((len(labels), len(classes)))
    for train, test in parts:
        both = _checked(features(train, test), train, test)
        probabilities[test] = _predicted(both, np.array(labels)[train], seed, trees)
    return Predictions(probabilities, classes)


def chance(
    fold_features: Sequence[tuple[ArrayLike, ArrayLike]],
    labels: Sequence[str],
    *,
    seed: int,
    permutations: int,
    trees: int = 200,
    groups: Sequence[str] | None = None,
) -> Chance:
    """Return the balanced accuracy of forests that are trained, and tested, on shuffled labels.

    Parameters
    ----------
    fold_features : of training and test scans, for each of `folds` (labels, seed, their number).
    labels : of all scans; shuffled within each fold, so that folds keep their mix of labels.
    seed : that of the folds; also of forests and permutations.
    permutations : how often labels are shuffled.
    trees : in a forest.
    groups : see `folds`.
    """
    whole(permutations, "permutations", 1, 1 << 30)
    parts = folds(labels, seed, len(fold_features), groups)
    features = [_checked(both, *part) for both, part in zip(fold_features, parts, strict=True)]
    classes = tuple(sorted(set(labels)))
    generator = np.random.default_rng(seed)
    reached = []
    for _ in range(permutations):
        shuffled = np.array(labels)
        for _, test in parts:  # within folds, which keeps their mix of labels as it was
            shuffled[test] = generator.permutation(shuffled[test])
        own = int(generator.integers(_SEEDS))
        probabilities = np.zeros((len(labels), len(classes)))
        for both, (train, test) in zip(features, parts, strict=True):
            probabilities[test] = _predicted(both, shuffled[train], own, trees)
        reached.append(accuracy(Predictions(probabilities, classes), shuffled.tolist()).balanced)
    return Chance(float(np.mean(reached)), float(np.quantile(reached, 0.95)))


def _predicted(features: Features, labels: NDArray[Any], seed: int, trees: int) -> FloatArray:
    """Return the probabilities of the classes for test scans, (scans, classes)."""
    # One job: several add up the votes of trees in whichever order they finish.
    forest = _sklearn("ensemble").RandomForestClassifier(
        whole(trees, "trees", 1, 1 << 20), random_state=seed, n_jobs=1
    )
    # Each training fold has every label, so forests know the classes in this order.
    probabilities: FloatArray = forest.fit(features[0], labels).predict_proba(features[1])
    return probabilities


def _checked(features: tuple[ArrayLike, ArrayLike], train: Indices, test: Indices) -> Features:
    known = real_array(features[0], "features of training scans", train.size, None)
    return known, real_array(features[1], "features of test scans", test.size, known.shape[1])


def _sklearn(module: str) -> Any:
    try:
        return import_module(f"sklearn.{module}")
    except ImportError:
        raise InvalidValueError(
            "the classification of sites needs scikit-learn, which is not installed; "
            "try pip install 'ndflow[evaluate]'"
        ) from None
