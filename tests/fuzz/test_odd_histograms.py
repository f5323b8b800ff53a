"""Odd intensities: spikes, two values, gaps, heavy tails, tiny and huge scales."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzz.conftest import Fuzz, typed_in
from numpy.random import Generator
from numpy.typing import NDArray
from phantoms import nifti, voxels_of

import ndflow

SHAPE = (11, 12, 10)
COUNT = 11 * 12 * 10
TARGET = ndflow.GaussianMixture([0.3, 0.4, 0.3], [20.0, 60.0, 95.0], [0.04, 0.04, 0.04])

KINDS: dict[str, Callable[[Generator], Any]] = {
    "normal": lambda g: g.normal(100, 10, COUNT),
    "spike": lambda g: np.where(g.random(COUNT) < 0.9, 50.0, g.normal(100, 10, COUNT)),
    "two values": lambda g: g.choice([3.0, 8.0], COUNT),
    "negative": lambda g: -np.abs(g.normal(500, 100, COUNT)),
    "around zero": lambda g: g.normal(0, 5, COUNT),
    "uniform": lambda g: g.random(COUNT),
    "cauchy": lambda g: g.standard_cauchy(COUNT),
    "constant": lambda g: np.full(COUNT, 7.0),
    "one outlier": lambda g: np.r_[np.full(COUNT - 1, 7.0), g.choice([8.0, 1e6, -1e12, 1e300])],
    "few outliers": lambda g: np.r_[g.normal(100, 5, COUNT - 3), 1e9, -1e9, 1e12],
    "far-away modes": lambda g: (
        np.where(g.random(COUNT) < 0.5, 1e-3, 1e6) * g.normal(1, 0.1, COUNT)
    ),
    "binary steps": lambda g: 2.0 ** g.integers(-40, 40, COUNT),
    "not finite": lambda g: np.where(
        g.random(COUNT) < 0.1, g.choice([np.nan, np.inf]), g.random(COUNT)
    ),
    "few voxels": lambda g: np.where(np.arange(COUNT) < g.integers(0, 12), g.random(COUNT), 0.0),
}
PLAIN = ("normal", "negative", "around zero", "uniform")
TYPES = ["f8", "f8", "f4", "i2", "u1", "i4", "u8", "i8"]


def drawn(random: Random) -> tuple[NDArray[Any], bool]:
    """Return an odd image, of any scale and type, and whether it is a plain one after all."""
    generator = np.random.default_rng(random.getrandbits(32))
    kind = random.choice(sorted(KINDS))
    values = KINDS[kind](generator)
    dtype = np.dtype(random.choice(TYPES))
    scales = [1.0, -1.0, 10.0 ** random.randint(-30, 30)]
    scale = random.choice(scales if dtype.kind == "f" else [1.0, 10.0])
    offset = random.choice([0.0, 0.0, 0.0, 1e3, -1e6])
    with np.errstate(all="ignore"):
        values = values * scale + offset
        if dtype.kind != "f":
            limits = np.iinfo(dtype)
            values = np.clip(np.nan_to_num(values), float(limits.min) / 2, float(limits.max) / 2)
        plain = kind in PLAIN and dtype.kind == "f" and offset == 0
        return values.astype(dtype).reshape(SHAPE), plain


def normalised(random: Random, folder: Path) -> bool:
    voxels, plain = drawn(random)
    image, out, target = folder / "x.nii", folder / "out.nii", folder / "target.json"
    image.write_bytes(nifti(voxels))
    ndflow.save(target, TARGET)
    ran = typed_in(image, "normalise", image, "--to", target, "-o", out, "--dtype", "float64")
    assert out.exists() == (ran.code == 0)
    if ran.code:
        assert not plain, "refused, though nothing is wrong with it"
        return False
    check_order(voxels, voxels_of(out))
    return True


def check_order(voxels: NDArray[Any], found: NDArray[Any]) -> None:
    """Check that voxels keep their order, stay finite, and that 0 outside stays 0."""
    finite = np.isfinite(voxels)
    assert np.isfinite(found[finite]).all()
    assert np.array_equal(found[~finite], voxels[~finite], equal_nan=True)
    assert not found[voxels == 0].any()
    used = finite & (voxels != 0)
    order = np.argsort(voxels[used], kind="stable")
    before, after = voxels[used][order], found[used][order]
    slack = 1e-9 * np.abs(after).max()
    assert (np.diff(after) >= -slack).all(), "the order of intensities has changed"
    same = np.diff(before) == 0
    assert not np.diff(after)[same].any(), "equal intensities have become different"
    middle = float(np.median(after))
    assert -500 < middle < 700, f"the median is {middle}, far from the target"


def test_odd_histograms(fuzz: Fuzz) -> None:
    fuzz(normalised, 30)
