"""The effect of a covariate, such as age, on a tissue's intensity, with sites as fixed effects.

Scans of one site may be brighter and its subjects older: only the relation within sites says
what age does. The model is ``y = a_site + b x + ε``. By the theorem of Frisch, Waugh and Lovell
its slope is that of the deviations from the sites' means, y' and x', through the origin:

    b = Σx'y' / Σx'²,   s² = Σ(y' − b x')² / (n − sites − 1),   se(b) = √(s² / Σx'²),

and ``Σx'y' / √(Σx'² Σy'²)`` is the partial correlation. ``b / se(b)`` has a t distribution with
``n − sites − 1`` degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError
from ndflow.metrics.statistics import t_test
from ndflow.values import FloatArray, real_array

__all__ = ["CovariateEffect", "covariate_effect"]

_ROUNDING = 1e-12


class CovariateEffect(NamedTuple):
    """What a covariate does to a value, within sites.

    Attributes
    ----------
    slope, se : change of the value with one unit of the covariate, and its standard error.
    correlation : partial, of value and covariate given the site; has the sign of the slope.
    p : of there being no effect, two-sided.
    n : scans whose covariate is known.
    """

    slope: float
    se: float
    correlation: float
    p: float
    n: int


def covariate_effect(
    values: ArrayLike, covariate: ArrayLike, sites: Sequence[str]
) -> CovariateEffect:
    """Return the effect of a covariate (n,) on values (n,), given the site of each scan.

    A covariate that is NaN is not known: the scan is left out.
    """
    given = real_array(values, "values", None)
    covariates = np.asarray(covariate, np.float64)
    if covariates.shape != given.shape or len(sites) != given.size:
        raise InvalidValueError("values, covariate and sites must be as many: one a scan")
    known = ~np.isnan(covariates)
    y, x = given[known], real_array(covariates[known], "covariate", None)
    names = [site for site, there in zip(sites, known, strict=True) if there]
    order = {name: number for number, name in enumerate(dict.fromkeys(names))}
    which = np.array([order[name] for name in names], np.intp)
    freedom = y.size - len(order) - 1
    if freedom < 1:
        raise InvalidValueError(
            f"the covariate is known for {y.size} scans of {len(order)} sites; "
            f"its effect needs at least {len(order) + 2} scans"
        )
    dx, dy = _deviations(x, which), _deviations(y, which)
    if not dx.any():
        raise InvalidValueError(
            "the covariate does not vary within any site, so that its effect cannot be told "
            "from that of the sites"
        )
    if not dy.any():
        return CovariateEffect(0.0, 0.0, 0.0, 1.0, y.size)
    # In units of their largest, so that no square is too large or too small for a double.
    unit_x, unit_y = np.abs(dx).max(), np.abs(dy).max()
    dx, dy = dx / unit_x, dy / unit_y
    xx, xy, yy = np.sum(dx * dx), np.sum(dx * dy), np.sum(dy * dy)
    slope = xy / xx
    error = np.sqrt(np.sum((dy - slope * dx) ** 2) / freedom / xx)
    return CovariateEffect(
        slope=float(slope * unit_y / unit_x),
        se=float(error * unit_y / unit_x),
        correlation=float(np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0)),
        p=t_test(float(slope), float(error), freedom, 1.0, two_sided=True).p,
        n=y.size,
    )


def _deviations(values: FloatArray, which: NDArray[np.intp]) -> FloatArray:
    """Return values less the mean of their site; zero if that is no more than rounding."""
    deviations = values - (np.bincount(which, values) / np.bincount(which))[which]
    largest = np.abs(values).max()
    return deviations if np.abs(deviations).max() > _ROUNDING * largest else np.zeros_like(values)
