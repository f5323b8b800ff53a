"""The joint map from the channels of a subject to a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ndflow.density import GaussianMixture, Histogram
from ndflow.methods.matching import Matching
from ndflow.methods.solution import Divergence, MatchRecord
from ndflow.transport import IntensityMap, align_and_match, flow_map

__all__ = ["JointSolution", "marginal", "match_jointly"]


class JointSolution(NamedTuple):
    """A joint map, and how it was found.

    Attributes
    ----------
    imap : from the intensities of all channels to those of the result.
    match : how it was found, for the record.
    converged : whether the match ended well.
    """

    imap: IntensityMap
    match: MatchRecord
    converged: bool


def match_jointly(
    cells: Histogram,
    source: GaussianMixture,
    marginals: Sequence[GaussianMixture],
    target: GaussianMixture,
    matching: Matching,
) -> JointSolution:
    """Return the joint map from one density to another.

    Parameters
    ----------
    cells : the joint histogram of the subject.
    source : its joint density.
    marginals : the density of each channel by itself.
    target : the joint density of the target, in the units of the result.
    matching : what the user chose.
    """
    affine, matched = align_and_match(source, target, regularisation=matching.regularisation)
    first, last = float(matched.divergences[0]), float(matched.divergences[-1])
    record = MatchRecord(matched.status.message, divergence=Divergence("l2", first, last))
    return JointSolution(flow_map(affine, matched), record, matched.status.converged)


def marginal(mixture: GaussianMixture, channel: int) -> GaussianMixture:
    """Return the density of one channel of a joint density."""
    variances = mixture.covariances[:, channel, channel]
    return GaussianMixture(mixture.weights, mixture.means[:, channel], np.reciprocal(variances))
