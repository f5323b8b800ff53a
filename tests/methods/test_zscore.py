"""`zscore`: the mean and the standard deviation of the voxels, joined by a straight line."""

import numpy as np
from every_method import LANDMARK_METHODS, measure
from phantoms import head

import ndflow
from ndflow import GaussianMixture
from ndflow.options import Options

SCAN = head(0)


def test_mean_and_standard_deviation_are_those_of_the_voxels() -> None:
    voxels = SCAN[SCAN != 0]
    found = measure("zscore", ndflow.histogram(voxels)).values
    np.testing.assert_allclose(found, [voxels.mean(), voxels.mean() + voxels.std()], rtol=1e-12)


def test_those_of_a_density_have_a_closed_form() -> None:
    # Mean ¾·3 − ¼, variance ¼·¼ + ¾·1 + ¼·¾·4².
    mixture = GaussianMixture([0.25, 0.75], [-1.0, 3.0], [4.0, 1.0])
    found = LANDMARK_METHODS["zscore"].landmarks_of_density(mixture, Options(method="zscore"))
    assert found is not None
    np.testing.assert_allclose(found, [2.0, 2.0 + np.sqrt(3.8125)])


def test_a_scan_becomes_its_z_scores() -> None:
    reference = ndflow.reference([SCAN, 3 * SCAN], method="zscore")
    inside = SCAN != 0
    voxels = SCAN[inside]
    result = ndflow.normalise(SCAN, reference, method="zscore").image[inside]
    np.testing.assert_allclose(result, (voxels - voxels.mean()) / voxels.std(), atol=1e-5)
