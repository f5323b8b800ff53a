"""Rigid alignment: a brain that was moved comes back."""

import numpy as np
import pytest
from nibabel.eulerangles import euler2mat
from scipy import ndimage

from ndflow.preparation.registration import (
    Grid,
    aligned_copy,
    halved_anatomy,
    interpolated,
    moved_channel,
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


@pytest.mark.parametrize("seen", [1.0, 0.7])
def test_another_contrast_comes_back_where_it_shows_the_brain(seen):
    """On thick slices, oblique, brighter where the scan is darker; two runs give the same bytes."""
    t1, brain, affine = moved_brain()
    anatomy, shape = halved_anatomy(), (100, 120, int(50 * seen))
    place = np.diag([-2.0, 2.0, 4.0, 1.0])
    place[:3, :3] = euler2mat(0.05, 0.1, -0.1) @ place[:3, :3]
    place[:3, 3] = -place[:3, :3] @ [50, 60, 25] + [0, -18, 10]
    whole = interpolated(anatomy.brain, anatomy.affine, shape, place)
    other = 1000 * whole * np.exp(-interpolated(anatomy.t1, anatomy.affine, shape, place))
    grid = Grid(t1.shape, affine)
    (values, fit), (again, _) = (moved_channel(other, place, t1, grid, brain) for _ in range(2))
    np.testing.assert_array_equal(values, again)
    corners = np.array([[-60, -90, -40, 1], [60, 60, 70, 1], [0, 0, 0, 1], [-50, 60, 10, 1]]).T
    there = np.linalg.inv(MOVED) @ corners
    np.testing.assert_allclose((fit.matrix @ corners)[:3], there[:3], atol=0.5)  # mm
    assert fit.covered == pytest.approx(np.isfinite(values[brain]).mean())
    assert (fit.covered > 0.99) == (seen == 1.0)
    inside = ndimage.binary_erosion(brain & np.isfinite(values), iterations=3)
    truth = 1000 * np.exp(-t1[inside])
    assert np.corrcoef(values[inside], truth)[0, 1] > 0.9
    assert fit.likeness > 1.1


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
