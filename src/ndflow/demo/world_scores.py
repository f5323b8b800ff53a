"""How well maps recover the truth of a simulated world.

All are in true intensities, so they do not depend on the scale that a method happens to choose. A
value y of the normalised scans means ``c̄(y)``, the mean over scans of the true intensities that
have this value (`ndflow.demo.recovery`).

- *spread*: by how much true intensities differ between scans where normalised values are the same,
  in standard deviations of the true intensities.
- *age*: the medians of CSF, GM and WM, as ``c̄`` of their normalised values, and as they truly are,
  are regressed on age over all scans. The score is the root mean square, over tissues, of the
  difference of both slopes, in standard deviations per decade. Where people of different ages were
  scanned at different sites, scanners look like age; and maps that make all scans alike remove it.
- *lesion*: the contrast of lesions with WM, relative to the true contrast; the root mean square of
  how far that is from 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ndflow.demo.dataset import Truth
from ndflow.demo.recovery import recovery_of
from ndflow.demo.worlds import World, WorldScan
from ndflow.metrics.tissue_quartiles import weighted_quantile
from ndflow.preparation.working_grid import Map
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray

__all__ = ["WorldScores", "world_scores"]

_LEVELS = np.linspace(0.01, 0.99, 99)
_FEWEST = 5  # voxels of a lesion
_CSF, _GM, _WM = range(3)


class WorldScores(NamedTuple):
    """How well maps recover the truth; 0 is perfect. See the module.

    Attributes
    ----------
    spread : between scans, at the same normalised value.
    age : the error of the effect of age.
    lesion : the error of the contrast of lesions; NaN in a world without any.
    """

    spread: float
    age: float
    lesion: float


def world_scores(world: World, maps: Mapping[str, IntensityMap]) -> WorldScores:
    """Return how well maps recover the truth of a world.

    Parameters
    ----------
    world : the study.
    maps : the intensity map that normalises each scan, by its name.
    """
    truths = {scan.name: _truth(scan) for scan in world.scans}
    spread = recovery_of(maps, truths).spread
    sd = float(np.mean([truth.canonical for truth in truths.values()], axis=0).std())

    def meaning(values: FloatArray) -> FloatArray:
        """Return c̄ of normalised values."""
        total = np.zeros(values.shape)
        for name, imap in maps.items():
            total += truths[name].curve.inverse()(imap.inverse()(values))
        return total / len(maps)

    medians = np.array([_medians(scan, scan.values) for scan in world.scans])
    shown = np.array([maps[scan.name](own) for scan, own in zip(world.scans, medians, strict=True)])
    true = np.array([_medians(scan, scan.canonical) for scan in world.scans])
    found = meaning(shown.ravel()).reshape(shown.shape)
    decades = np.array([scan.age for scan in world.scans]) / 10
    errors = (_slopes(decades, found) - _slopes(decades, true)) / sd
    return WorldScores(
        spread,
        float(np.sqrt((errors**2).mean())),
        _lesion_error(world, maps, found[:, _WM], true[:, _WM], meaning),
    )


def _truth(scan: WorldScan) -> Truth:
    brain = scan.canonical[np.isfinite(scan.canonical)].astype(np.float64)
    return Truth(scan.site, scan.curve, np.quantile(brain, _LEVELS), int(scan.lesion.sum()))


def _medians(scan: WorldScan, values: Map) -> FloatArray:
    """Return the medians of CSF, GM and WM, weighted by their probabilities, without lesions."""
    known = np.isfinite(values) & ~scan.lesion
    return np.array(
        [
            weighted_quantile(values[known], share[known], [0.5])[0]
            for share in scan.tissues.T.astype(np.float64)
        ]
    )


def _slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the least-squares slope of each column of y on x."""
    centred = x - x.mean()
    slopes: FloatArray = centred @ y / (centred @ centred)
    return slopes


def _lesion_error(
    world: World,
    maps: Mapping[str, IntensityMap],
    found_wm: FloatArray,
    true_wm: FloatArray,
    meaning: Callable[[FloatArray], FloatArray],
) -> float:
    errors = []
    for scan, found, true in zip(world.scans, found_wm, true_wm, strict=True):
        if np.count_nonzero(scan.lesion) < _FEWEST:
            continue
        shown = maps[scan.name](np.array([np.median(scan.values[scan.lesion])], np.float64))
        contrast = float(meaning(shown)[0]) - found
        errors.append(contrast / (float(np.median(scan.canonical[scan.lesion])) - true) - 1)
    return math.sqrt(float(np.mean(np.square(errors)))) if errors else math.nan
