"""Joint histograms: what they count, and how finely."""

from collections import Counter

import numpy as np
import pytest

from ndflow import DegenerateDataError
from ndflow.density.condense import joint_histogram


def normal(count, d, seed=0):
    return np.random.default_rng(seed).normal(size=(count, d))


def by_hand(voxels, joint):
    """Count voxels in the cells of a histogram, one by one."""
    places = np.floor((voxels - joint.origin) / joint.widths)
    return Counter(map(tuple, (joint.origin + (places + 0.5) * joint.widths).tolist()))


@pytest.mark.parametrize("d", [2, 3, 9])  # nine have more cells than an integer can count
def test_cells_hold_every_voxel_and_are_no_more_than_allowed(d):
    voxels = normal(5000, d)
    joint = joint_histogram(voxels, most=800)
    assert len(joint.counts) <= 800
    assert by_hand(voxels, joint) == Counter(
        dict(zip(map(tuple, joint.values.tolist()), joint.counts, strict=True))
    )


def test_bins_are_as_narrow_as_the_limit_allows():
    voxels = normal(20_000, 2)
    joint = joint_histogram(voxels, most=2000)
    finer = np.floor(voxels / (joint.widths * [0.5, 1.0]))
    assert len(np.unique(finer, axis=0)) > 2000


def test_wider_bins_of_integers_hold_whole_levels_only():
    voxels = np.random.default_rng(0).integers(-150, 600, size=(20_000, 2))
    joint = joint_histogram(voxels, most=1000)
    assert len(joint.counts) <= 1000
    edges = (voxels - joint.origin) / joint.widths
    assert np.abs(edges - np.rint(edges)).min() > 0.01
    assert (np.log2(joint.widths) == np.rint(np.log2(joint.widths))).all()
    assert (joint.widths > 1).all()


def test_outliers_and_voxels_that_are_not_finite_do_not_count():
    voxels = normal(1000, 2)
    voxels[0, 1], voxels[1, 0] = np.nan, 1e30
    assert joint_histogram(voxels).total == 998


def test_errors_say_what_is_wrong():
    with pytest.raises(DegenerateDataError, match="are 7"):
        joint_histogram(np.column_stack([np.arange(10.0), np.full(10, 7.0)]))
    with pytest.raises(DegenerateDataError, match="no voxel"):
        joint_histogram(np.full((3, 2), np.nan))
