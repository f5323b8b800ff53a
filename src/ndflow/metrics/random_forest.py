"""Which site does a scan come from? What a random forest predicts, before and after normalisation.

The better a normalisation, the less a classifier finds that distinguishes the sites. The forest is
scikit-learn's, without what that does around each tree.

An evaluation grows thousands of small forests, and most of the time of a small
``RandomForestClassifier`` goes into copying and checking the parameters and the data of each tree.
Here the data are prepared once for all trees, and only scikit-learn's builder of trees is called,
with the same random numbers. So the forest is the same to the last bit, and for few scans it takes
a fifth of the time:

    seeds of the trees     one stream, that of the forest's seed
    tree with seed s       scans drawn with replacement, and features at its splits, from s
    a scan's prediction    the mean over trees of the shares of the classes in its leaf

The builder is a part of scikit-learn whose interface may change. Where it has, the forest is left
to ``RandomForestClassifier``: the result is the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, whole

__all__ = ["Features", "Floats", "forest_probabilities", "sklearn_module"]

Floats = NDArray[np.floating[Any]]
Features = tuple[Floats, Floats]  # of the training and of the test scans, one row per scan

_LARGEST = np.iinfo(np.int32).max  # a tree's seed is smaller, its depth not larger


def forest_probabilities(
    features: Features, labels: NDArray[Any], seed: int, trees: int
) -> FloatArray:
    """Return what a random forest predicts.

    Parameters
    ----------
    features : of the training and of the test scans, one row per scan; finite.
    labels : of the training scans.
    seed : of the forest.
    trees : number of trees.

    Returns
    -------
    The probability of each class, in alphabetical order, for each test scan.

    Examples
    --------
    >>> train, test = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([[0.2], [0.9]])
    >>> forest_probabilities((train, test), np.array([*"aabb"]), seed=0, trees=8).tolist()
    [[1.0, 0.0], [0.125, 0.875]]
    """
    whole(trees, "trees", 1, 1 << 20)
    try:
        return _grown(features, labels, seed, trees)
    except (ImportError, AttributeError, TypeError):  # the builder is not as we know it
        # One job: several add up the votes of trees in whichever order they finish.
        forest = sklearn_module("ensemble").RandomForestClassifier(
            trees, random_state=seed, n_jobs=1
        )
        probabilities: FloatArray = forest.fit(features[0], labels).predict_proba(features[1])
        return probabilities


def sklearn_module(name: str) -> Any:
    """Return a module of scikit-learn."""
    try:
        return import_module(f"sklearn.{name}")
    except ImportError:
        raise InvalidValueError(
            "the classification of sites needs scikit-learn, which is not installed; "
            "try pip install 'ndflow[evaluate]'"
        ) from None


def _grown(features: Features, labels: NDArray[Any], seed: int, trees: int) -> FloatArray:
    parts = (import_module(f"sklearn.tree.{name}") for name in ("_criterion", "_splitter", "_tree"))
    criterion, splitter, builder = parts
    known, asked = (np.ascontiguousarray(one, np.float32) for one in features)
    scans, wide = known.shape
    classes, codes = np.unique(labels, return_inverse=True)
    truth = codes.astype(np.float64).reshape(-1, 1)
    sizes = np.array([classes.size], np.intp)
    tried = max(1, int(np.sqrt(wide)))  # features at each split
    seeds = np.random.RandomState(seed).randint(_LARGEST, size=trees)
    stream = np.random.RandomState(0)
    votes = np.zeros((len(asked), classes.size))
    for own in seeds.tolist():
        stream.seed(own)
        drawn = np.bincount(stream.randint(0, scans, scans), minlength=scans)
        stream.seed(own)  # scikit-learn begins again for the splits
        split = splitter.BestSplitter(criterion.Gini(1, sizes), tried, 1, 0.0, stream, None)
        tree = builder.Tree(wide, sizes, 1)
        grow = builder.DepthFirstTreeBuilder(split, 2, 1, 0.0, _LARGEST, 0.0)
        grow.build(tree, known, truth, drawn.astype(np.float64), None)
        votes += tree.predict(asked)
    probabilities: FloatArray = votes / trees
    return probabilities
