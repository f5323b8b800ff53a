"""The accuracy that chance gives: forests that are trained and tested on shuffled labels.

Held fixed are the scans, their features and the division into folds; shuffled are the labels,
within each fold, so that every fold keeps as many scans of each class. Forests are trained anew for
each shuffle: nothing of what the true labels have taught is left. They have fewer trees than the
forest whose accuracy is reported, because many are needed; so the accuracy that is compared with
them is that of one more forest of their size, trained with the true labels. With r of n shuffles at
least as accurate,

    p = (1 + r) / (1 + n)

is exact, in the sense that P(p ≤ α) ≤ α if labels mean nothing: then the true labels are just one
more shuffle (Phipson and Smyth, 2010).

*Scans of one subject* are not independent. So subjects exchange their labels as wholes, with others
of as many scans in the same fold, and the labels of a subject that has several are shuffled among
its own scans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.metrics.folds import Fold
from ndflow.metrics.predictions import Chance, Predictions, accuracy
from ndflow.metrics.random_forest import Features, forest_probabilities
from ndflow.values import whole

__all__ = ["SHUFFLED_TREES", "chance_level", "shuffle_accuracy", "shuffled"]

SHUFFLED_TREES = 25

Labels = NDArray[np.str_]


def shuffled(
    labels: Sequence[str],
    parts: Sequence[Fold],
    generator: np.random.Generator,
    groups: Sequence[str] | None = None,
) -> Labels:
    """Return the labels of scans, shuffled within folds.

    Parameters
    ----------
    labels : (scans,).
    parts : the folds, see `ndflow.metrics.folds.folds`.
    generator : of random numbers.
    groups : (scans,), the subject of each scan; None if all are different.

    Examples
    --------
    >>> parts = [(np.array([2, 3]), np.array([0, 1])), (np.array([0, 1]), np.array([2, 3]))]
    >>> found = shuffled(["a", "b", "c", "c"], parts, np.random.default_rng(0))
    >>> sorted(found[:2].tolist()), found[2:].tolist()
    (['a', 'b'], ['c', 'c'])
    """
    given, ready = np.array(labels), np.array(labels)
    subject = np.arange(given.size) if groups is None else np.array(groups)
    for _, test in parts:
        sizes = Counter(subject[test].tolist())
        for size in sorted(set(sizes.values())):
            alike = sorted(name for name, count in sizes.items() if count == size)
            places = np.array([test[subject[test] == name] for name in alike])
            moved = generator.permutation(given[places], axis=0)
            ready[places] = generator.permuted(moved, axis=1)
    return ready


def shuffle_accuracy(
    features: Sequence[Features],
    parts: Sequence[Fold],
    labels: Sequence[str],
    *,
    seed: int,
    number: int,
    trees: int = SHUFFLED_TREES,
    groups: Sequence[str] | None = None,
) -> float:
    """Return the balanced accuracy of forests that are trained and tested on shuffled labels.

    Parameters
    ----------
    features : of the training and of the test scans, one pair for each fold.
    parts : the folds.
    labels : (scans,), the class of each scan.
    seed : of shuffles and forests.
    number : which shuffle; 0 for the labels as they are. Each has random numbers of its own, so
        the result does not depend on which others are computed, nor on where.
    trees : number of trees in a forest.
    groups : (scans,), the subject of each scan; None if all are different.

    Examples
    --------
    >>> table, sites = np.array([[0.0], [0.1], [1.0], [1.1]]), ["a", "a", "b", "b"]
    >>> parts = [(np.array([0, 2]), np.array([1, 3])), (np.array([1, 3]), np.array([0, 2]))]
    >>> features = [(table[train], table[test]) for train, test in parts]
    >>> shuffle_accuracy(features, parts, sites, seed=0, number=0)
    1.0
    """
    generator = np.random.default_rng([seed, whole(number, "number", 0, 1 << 30)])
    own = shuffled(labels, parts, generator, groups) if number else np.array(labels)
    forest_seed = int(generator.integers(1 << 32))
    classes = tuple(sorted(set(labels)))
    codes = np.searchsorted(classes, own)
    probabilities = np.zeros((len(labels), len(classes)))
    for both, (train, test) in zip(features, parts, strict=True):
        probabilities[test] = forest_probabilities(both, codes[train], forest_seed, trees)
    return accuracy(Predictions(probabilities, classes), own.tolist()).balanced


def chance_level(reached: float, by_chance: Sequence[float]) -> Chance:
    """Return what chance gives, and whether an accuracy exceeds it.

    Parameters
    ----------
    reached : with the true labels.
    by_chance : with shuffled ones; at least one.

    Examples
    --------
    >>> chance_level(0.9, [0.5, 0.4, 0.6, 0.5])
    Chance(mean=0.5, high=0.585, p=0.2)
    """
    if not by_chance:
        raise InvalidValueError("a chance level needs at least one shuffle of the labels")
    # Accuracies that are the same may differ by rounding.
    higher = sum(one >= reached - 1e-12 for one in by_chance)
    return Chance(
        float(np.mean(by_chance)),
        float(np.quantile(by_chance, 0.95)),
        (1 + higher) / (1 + len(by_chance)),
    )
