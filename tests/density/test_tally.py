"""Counting in a table gives exactly the histogram of all voxels at once."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

import ndflow
from ndflow.density.histogram import tally

TYPES = [*(kind + size for kind in "iu" for size in "1248"), "?", "f2", "f4", "f8", ">i2", ">f4"]
scales = st.sampled_from([(1.0, 0.0), (0.25, -3.0), (-0.37, 1024.0), (1e-3, 7.0)])


def counted(voxels: NDArray[Any], length: int, slope: float = 1, inter: float = 0) -> Any:
    pieces = [voxels[start : start + length] for start in range(0, voxels.size, length)]
    return tally(lambda: iter(pieces), slope=slope, inter=inter)


@given(
    st.sampled_from(TYPES).flatmap(
        lambda kind: hnp.arrays(
            np.dtype(kind),
            st.integers(1, 80),
            elements={"allow_nan": False, "allow_infinity": False} if "f" in kind else None,
        )
    ),
    st.integers(1, 90),
)
def test_chunks_are_counted_like_all_voxels_at_once(voxels: NDArray[Any], length: int) -> None:
    assert counted(voxels, length) == ndflow.histogram(voxels)


@pytest.mark.parametrize("kind", ["i2", "u2", "i4", "whole f4", "f4", "f8", "wide i4"])
@given(scale=scales, seed=st.integers(0, 2**32 - 1))
def test_many_levels_fall_into_the_same_bins(
    kind: str, scale: tuple[float, float], seed: int
) -> None:
    generator = np.random.default_rng(seed)
    values = generator.normal(0, 4000, 60_000) * generator.choice([1, 3])
    voxels: NDArray[Any] = values.astype("f8" if kind == "f8" else "f4")
    if kind != "f4" and kind != "f8":
        voxels = np.rint(np.clip(np.abs(values), 0, 32000))
        voxels = voxels.astype("f4") if kind == "whole f4" else voxels.astype(kind.split()[-1])
    if kind == "wide i4":
        voxels = voxels * np.int32(60_000)
    slope, inter = scale
    expected = ndflow.histogram(voxels, slope=slope, inter=inter)
    assert counted(voxels, 7000, slope, inter) == expected


def test_one_outlier_costs_neither_the_resolution_nor_the_count() -> None:
    voxels = np.random.default_rng(0).normal(0, 1, 40_000)
    voxels[17] = 1e30
    assert counted(voxels, 5000) == ndflow.histogram(voxels)


def test_a_table_is_really_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above would compare the slow path with itself."""
    generator = np.random.default_rng(0)
    floats, integers = generator.normal(0, 1, 40_000), generator.integers(0, 900, 5000, "i2")
    expected = [ndflow.histogram(voxels) for voxels in (floats, integers, integers.astype("f4"))]
    by_level = ndflow.histogram

    def refused(voxels: Any, **options: Any) -> Any:
        assert "weights" in options, "voxels were sorted"
        return by_level(voxels, **options)

    monkeypatch.setattr(import_module("ndflow.density.histogram"), "histogram", refused)
    for voxels, truth in zip((floats, integers, integers.astype("f4")), expected, strict=True):
        assert counted(voxels, 3000) == truth


def test_without_voxels_there_is_no_histogram() -> None:
    for kind in TYPES:
        assert tally(lambda kind=kind: [np.zeros(0, kind)] * 2) is None
    assert tally(list) is None
