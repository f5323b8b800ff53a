"""What a forest predicts."""

import numpy as np
import pytest

from ndflow.metrics.random_forest import forest_probabilities


def test_sites_that_differ_are_recognised_and_noise_is_not():
    labels = np.repeat([*"abc"], 20)
    features = np.random.default_rng(0).normal(size=(60, 6))
    for shift, least, most in ((3, 0.9, 1), (0, 0.1, 0.6)):
        table = features + shift * np.repeat(np.arange(3), 20)[:, None]
        found = forest_probabilities((table[::2], table[1::2]), labels[::2], 0, 50)
        assert found.sum(axis=1) == pytest.approx(np.ones(30))
        right = np.array([*"abc"])[found.argmax(axis=1)] == labels[1::2]
        assert least < right.mean() <= most
