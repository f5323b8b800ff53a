"""Whether the density of a scan is plausible: how far it is from others of its kind.

Densities are compared after alignment to zero mean and unit variance, because units of intensity
mean nothing, by the distance W1: the mean difference of their quantiles, in standard deviations.

How far is too far is known for a reference only in general. Between brains in T1w that were scanned
in different places, we have seen distances up to 0.22 from the reference of the other places; a
T2w image is 0.45 away. Among the scans of a site, what is usual can be seen: the distances of the
scans from the median of their quantiles, which a few wrong scans hardly change.

A mask that is a little too wide changes the density by less than the differences between scanners,
0.06 on average: it is found by its rim (`ndflow.image.mask_doubts`), not here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.values import Doubt, FloatArray

FEWEST = 6  # scans, to know what is usual among them
UNLIKE = ("unlike the reference", "unlike the others")  # kinds of doubt
_FAR = 0.3  # standard deviations, from a reference
_LEAST = 0.1  # less than this is nothing to worry about, however similar the other scans are
_TIMES = 4.0  # as far as usual

_HINT = "check its mask, and that it shows the same contrast, with the same part of the body"


def density_distance(one: GaussianMixture, other: GaussianMixture) -> float:
    """Return the distance W1 of two aligned densities of one channel, in standard deviations.

    Examples
    --------
    >>> one = GaussianMixture([0.5, 0.5], [0.0, 5.0], [1.0, 1.0])
    >>> density_distance(one, one.transformed([[3.0]], [100.0])) < 1e-9
    True
    """
    return float(np.abs(_aligned(one) - _aligned(other)).mean())


def unlike_reference(mixture: GaussianMixture, reference: GaussianMixture) -> tuple[Doubt, ...]:
    """Return a doubt about a scan whose density is too far from that of a reference."""
    apart = density_distance(mixture, reference)
    if apart <= _FAR:
        return ()
    text = (
        f"Z-scored, its density is {apart:.2f} sd from that of the reference; other scanners alone "
        f"explain about 0.2 sd."
    )
    return (Doubt(UNLIKE[0], text, _HINT),)


def unlike_others(mixtures: Sequence[GaussianMixture]) -> list[tuple[Doubt, ...]]:
    """Return for each of several scans a doubt if its density is not like those of the others.

    Parameters
    ----------
    mixtures : of scans that should be alike, such as those of a site, in any order.

    Returns
    -------
    list
        The doubts, none where there are too few scans to know what is usual.
    """
    if len(mixtures) < FEWEST:
        return [()] * len(mixtures)
    quantiles = np.array([_aligned(mixture) for mixture in mixtures])
    apart = np.abs(quantiles - np.median(quantiles, axis=0)).mean(axis=1)
    usual = float(np.median(apart))
    bound = max(_TIMES * usual, _LEAST)
    text = "Z-scored, its density is {:.2f} sd from that of the other scans, where {:.2f} is usual."
    return [
        (Doubt(UNLIKE[1], text.format(far, usual), _HINT),) if far > bound else ()
        for far in apart.tolist()
    ]


def far_from(values: FloatArray, *, least: float) -> FloatArray:
    """Return how far numbers are from their median, where that is too far, and 0 elsewhere.

    Parameters
    ----------
    values : one number per scan.
    least : less than this is never too far; four standard deviations are, estimated robustly from
        the median deviation.
    """
    away = values - np.median(values)
    spread = 1.4826 * float(np.median(np.abs(away)))  # for a normal distribution, its sd
    return np.where(np.abs(away) > max(_TIMES * spread, least), away, 0.0)


def _aligned(mixture: GaussianMixture) -> FloatArray:
    sd = np.sqrt(mixture.covariance()[0, 0])
    return np.asarray((mixture.quantile(QUANTILE_LEVELS) - mixture.mean()[0]) / sd)
