"""Flows that fade out: far from all components, intensities stay where the alignment put them.

The velocity of a flow is the average of the affine velocities of its components under their
posteriors. Far out, the posterior of the broadest component in that direction is 1, whatever the
component: what it happens to do near its mean would be extrapolated without end. So both ends of a
flow are given one more component, of little weight, much broader than all others, which does not
move. Where there are voxels, it has next to no share; far out it has all of it, so that the
velocity, which grows linearly at most, vanishes there, and the flow becomes the identity. It is
still the flow of a density (that of the components and of the broad one), and so it conserves mass
and is one-to-one everywhere.
"""

from __future__ import annotations

import numpy as np

from ndflow.density import GaussianMixture, stack

__all__ = ["with_far_field"]

_WEIGHT = 1e-3
_WIDTH = 4.0  # standard deviations of the target


def with_far_field(
    source: GaussianMixture, target: GaussianMixture
) -> tuple[GaussianMixture, GaussianMixture]:
    """Return both ends of a flow with the same broad component added to each.

    Parameters
    ----------
    source, target : the ends, with the same weights; the source is aligned with the target.

    Examples
    --------
    >>> one = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    >>> two = GaussianMixture([1.0], [[0.0, 0.0]], [2 * np.eye(2)])
    >>> from ndflow.transport import Flow
    >>> flow = Flow(*with_far_field(one, two))
    >>> flow([[1.0, 0.0], [50.0, 0.0]]).round(2)
    array([[ 0.71,  0.  ],
           [50.  ,  0.  ]])
    """
    variances = _WIDTH**2 * np.diagonal(target.covariance())
    broad = GaussianMixture(
        np.ones(1), target.mean()[np.newaxis], np.diag(1 / variances)[np.newaxis]
    )
    shares = (1 - _WEIGHT, _WEIGHT)
    return stack([source, broad], shares), stack([target, broad], shares)
