"""Scanners to draw from, without a study."""

import numpy as np

import ndflow
from ndflow.population import contrast_grid, scanner_maps


def some_scanners(seed: int = 0) -> ndflow.ScannerMaps:
    """Return the scanners of three sites that bend the contrast of the reference for T1w."""
    generator = np.random.default_rng(seed)
    reference = ndflow.builtin_reference("T1w").mixture
    grid = contrast_grid(reference)
    shapes = np.stack([np.sin(grid), np.cos(grid), np.sin(2 * grid)])
    sites = {name: generator.normal(0, 0.4, 3) for name in ("Aachen", "Bonn", "Celle")}
    names = [name for name in sites for _ in range(4)]
    curves = [(sites[name] + generator.normal(0, 0.1, 3)) @ shapes for name in names]
    return scanner_maps(reference, grid, curves, names, channel="T1w")
