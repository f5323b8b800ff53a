"""Maps in the history of a volume: repeated and undone, also where its grid has changed since."""

import numpy as np
import pytest

from ndflow.integrations.recorded_maps import apply_recorded, record_map
from ndflow.transport import Affine

SCAN = np.array([[0.0, 0.0, 5.0], [0.0, 2.0, 0.0]], np.float32)
INSIDE = np.array([[False, True, True], [False, True, True]])  # two zeros are inside
MAPPED = np.array([[0.0, 3.0, 13.0], [0.0, 7.0, 3.0]], np.float32)
RECORD = record_map(Affine(2.0, 3.0), SCAN, INSIDE)


def test_zeros_inside_the_mask_are_mapped_and_come_back() -> None:
    np.testing.assert_array_equal(apply_recorded(RECORD, SCAN), MAPPED)
    np.testing.assert_array_equal(apply_recorded(RECORD, MAPPED, inverse=True), SCAN)


@pytest.mark.parametrize("change", [np.flip, np.transpose, lambda one: np.pad(one, 2)])
def test_background_stays_0_where_voxels_have_moved_before_a_map_is_undone(change) -> None:
    undone = apply_recorded(RECORD, change(MAPPED), inverse=True)
    np.testing.assert_array_equal(undone, change(SCAN))


def test_zeros_of_a_volume_of_another_shape_stay_0() -> None:
    larger = np.pad(SCAN, 1)
    np.testing.assert_array_equal(apply_recorded(RECORD, larger), np.pad(MAPPED, 1) * (larger > 0))
