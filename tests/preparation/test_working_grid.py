"""The working grid: the same brain, whatever the orientation and resolution of the scan."""

import numpy as np
import pytest
from nibabel.eulerangles import euler2mat

from ndflow.preparation.registration import RESOLUTION, interpolated, voxel_sizes, working_grid

SLOPE = np.array([0.7, -0.4, 1.1])  # of a ramp in space, per mm


def oblique(spacing):
    affine = np.eye(4)
    affine[:3, :3] = euler2mat(0.2, -0.1, 0.3) @ np.diag(spacing)
    affine[:3, :3] = affine[:3, [2, 0, 1]] @ np.diag([-1.0, 1.0, 1.0])
    affine[:3, 3] = (-31.0, 12.0, 5.0)
    return affine


def places(shape, affine):
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    return grid @ affine[:3, :3].T + affine[:3, 3]


def ramp_scan(affine, shape=(40, 44, 48)):
    """Return a ball of intensities that rise evenly in space."""
    where = places(shape, affine)
    centre = where[tuple(length // 2 for length in shape)]
    brain = np.linalg.norm(where - centre, axis=-1) < 16
    return (1000 + where @ SLOPE).astype(np.float32), brain, centre


@pytest.mark.parametrize("spacing", [(1.0, 1.33, 1.33), (2.0, 2.0, 2.0)])
def test_intensities_stay_where_they_are_in_space(spacing):
    affine = oblique(spacing)
    values, brain, centre = ramp_scan(affine)
    coarse = working_grid(values, affine, brain)
    where = places(coarse.brain.shape, coarse.affine)
    deep = np.linalg.norm(where - centre, axis=-1) < 10
    assert deep.sum() > 400
    assert coarse.brain[deep].all()
    np.testing.assert_allclose(coarse.values[deep], (1000 + where @ SLOPE)[deep], atol=0.1)
    assert np.diag(coarse.affine)[:3] == pytest.approx([RESOLUTION] * 3)


def test_the_brain_keeps_its_volume_and_its_edge_is_not_darkened():
    affine = oblique((1.0, 1.1, 0.9))
    _, brain, _ = ramp_scan(affine)
    coarse = working_grid(np.where(brain, np.float32(7), np.float32(0)), affine, brain)
    truth = brain.sum() * np.prod(voxel_sizes(affine))
    assert coarse.brain.sum() * RESOLUTION**3 == pytest.approx(truth, rel=0.02)
    np.testing.assert_allclose(coarse.values[coarse.brain], 7, rtol=1e-5)
    assert not coarse.values[~coarse.brain].any()


def test_maps_return_to_the_scan():
    affine = oblique((1.0, 1.2, 1.4))
    _, brain, _ = ramp_scan(affine)
    coarse = working_grid(np.ones(brain.shape, np.float32), affine, brain)
    ramp = (5 + places(coarse.brain.shape, coarse.affine) @ SLOPE).astype(np.float32)
    here = interpolated(ramp, coarse.affine, brain.shape, affine)
    truth = 5 + places(brain.shape, affine) @ SLOPE
    np.testing.assert_allclose(here[brain], truth[brain], atol=1e-3)
