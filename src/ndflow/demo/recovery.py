"""How well the scans of the demonstration agree after normalisation, where the truth is known.

The scanner of scan i turned canonical intensities c, common to all scanners, into those of the scan
by its curve f_i, and an intensity map n_i normalises the scan. So a voxel with the true intensity c
ends up at ``g_i(c) = n_i(f_i(c))``. In a perfect study all g_i are the same function.

Which function is a matter of taste: a common scale is only defined up to one increasing map φ for
all scans, whether it stretches WM or CSF. A fair measure does not change when every n_i is replaced
by φ ∘ n_i. Differences of g_i(c) between scans do change, with the local slope of φ. Hence the
comparison is made in true intensities. The voxels that have the value y after normalisation truly
have ``c_i(y) = g_i⁻¹(y)``, and ``c̄(y) = mean_i c_i(y)`` is what y means on average. With the 99
percentiles c_k of the canonical intensities, and the values y_k for which ``c̄(y_k) = c_k``,

    spread = rms_ik(c_i(y_k) − c_k) / sd(c).

In words: where all scans show the same value, by how much do their true intensities differ? A map φ
moves the y_k and cancels in ``(φ ∘ g_i)⁻¹(φ(y_k)) = g_i⁻¹(y_k)``, so the spread stays the same. If
scans only differ in gain, ``g_i(c) = s_i c``, it is ``sd(1/s) / mean(1/s) · rms(c) / sd(c)``.

The *error* depends on the scale: the mean over scans of the distance of g_i from a straight line,

    e_i = rms_k(g_i(c_k) − a − b c_k) / (b sd(c)),

where a + b c is fitted to the mean of all g_i. It tells how far the common scale is bent, compared
with the one that the demonstration happens to use; no method aims at that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ndflow.demo.dataset import Truth
from ndflow.errors import InvalidValueError
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray

__all__ = ["Recovery", "recovery_of"]

_HALVINGS = 60  # of the interval that holds y_k; more than double precision can resolve


class Recovery(NamedTuple):
    """How well scans agree, in units of the standard deviation of the canonical intensities.

    Attributes
    ----------
    spread : by how much true intensities differ between scans where normalised values are the same.
    error : the distance of normalised values from a straight line through the true intensities.
    """

    spread: float
    error: float


def recovery_of(maps: Mapping[str, IntensityMap], truths: Mapping[str, Truth]) -> Recovery:
    """Return how well intensity maps undo the contrast curves of the scanners.

    Parameters
    ----------
    maps : the intensity map that normalises each scan, by the name of the scan.
    truths : of these scans, and possibly of others.

    Returns
    -------
    Recovery
        The spread, 0 for maps that undo the curves in any common scale; and the error, 0 if that
        scale is also linear in the canonical intensities.
    """
    if not maps or not maps.keys() <= truths.keys():
        unknown = ", ".join(sorted(maps.keys() - truths.keys())) or "no scan at all"
        raise InvalidValueError(f"maps must be of scans of the demo, not of {unknown}")
    c = np.mean([truths[name].canonical for name in maps], axis=0)
    composites = np.array([imap(truths[name].curve(c)) for name, imap in maps.items()])
    slope, intercept = np.polyfit(c, composites.mean(axis=0), 1)
    errors = np.sqrt(((composites - intercept - slope * c) ** 2).mean(axis=1)) / (slope * c.std())
    differences = _true_intensities(maps, truths, c, composites) - c
    spread = np.sqrt((differences**2).mean()) / c.std()
    return Recovery(float(spread), float(errors.mean()))


def _true_intensities(
    maps: Mapping[str, IntensityMap],
    truths: Mapping[str, Truth],
    c: FloatArray,
    composites: FloatArray,
) -> FloatArray:
    """Return c_i(y_k) for all scans i, where y_k is such that their mean is c_k, by bisection."""
    ways_back = [(imap.inverse(), truths[name].curve.inverse()) for name, imap in maps.items()]
    # At the lowest g_i(c_k) no scan is truly brighter than c_k, at the highest none is darker.
    low, high = composites.min(axis=0), composites.max(axis=0)
    for _ in range(_HALVINGS):
        y = (low + high) / 2
        found = np.array([curve(imap(y)) for imap, curve in ways_back])
        above = found.mean(axis=0) > c
        low, high = np.where(above, low, y), np.where(above, y, high)
    return found
