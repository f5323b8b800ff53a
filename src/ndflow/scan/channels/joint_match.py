"""The joint map from the channels of a subject to a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ndflow.density import GaussianMixture
from ndflow.methods.matching import Matching
from ndflow.methods.solution import MatchRecord
from ndflow.scan.channels.channel_voxels import EVIDENCE
from ndflow.scan.settings import Fitting
from ndflow.transport import IntensityMap
from ndflow.transport.joint import JointFigures, joint_map
from ndflow.values import FloatArray, plural

__all__ = ["JointSolution", "match_jointly"]


class JointSolution(NamedTuple):
    """A joint map, and how it was found.

    Attributes
    ----------
    imap : from the intensities of all channels to those of the result.
    match, figures : how it was found, for the record.
    """

    imap: IntensityMap
    match: MatchRecord
    figures: JointFigures

    def warnings(self, path: str) -> list[str]:
        """Return what the user should know about the match of the subject at `path`."""
        if self.figures.kept:
            return []
        return [
            f"{path}: a joint flow would not bring the channels closer to the target, so each was "
            f"mapped by itself"
        ]


def match_jointly(
    rows: FloatArray,
    marginals: Sequence[GaussianMixture],
    target: GaussianMixture,
    *,
    matching: Matching,
    fitting: Fitting,
) -> JointSolution:
    """Return the joint map from the voxels of a subject to a density.

    Parameters
    ----------
    rows : the voxels that count, (n, d).
    marginals : the density of each channel by itself.
    target : the joint density of the target, in the units of the result.
    matching, fitting : what the user chose.
    """
    found = joint_map(
        rows,
        marginals,
        target,
        regularisation=matching.regularisation,
        effective_count=EVIDENCE * fitting.effective_count,
    )
    message = "maps of each channel by itself"
    if found.figures.kept:
        message = f"{message}, then a joint flow of {plural(found.figures.components, 'component')}"
    return JointSolution(found.map, MatchRecord(message), found.figures)
