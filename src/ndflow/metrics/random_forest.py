"""Which site does a scan come from? What a random forest predicts, before and after normalisation.

The better a normalisation, the less a classifier finds that distinguishes the sites.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray

__all__ = ["Features", "Floats", "forest_probabilities", "sklearn_module"]

Floats = NDArray[np.floating[Any]]
Features = tuple[Floats, Floats]  # of the training and of the test scans, one row per scan


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
    ensemble, sklearn = sklearn_module("ensemble"), sklearn_module()
    # One job: several add up the votes of trees in whichever order they finish.
    forest = ensemble.RandomForestClassifier(trees, random_state=seed, n_jobs=1)
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        probabilities: FloatArray = forest.fit(features[0], labels).predict_proba(features[1])
    return probabilities


def sklearn_module(name: str = "") -> Any:
    """Return scikit-learn, or a module of it."""
    try:
        return import_module(f"sklearn.{name}".rstrip("."))
    except ImportError:
        raise InvalidValueError(
            "the classification of sites needs scikit-learn, which is not installed; "
            "try pip install 'ndflow[evaluate]'"
        ) from None
