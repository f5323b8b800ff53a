"""How far densities are from each other, and which of them are too far."""

import numpy as np
import pytest
from scipy.stats import norm

from ndflow.density import GaussianMixture
from ndflow.subject.doubts import (
    density_distance,
    far_from,
    unlike_others,
    unlike_reference,
)

BRAIN = GaussianMixture([0.2, 0.45, 0.35], [30.0, 70.0, 100.0], [0.02, 0.02, 0.05])
GAUSSIAN = GaussianMixture([1.0], [5.0], [0.25])


def brain(grey: float) -> GaussianMixture:
    return GaussianMixture([0.2, 0.45, 0.35], [30.0, grey, 100.0], [0.02, 0.02, 0.05])


def test_the_distance_is_the_mean_difference_of_aligned_quantiles():
    far_apart = GaussianMixture([0.5, 0.5], [-100.0, 100.0], [1e4, 1e4])  # aligned: ±1
    levels = np.arange(1, 200) / 200
    exact = np.abs(np.abs(norm.ppf(levels)) - 1).mean()
    # At ½, the quantile may be either end.
    assert density_distance(GAUSSIAN, far_apart) == pytest.approx(exact, abs=6e-3)


def test_an_inverted_contrast_is_unlike_the_reference():
    (doubt,) = unlike_reference(BRAIN.transformed([[-1.0]], [200.0]), BRAIN)
    assert doubt.kind == "unlike the reference"


def test_the_odd_one_out_is_found_and_no_other():
    alike = [brain(grey) for grey in (68.0, 69.0, 70.0, 71.0, 72.0)]
    odd = BRAIN.transformed([[-1.0]], [200.0])
    found = unlike_others([*alike, odd])
    assert [bool(own) for own in found] == [False] * 5 + [True]
    assert found[-1][0].kind == "unlike the others"
    assert not any(unlike_others([*alike, brain(73.0)]))


@pytest.mark.parametrize(("value", "away"), [(0.71, 0.0), (0.9, 0.3), (0.3, -0.3)])
def test_far_means_many_spreads_and_not_just_a_little(value: float, away: float):
    values = np.array([0.57, 0.58, 0.6, 0.6, 0.62, 0.63, value])
    assert far_from(values, least=0.1)[-1] == pytest.approx(away)
    assert not far_from(values, least=0.5).any()
