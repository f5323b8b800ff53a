"""Scans divided into folds, each of which is predicted by what was learned from the others.

Whatever features depend on, such as a reference, has to be made from the training scans of each
fold as well, or information leaks from the test scans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.metrics.random_forest import sklearn_module
from ndflow.values import whole

__all__ = ["Fold", "Indices", "folds"]

Indices = NDArray[np.intp]
Fold = tuple[Indices, Indices]  # of the training and of the test scans

_SEEDS = 1 << 32
_ATTEMPTS = 100


def folds(
    labels: Sequence[str], seed: int, count: int = 2, groups: Sequence[str] | None = None
) -> list[Fold]:
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
