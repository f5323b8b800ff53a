"""What there is to say about predictions: how often they are right, and how sure of themselves.

Accuracy is pooled over scans, which a large class dominates, and balanced over classes; the paper's
"Overall" is the former. The entropy of a prediction, ``−Σ p log2 p``, and its confidence, the
largest p, tell how sure it is: the more bits, the less is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ndflow.errors import InvalidValueError
from ndflow.metrics.statistics import NOTHING, TestResult, t_test
from ndflow.values import FloatArray, real_array

__all__ = [
    "Accuracy",
    "Chance",
    "Predictions",
    "accuracy",
    "confidence",
    "entropy",
    "paired_t",
]


class Predictions(NamedTuple):
    """What forests say of scans they have not seen.

    Attributes
    ----------
    probabilities : (scans, classes); each row sums to 1.
    classes : their names, in order.
    """

    probabilities: FloatArray
    classes: tuple[str, ...]


class Chance(NamedTuple):
    """The balanced accuracy that chance gives: its mean, and what it exceeds in 5 % of cases."""

    mean: float
    high: float


class Accuracy(NamedTuple):
    """How often predictions are right.

    Attributes
    ----------
    per_class : the share of each class that is recognised.
    pooled : the share of all scans that is.
    balanced : the mean over the classes.
    """

    per_class: dict[str, float]
    pooled: float
    balanced: float


def accuracy(predictions: Predictions, labels: Sequence[str]) -> Accuracy:
    """Return how often the likeliest class is the right one."""
    classes = np.array(predictions.classes)
    if len(labels) != len(predictions.probabilities) or set(labels) != set(predictions.classes):
        raise InvalidValueError("labels must be those of the scans and classes that were predicted")
    truth = np.array(labels)
    right = classes[predictions.probabilities.argmax(axis=1)] == truth
    per_class = {name: float(right[truth == name].mean()) for name in predictions.classes}
    balanced = float(np.mean(list(per_class.values())))
    return Accuracy(per_class, float(right.mean()), balanced)


def entropy(probabilities: ArrayLike) -> FloatArray:
    """Return the entropy of each row of (scans, classes), in bits."""
    bits: FloatArray = special.entr(_shares(probabilities)).sum(axis=1) / np.log(2)
    return bits


def confidence(probabilities: ArrayLike) -> FloatArray:
    """Return the largest of each row of (scans, classes)."""
    largest: FloatArray = _shares(probabilities).max(axis=1)
    return largest


def paired_t(one: ArrayLike, other: ArrayLike) -> TestResult:
    """Test, two-sided, whether the mean of `one` - `other` is zero; p = 1 for fewer than two."""
    a = real_array(one, "one", None)
    b = real_array(other, "other", a.size)
    if a.size < 2:
        return NOTHING
    apart = a - b
    error = float(np.sqrt(apart.var(ddof=1) / a.size))
    size = float(max(np.abs(a).max(), np.abs(b).max()))
    return t_test(float(apart.mean()), error, a.size - 1, size, two_sided=True)


def _shares(probabilities: ArrayLike) -> FloatArray:
    given = real_array(probabilities, "probabilities", None, None)
    if given.size == 0 or (given < 0).any() or np.abs(given.sum(axis=1) - 1).max() > 1e-6:
        raise InvalidValueError("probabilities must not be negative, and sum to 1 in each row")
    return given
