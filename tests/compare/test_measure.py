"""Sampling voxels from a grid."""

import numpy as np
import pytest

from ndflow.compare.measure import _lattice


@pytest.mark.parametrize("shape", [(192, 208, 192), (160, 200, 200), (91, 109, 91), (7, 5, 3)])
def test_voxels_are_taken_from_everywhere_in_the_grid(shape: tuple[int, ...]) -> None:
    places = np.indices(shape).reshape(3, -1)
    number = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    kept = _lattice(number).astype(int)
    assert min(2000, number.size) <= kept.size <= 40_000
    for axis, length in enumerate(shape):
        found = np.unique(places[axis][kept])
        assert found[0] <= length // 20 + 2
        assert found[-1] >= length - length // 20 - 3
        assert np.diff(found).max() <= length // 20 + 1
