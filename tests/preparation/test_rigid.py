"""Rigid alignment: a brain that was moved comes back."""

import numpy as np
import pytest
from nibabel.eulerangles import euler2mat

from ndflow.preparation.registration import (
    aligned_copy,
    halved_anatomy,
    interpolated,
    resampled,
    template_grid,
)

pytestmark = pytest.mark.slow

pytest.importorskip("picsl_greedy")

MOVED = np.eye(4)  # from the template to the scan
MOVED[:3, :3] = euler2mat(0.15, -0.1, 0.2)
MOVED[:3, 3] = (12.0, -8.0, 15.0)


def moved_brain():
    """Return the template brain, moved, on a grid of its own."""
    anatomy = halved_anatomy()
    affine = np.diag([2.0, 2.2, 2.1, 1.0])
    affine[:3, 3] = (-95, -140, -90)
    shape = (105, 115, 100)
    here = np.linalg.inv(MOVED) @ affine  # the voxels of the scan, in the template

    def at(part):
        return interpolated(part, anatomy.affine, shape, here)

    return at(anatomy.t1), at(anatomy.brain) > 0.5, affine


def test_a_moved_brain_comes_back():
    t1, brain, affine = moved_brain()
    values = np.where(brain, 1000 * t1, 0)
    copy = aligned_copy(values, affine, brain, resolution=2)
    matrix, grid = copy.matrix, copy.grid
    np.testing.assert_allclose(matrix[:3, :3] @ matrix[:3, :3].T, np.eye(3), atol=1e-6)
    corners = np.array([[-60, -90, -40, 1], [60, 60, 70, 1], [0, 0, 0, 1], [-50, 60, 10, 1]]).T
    np.testing.assert_allclose((matrix @ corners)[:3], (MOVED @ corners)[:3], atol=1.0)  # mm
    anatomy = halved_anatomy()
    truth = 1000 * interpolated(anatomy.t1, anatomy.affine, grid.shape, grid.affine)
    inside = interpolated(anatomy.brain, anatomy.affine, grid.shape, grid.affine) > 0.99
    assert np.corrcoef(copy.image[inside], truth[inside])[0, 1] > 0.95
    assert copy.image.min() >= 0
    assert copy.image.max() <= values.max()
    assert copy.overlap > 0.95


def test_nothing_is_aliased():
    """Stripes finer than the new voxels become their mean."""
    stripes = np.zeros((60, 60, 60), np.float32)
    stripes[::2] = 100
    affine = np.eye(4)
    affine[:3, 3] = -30
    grid = template_grid(3)
    copy = resampled(stripes, affine, np.eye(4), grid, order=1)
    where = np.indices(grid.shape)
    mm = np.tensordot(grid.affine[:3, :3], where, 1) + grid.affine[:3, 3, None, None, None]
    deep = (np.abs(mm) < 20).all(axis=0)
    assert deep.sum() > 100
    np.testing.assert_allclose(copy[deep], 50, atol=3)
