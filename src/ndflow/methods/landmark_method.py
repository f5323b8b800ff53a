"""LandmarkMethod: methods that look at a few intensities of a scan, not at its whole density.

They all work alike. Landmarks of a scan are measured; those of a target are measured in the same
way, or averaged over the scans of a study; and a map joins the two.

| method        | landmarks                                              | joined by               |
|---------------|--------------------------------------------------------|-------------------------|
| `zscore`      | mean of the voxels, and one standard deviation above   | a straight line         |
| `nyul`        | percentiles                                            | linear interpolation    |
| `quantile`    | the whole distribution                                 | the same                |
| `hellier`     | means of five classes                                  | a polynomial            |

Landmarks are averaged over scans of zero mean and unit standard deviation, so results are in the
space of a reference.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import numpy as np

from ndflow.density import GaussianMixture, Histogram
from ndflow.errors import InvalidValueError
from ndflow.methods.base import Method
from ndflow.methods.matching import Matching
from ndflow.methods.model import DensityModel
from ndflow.methods.solution import Solution
from ndflow.population import Landmarks
from ndflow.transport import Affine, IntensityMap, align
from ndflow.values import FloatArray

__all__ = ["Joined", "LandmarkMethod", "straight_line"]


class Joined(NamedTuple):
    """A map between landmarks.

    Attributes
    ----------
    imap : the map.
    message : how it was made.
    as_intended : whether the method could do what it is meant to.
    """

    imap: IntensityMap
    message: str
    as_intended: bool = True


class LandmarkMethod(Method):
    """A method that joins landmarks of a scan to those of a target.

    Attributes
    ----------
    count : how many landmarks there are; 0 for any number from two.
    fixed : the average over any scans, where it is known beforehand.
    """

    count: ClassVar[int] = 0
    fixed: ClassVar[tuple[float, ...] | None] = None

    @abstractmethod
    def landmarks_of(self, histogram: Histogram, matching: Matching) -> FloatArray:
        """Return the landmarks of a scan, (n,)."""

    @abstractmethod
    def join(self, own: FloatArray, target: FloatArray) -> Joined:
        """Return the map from landmarks to as many others."""

    def landmarks_of_density(
        self, mixture: GaussianMixture, matching: Matching
    ) -> FloatArray | None:
        """Return the landmarks of a density; None where a density does not determine them."""
        return None

    def check_landmarks(self, landmarks: Landmarks) -> Landmarks:
        """Return landmarks, if they can be those of this method."""
        if landmarks.method != self.name:
            raise InvalidValueError(
                f"landmarks of {landmarks.method} cannot be used for {self.name}; "
                f"use a reference made with the same method"
            )
        size = landmarks.values.size
        if size != self.count if self.count else size < 2:
            wanted = self.count or "two or more"
            raise InvalidValueError(f"{self.name} needs {wanted} landmarks, not {size}")
        return landmarks

    def measure(self, histogram: Histogram, matching: Matching) -> Landmarks:
        """Return the landmarks of a scan."""
        if histogram.channels != 1:
            raise InvalidValueError(f"landmarks need one channel, not {histogram.channels}")
        return self._landmarks(self.landmarks_of(histogram, matching))

    def measure_options(self, matching: Matching) -> dict[str, str | int]:
        """Return the method, and how many landmarks it was asked for."""
        return {"method": self.name, "landmarks": matching.landmarks}

    def average(self, scans: Iterable[tuple[Landmarks, Affine, float]]) -> Landmarks:
        """Return the average of the landmarks of a study's scans."""
        total, weights = np.zeros(0), 0.0
        for own, aligned, weight in scans:
            self.check_landmarks(own)
            values = aligned(own.values)
            if (total.size or values.size) != values.size:
                raise InvalidValueError("scans must all have the same number of landmarks")
            total = (total if total.size else np.zeros(values.size)) + weight * values
            weights += weight
        if not weights > 0:
            raise InvalidValueError("there are no landmarks to average")
        return self._landmarks(total / weights if self.fixed is None else np.array(self.fixed))

    def target_landmarks(
        self,
        saved: Landmarks | None,
        mixture: GaussianMixture,
        matching: Matching,
        *,
        averaged: bool,
    ) -> Landmarks:
        """Return the landmarks saved with a target, or else those of its density.

        The landmarks of an average density are not the average landmarks, so they are not used.
        """
        if saved is not None and saved.method == self.name:
            if "landmarks" in self.uses and saved.values.size != matching.landmarks:
                raise InvalidValueError(
                    f"holds {saved.values.size} landmarks, not {matching.landmarks}; "
                    f"use --landmarks {saved.values.size}"
                )
            return self.check_landmarks(saved)
        values = self.landmarks_of_density(mixture, matching)
        if values is None or (averaged and self.fixed is None):
            raise InvalidValueError(
                f"holds no landmarks of {self.name}; give the file of a reference made with "
                f"'ndflow reference --method {self.name}'"
            )
        return self._landmarks(values)

    def solve(self, source: DensityModel, target: DensityModel, matching: Matching) -> Solution:
        """Return the map that joins the landmarks of a scan to those of a target."""
        if source.landmarks is None or target.landmarks is None:
            raise InvalidValueError(f"the method {self.name!r} needs landmarks")
        own, other = (self.check_landmarks(model.landmarks) for model in (source, target))  # type: ignore[arg-type]
        if own.values.size != other.values.size:
            raise InvalidValueError(
                f"{own.values.size} landmarks cannot be joined to {other.values.size}; "
                f"use a reference made in the same way"
            )
        joined = self.join(own.values, other.values)
        affine = align(source.mixture, target.mixture)
        return Solution(joined.imap, affine, joined.message, joined.as_intended)

    def _landmarks(self, values: FloatArray) -> Landmarks:
        return self.check_landmarks(Landmarks(self.name, values))


def straight_line(own: FloatArray, target: FloatArray) -> Joined:
    """Return the affine map through two pairs of landmarks."""
    factor = (target[1] - target[0]) / (own[1] - own[0])
    affine = Affine(np.array([[factor]]), np.array([target[0] - factor * own[0]]))
    return Joined(affine, "aligned")
