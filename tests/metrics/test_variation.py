"""The coefficient of variation, against scipy and under changes of units."""

import numpy as np
import pytest
from scipy import stats

from ndflow.metrics.variation import coefficient_of_variation


def test_it_is_that_of_scipy_and_units_do_not_matter_if_the_zero_is_the_same():
    values = np.random.default_rng(0).uniform(400, 900, 30)
    truth = stats.variation(values, ddof=1)
    assert coefficient_of_variation(values, 0.0) == pytest.approx(truth)
    mean, sd = values.mean(), 3.7
    assert coefficient_of_variation((values - mean) / sd, -mean / sd) == pytest.approx(truth)
    assert coefficient_of_variation(values + 500, 0.0) < truth  # so the zero has to be named


def test_values_that_do_not_lie_above_zero_have_none():
    assert coefficient_of_variation([-1.0, 0.0, 1.0], 0.0) is None
    assert coefficient_of_variation([1.0], 0.0) is None
