"""Contrast and separability against voxels repeated one by one, and the area under a ROC curve."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from ndflow.errors import InvalidValueError
from ndflow.metrics.tissue_contrast import separability, weighted_moments


def test_moments_are_those_of_voxels_repeated_as_often_as_they_weigh():
    generator = np.random.default_rng(0)
    values, weights = generator.normal(5, 2, 50), generator.integers(0, 9, 50)
    repeated = np.repeat(values, weights)
    assert weighted_moments(values, weights) == pytest.approx((repeated.mean(), repeated.std()))
    for wrong in ([-1.0, 2.0], [0.0, 0.0]):
        with pytest.raises(InvalidValueError, match="weights"):
            weighted_moments([1.0, 2.0], wrong)


def test_gaussians_d_prime_apart_have_the_area_under_the_curve_of_signal_detection():
    generator = np.random.default_rng(1)
    gm, wm = generator.normal(3, 1, 20_000), generator.normal(5, 2, 20_000)
    found = separability(*(weighted_moments(one, np.ones(one.size)) for one in (wm, gm)))
    area = roc_auc_score(np.repeat([0, 1], 20_000), np.concatenate([gm, wm]))
    assert stats.norm.cdf(found / np.sqrt(2)) == pytest.approx(area, abs=0.01)


def test_straight_lines_change_nothing_and_scans_are_taken_one_by_one():
    wm, gm = np.array([[5.0, 1.0], [50.0, 10.0]]), np.array([[3.0, 1.0], [20.0, 30.0]])
    found = separability(wm, gm)
    assert found == pytest.approx([2.0, 30 / np.sqrt(500)])
    assert separability(wm * 7 + [4, 0], gm * 7 + [4, 0]) == pytest.approx(found)
    assert separability(-wm, -gm) == pytest.approx(found)
    assert separability([2.0, 0.0], [1.0, 0.0]) == np.inf
