"""The trajectory of a match as a flow: mass is carried the way that the optimiser went.

With several channels, where a point ends depends on the path between two densities, not only on the
two. One path is there already: the mixtures that the match went through, from its source to its
end. In the paper it is the trajectory of gradient descent, along which mass is conserved
[castro2018, appendix]. Steps of an optimiser are finite, so the map is a chain of flows, each from
one mixture to the next one that is kept. It conserves mass exactly, however few are kept, as each
of the flows does. Mixtures are kept at about equal distances, where the distance D of two mixtures
with the same weights is given by

    D² = Σ_k π_k (‖Δμ_k‖² + ‖Δ(Σ_k^½)‖²),

in units in which the last mixture has unit variance in each channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture, gaussian
from ndflow.errors import InvalidValueError
from ndflow.transport.far_field import with_far_field
from ndflow.transport.flow import Flow
from ndflow.transport.joint.meshed import integrated
from ndflow.transport.maps import Chain
from ndflow.values import FloatArray, whole

__all__ = ["trajectory"]

_MOST_LEGS = 50
_PROBES = 1000  # points by which the steps of each flow are chosen


def trajectory(
    mixtures: Sequence[GaussianMixture],
    points: FloatArray,
    *,
    tolerance: FloatArray,
    legs: int = _MOST_LEGS,
) -> Chain:
    """Return the flow through a sequence of mixtures, as a chain of flows that fade out far away.

    Parameters
    ----------
    mixtures : two or more with the same weights, for example `Match.trajectory`.
    points : (n, d), a sample of what is to be mapped.
    tolerance : (d,), the largest error allowed in each channel, by which steps are chosen.
    legs : the most flows in the chain.

    Raises
    ------
    InvalidValueError : fewer than two mixtures, or mixtures with different weights.

    Examples
    --------
    >>> ends = [GaussianMixture([1.0], [[0.0, m]], [np.eye(2)]) for m in (0.0, 2.0, 1.0)]
    >>> detour = trajectory(ends, np.zeros((10, 2)), tolerance=np.full(2, 1e-3))
    >>> detour
    Chain(Flow, Flow)
    >>> detour([[0.5, 0.5]]).round(1)
    array([[0.5, 1.5]])
    """
    whole(legs, "legs", 1, 100)
    if len(mixtures) < 2:
        raise InvalidValueError(f"mixtures must number at least 2, not {len(mixtures)}")
    last = mixtures[-1]
    kept = [mixtures[index] for index in _kept(mixtures, legs)]
    ends = [with_far_field(mixture, last)[0] for mixture in kept]
    x = points[:: max(1, len(points) // _PROBES)][:_PROBES]
    flows = []
    for one, two in pairwise(ends):
        flow, x = integrated(Flow(one, two), x, tolerance / (len(ends) - 1), fewest=1)
        flows.append(flow)
    return Chain(tuple(flows))


def _kept(mixtures: Sequence[GaussianMixture], legs: int) -> NDArray[np.intp]:
    """Return the indices of mixtures at about equal distances, the first and the last included."""
    unit = np.sqrt(np.diagonal(mixtures[-1].covariance()))
    roots = [gaussian.sqrt(mixture.covariances / np.outer(unit, unit)) for mixture in mixtures]
    travelled = [0.0]
    for (one, two), (root, next_root) in zip(pairwise(mixtures), pairwise(roots), strict=True):
        squares = (((two.means - one.means) / unit) ** 2).sum(axis=1)
        squares = squares + ((next_root - root) ** 2).sum(axis=(1, 2))
        travelled.append(travelled[-1] + float(np.sqrt((one.weights * squares).sum())))
    places = np.searchsorted(travelled, np.linspace(0, travelled[-1], legs + 1))
    return np.unique([0, *places[1:-1], len(mixtures) - 1])
