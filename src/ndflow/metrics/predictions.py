"""Predictions of a classifier, how often they are right, and how certain they are.

Accuracy is pooled over scans, which a large class dominates, and balanced over classes; the paper's
"Overall" is the former. The entropy of a prediction, ``−Σ p log2 p``, and its confidence, the
largest p, show how certain it is: the more bits, the less certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, real_array

__all__ = ["Accuracy", "Chance", "Predictions", "accuracy", "confidence", "entropy"]


class Predictions(NamedTuple):
    """Predicted probabilities of scans that the forests were not trained on.

    Attributes
    ----------
    probabilities : (scans, classes); each row sums to 1.
    classes : (classes,), their names in alphabetical order.
    """

    probabilities: FloatArray
    classes: tuple[str, ...]


class Chance(NamedTuple):
    """The balanced accuracy that chance gives.

    Attributes
    ----------
    mean, high : its mean and its 95th percentile.
    p : the probability that chance gives at least the accuracy that was reached.
    """

    mean: float
    high: float
    p: float


class Accuracy(NamedTuple):
    """How often predictions are right.

    Attributes
    ----------
    per_class : the share of correct predictions in each class.
    pooled : the share of correct predictions among all scans.
    balanced : the mean over the classes.
    """

    per_class: dict[str, float]
    pooled: float
    balanced: float


def accuracy(predictions: Predictions, labels: Sequence[str]) -> Accuracy:
    """Return how often the most probable class is the true one.

    Parameters
    ----------
    predictions : of all scans.
    labels : (scans,), the true class of each scan.

    Raises
    ------
    InvalidValueError : if the labels are not those of the scans and classes predicted.

    Examples
    --------
    >>> accuracy(Predictions(np.array([[0.9, 0.1], [0.6, 0.4]]), ("a", "b")), ["a", "b"])
    Accuracy(per_class={'a': 1.0, 'b': 0.0}, pooled=0.5, balanced=0.5)
    """
    classes = np.array(predictions.classes)
    if len(labels) != len(predictions.probabilities) or set(labels) != set(predictions.classes):
        raise InvalidValueError("labels must be those of the scans and classes that were predicted")
    truth = np.array(labels)
    right = classes[predictions.probabilities.argmax(axis=1)] == truth
    per_class = {name: float(right[truth == name].mean()) for name in predictions.classes}
    balanced = float(np.mean(list(per_class.values())))
    return Accuracy(per_class, float(right.mean()), balanced)


def entropy(probabilities: ArrayLike) -> FloatArray:
    """Return the entropy of each row of (scans, classes), in bits.

    Examples
    --------
    >>> entropy([[1.0, 0.0], [0.5, 0.5]]).tolist()
    [0.0, 1.0]
    """
    bits: FloatArray = special.entr(_valid(probabilities)).sum(axis=1) / np.log(2)
    return bits


def confidence(probabilities: ArrayLike) -> FloatArray:
    """Return the largest probability in each row of (scans, classes).

    Examples
    --------
    >>> confidence([[0.9, 0.1], [0.4, 0.6]]).tolist()
    [0.9, 0.6]
    """
    largest: FloatArray = _valid(probabilities).max(axis=1)
    return largest


def _valid(probabilities: ArrayLike) -> FloatArray:
    given = real_array(probabilities, "probabilities", None, None)
    if given.size == 0 or (given < 0).any() or np.abs(given.sum(axis=1) - 1).max() > 1e-6:
        raise InvalidValueError("probabilities must not be negative, and must sum to 1 in each row")
    return given
