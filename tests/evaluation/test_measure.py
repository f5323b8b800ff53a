"""Sampling voxels from a grid, and sorting them once for all conditions."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ndflow.evaluation.measure import _lattice, _levels, _measured
from ndflow.study.plan import ResultPaths


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


@pytest.mark.parametrize("change", [np.exp, np.rint, np.negative, np.cumsum])
def test_voxels_are_sorted_again_where_their_order_has_changed(
    change: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> None:
    generator = np.random.default_rng(0)
    before = generator.integers(0, 40, 500) / 10
    shares = generator.dirichlet(np.ones(3), 500).T
    tissues = [*shares]
    paths = ResultPaths(*map(Path, "abcd"))
    after = change(before)
    found = _measured(after, _levels(before, tissues), tissues, None, paths)
    assert found.distribution.mean() == pytest.approx(after.mean(), rel=0.02)
    weighted = [(np.average(after, weights=share), share) for share in shares]
    spread = [np.sqrt(np.average((after - m) ** 2, weights=share)) for m, share in weighted]
    truth = np.column_stack([[m for m, _ in weighted], spread])
    assert found.moments == pytest.approx(truth)
