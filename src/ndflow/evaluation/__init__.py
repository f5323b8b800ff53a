"""How good a normalisation is: measures on the intensities of scans, without any file."""

from ndflow.evaluation.centres import between, pairwise, within
from ndflow.evaluation.classification import chance, classify, folds
from ndflow.evaluation.covariate import Effect, effect
from ndflow.evaluation.empirical import Empirical, average, empirical
from ndflow.evaluation.fitness import SHARES, Fitness, Smoothness, fitness, smoothness
from ndflow.evaluation.predictions import (
    Accuracy,
    Chance,
    Predictions,
    accuracy,
    confidence,
    entropy,
    paired_t,
)
from ndflow.evaluation.repeats import Repeats, repeats
from ndflow.evaluation.student import Test
from ndflow.evaluation.tissue import (
    Cell,
    brown_forsythe,
    holm,
    quartiles,
    table,
    weighted_quantile,
)

__all__ = [
    "SHARES",
    "Accuracy",
    "Cell",
    "Chance",
    "Effect",
    "Empirical",
    "Fitness",
    "Predictions",
    "Repeats",
    "Smoothness",
    "Test",
    "accuracy",
    "average",
    "between",
    "brown_forsythe",
    "chance",
    "classify",
    "confidence",
    "effect",
    "empirical",
    "entropy",
    "fitness",
    "folds",
    "holm",
    "paired_t",
    "pairwise",
    "quartiles",
    "repeats",
    "smoothness",
    "table",
    "weighted_quantile",
    "within",
]
