"""How long the mathematics takes for one scan, beside decompressing that scan.

A synthetic brain at 1 mm: 182 × 218 × 182 voxels of int16, about two million of them brain with
some thousand grey levels. The yardstick is reading its .nii.gz with the standard library, because
nobody gets around that: once with zeros around the brain, and once with a head and noisy air there,
as scanners deliver it. Everything is measured in one run, in turns, as ratios to both.

    python benchmarks/pipeline.py [repetitions]
"""

from __future__ import annotations

import gzip
import io
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import ndflow

SHAPE = (182, 218, 182)
BRAIN = ndflow.GaussianMixture(  # fluid, grey matter, partial volume, white matter, a bright tail
    [0.14, 0.40, 0.17, 0.27, 0.02],
    [360.0, 670.0, 820.0, 960.0, 1150.0],
    np.array([105.0, 80.0, 62.0, 45.0, 85.0]) ** -2,
)
REFERENCE = ndflow.GaussianMixture(
    [0.16, 0.42, 0.15, 0.25, 0.02],
    [-2.0, -0.2, 0.65, 1.2, 2.1],
    np.array([0.5, 0.38, 0.25, 0.2, 0.5]) ** -2,
)


def brain(generator: np.random.Generator) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
    """An ellipsoid of tissue in which neighbours are alike, as in a real scan, and its mask."""
    grid = np.meshgrid(*(np.linspace(-1, 1, n) for n in SHAPE), indexing="ij", sparse=True)
    mask = grid[0] ** 2 / 0.62 + grid[1] ** 2 / 0.72 + grid[2] ** 2 / 0.55 < 1
    field = generator.standard_normal(SHAPE)
    for axis in range(3):
        field = field + np.roll(field, 1, axis) + np.roll(field, -1, axis)
    score = field[mask].argsort().argsort() / mask.sum()
    levels = BRAIN.quantile(np.linspace(0.0005, 0.9995, 4096))
    volume = np.zeros(SHAPE, dtype=np.int16)
    volume[mask] = np.rint(levels[(score * 4096).astype(int)]).astype(np.int16)
    return volume, mask


def with_head(
    volume: NDArray[np.int16], mask: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.int16]:
    """The same brain with soft tissue around it, and the noise of air around that."""
    grid = np.meshgrid(*(np.linspace(-1, 1, n) for n in SHAPE), indexing="ij", sparse=True)
    head = grid[0] ** 2 / 0.9 + grid[1] ** 2 / 0.98 + grid[2] ** 2 / 0.85 < 1
    noise = np.hypot(*generator.normal(0, 9, (2, *SHAPE)))
    tissue = 300 + 120 * generator.standard_normal(SHAPE)
    around = np.where(head, np.maximum(tissue, 0), noise)
    return np.where(mask, volume, np.rint(around).astype(np.int16))


def main(repetitions: int = 7) -> None:
    generator = np.random.default_rng(0)
    volume, mask = brain(generator)
    levels = len(np.unique(volume[mask]))
    packed, packed_head = (
        gzip.compress(v.tobytes(), compresslevel=6, mtime=0)
        for v in (volume, with_head(volume, mask, generator))
    )
    print(
        f"{mask.sum():,} brain voxels, {levels} grey levels, "
        f"{len(packed) / 1e6:.1f} MB packed, {len(packed_head) / 1e6:.1f} MB with the head"
    )

    histogram = ndflow.histogram(volume, mask)
    mixture = ndflow.fit(histogram).mixture
    imap = ndflow.normalising_map(mixture, REFERENCE)
    low, high = histogram.values[[0, -1], 0].tolist()
    parts: dict[str, Callable[[], object]] = {
        "decompress, brain only": lambda: gzip.GzipFile(fileobj=io.BytesIO(packed)).read(),
        "decompress, whole head": lambda: gzip.GzipFile(fileobj=io.BytesIO(packed_head)).read(),
        "histogram": lambda: ndflow.histogram(volume, mask),
        "fit": lambda: ndflow.fit(histogram),
        "match": lambda: ndflow.normalising_map(mixture, REFERENCE),
        "tabulated map": lambda: ndflow.tabulate(imap, low, high),
    }
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(repetitions):
        for name, part in parts.items():
            begin = time.process_time()
            part()
            times[name].append(time.process_time() - begin)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    brain_only, whole_head, *rest = medians.values()
    rows = [*medians.items(), ("mathematics together", sum(rest))]
    for name, seconds in rows:
        ratios = f"{seconds / brain_only:6.2f} {seconds / whole_head:6.2f}"
        print(f"{name:24} {1e3 * seconds:7.1f} ms  {ratios}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
