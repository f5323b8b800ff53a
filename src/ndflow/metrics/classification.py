"""Which site does a scan come from? A random forest's prediction, before and after normalisation.

The better a normalisation, the less a classifier finds that distinguishes the sites. Scans are
divided into stratified folds; each fold is predicted by a forest trained on the others. Whatever
the features depend on, such as a reference, has to be made from the training scans of each fold as
well, or information leaks from the test scans: so the features are requested fold by fold.

`ndflow.metrics.chance_level` measures in the same way the accuracy that chance gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError
from ndflow.metrics.predictions import Predictions
from ndflow.metrics.random_forest import Features, forest_probabilities, sklearn_module
from ndflow.values import real_array, whole

__all__ = ["Indices", "classify", "folds"]

Indices = NDArray[np.intp]

_SEEDS = 1 << 32
_ATTEMPTS = 100


def folds(
    labels: Sequence[str], seed: int, count: int = 2, groups: Sequence[str] | None = None
) -> list[tuple[Indices, Indices]]:
    """Divide scans into stratified folds.

    Parameters
    ----------
    labels : (scans,), the class of each scan.
    seed : of the random division.
    count : number of folds.
    groups : (scans,); scans of one group, such as those of one subject, stay in one fold.

    Returns
    -------
    Indices of the training and of the test scans, one pair per fold.

    Raises
    ------
    InvalidValueError : if there are fewer than two classes, or if a class cannot be in all folds.

    Examples
    --------
    >>> sites = ["a", "a", "b", "b"]
    >>> [[sites[index] for index in test] for _, test in folds(sites, seed=0)]
    [['a', 'b'], ['a', 'b']]
    """
    whole(count, "count", 2, 1 << 20)
    sizes = Counter(labels)
    if len(sizes) < 2:
        raise InvalidValueError("labels must name at least two classes")
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
    for attempt in range(_ATTEMPTS):  # with groups, a class may be missing from a training fold
        splitter = getattr(sklearn_module("model_selection"), kind)(
            count, shuffle=True, random_state=(first + attempt) % _SEEDS
        )
        parts = list(splitter.split(np.zeros(len(labels)), np.array(labels), groups))
        if all({labels[index] for index in train} == set(labels) for train, _ in parts):
            return parts
    raise InvalidValueError(
        f"scans of one subject stay together, so each class needs scans of at least {count} "
        f"subjects; leave out subjects that were scanned at every site"
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
    """Predict the class of each scan with a forest trained on the other folds.

    Parameters
    ----------
    features : called with the indices of the training and of the test scans; returns the features
        of both, one row per scan.
    labels : (scans,), the class of each scan.
    seed : of folds and forests.
    trees : number of trees in a forest.
    count, groups : see `folds`.

    Returns
    -------
    The probability of each class, for each scan.

    Examples
    --------
    >>> table = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]])
    >>> sites = ["a"] * 3 + ["b"] * 3
    >>> found = classify(lambda train, test: (table[train], table[test]), sites, seed=0, trees=9)
    >>> found.probabilities.argmax(axis=1).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    parts = folds(labels, seed, count, groups)
    classes = tuple(sorted(set(labels)))
    probabilities = np.zeros((len(labels), len(classes)))
    for train, test in parts:
        both = _checked(features(train, test), train, test)
        # Each training fold has every label, so forests know the classes in this order.
        probabilities[test] = forest_probabilities(both, np.array(labels)[train], seed, trees)
    return Predictions(probabilities, classes)


def _checked(features: tuple[ArrayLike, ArrayLike], train: Indices, test: Indices) -> Features:
    known = real_array(features[0], "features of training scans", train.size, None)
    return known, real_array(features[1], "features of test scans", test.size, known.shape[1])
