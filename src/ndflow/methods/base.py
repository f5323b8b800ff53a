"""The contract of every method.

A method says what it needs to know about a scan (`Method.measure`), makes its part of a reference
from many scans (`Method.average`), and finds the map from a scan to a target (`Method.solve`). That
is all that the rest of the program asks of it; modes (`ndflow.methods.modes`) compose its maps.

Every method knows the density of a scan, a Gaussian mixture, and most need no more. Those that look
at a few intensities instead derive from `LandmarkMethod`.

LandmarkMethod: methods that look at a few intensities of a scan, not at its whole density.

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

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from ndflow.density import GaussianMixture, Histogram
from ndflow.density.binning import QUANTILE_LEVELS, midpoint_edges
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.options import METHODS, Options, Scale, options_of
from ndflow.population import TISSUES, Landmarks, Reference, TissueModel, Tissues, reference
from ndflow.population.proportions import OF_ANY, Variation
from ndflow.transport import DETERMINED_RANGE, Affine, IntensityMap, align
from ndflow.transport.joint import JointFigures
from ndflow.values import FloatArray, Record, listed

# ── models ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class DensityModel:
    """A density, and whatever else is known about the same intensities.

    Attributes
    ----------
    mixture : the density.
    landmarks : the intensities that some methods look at instead of the density.
    tissues : the tissues of a scan, or of the population that a target represents.
    quantiles : of the voxels of a scan, at `ndflow.density.binning.QUANTILE_LEVELS`; None of a
        density that is all that is known.
    variation : how scans like this one differ from each other beside people.
    marginals : of a scan of several channels, the density of each by itself.
    """

    mixture: GaussianMixture
    landmarks: Landmarks | None = None
    tissues: Tissues | TissueModel | None = None
    quantiles: FloatArray | None = field(default=None, compare=False)
    variation: Variation = OF_ANY
    marginals: tuple[GaussianMixture, ...] = ()

    @classmethod
    def of_reference(cls, reference: Reference) -> DensityModel:
        """Return what a reference knows about its population."""
        return cls(reference.mixture, reference.landmarks, reference.tissues)

    def transformed(self, affine: Affine) -> DensityModel:
        """Return the model of the same intensities in other units."""
        return DensityModel(
            self.mixture.transformed(affine.matrix, affine.offset),
            self.landmarks and self.landmarks.transformed(affine),
            self.tissues and self.tissues.transformed(affine),
        )

    @property
    def distribution(self) -> FloatArray:
        """The quantiles of the voxels, or else those of the density."""
        return self.mixture.quantile(QUANTILE_LEVELS) if self.quantiles is None else self.quantiles

    def to_dict(self) -> dict[str, Any]:
        """Return the parts that are known, as JSON can hold them."""
        parts = {"mixture": self.mixture, "landmarks": self.landmarks, "tissues": self.tissues}
        return {name: part.to_dict() for name, part in parts.items() if part is not None}


# ── solutions ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Divergence(Record):
    """How far a scan is from its target, where the target has unit variance.

    Attributes
    ----------
    objective : how that is measured, ``l2`` or ``cramer``.
    before, after : of the aligned scan, and of the result.
    """

    objective: str
    before: float
    after: float


@dataclass(frozen=True)
class TargetChoice(Record):
    """What a scan was matched to where that was not simply the average.

    Attributes
    ----------
    to : ``tissues`` in proportions of its own, or the ``average`` after all.
    proportions : of CSF, GM and WM in the target.
    reason : where these proportions come from.
    population : the mean proportions of the reference.
    tissues : what the tissues of the reference were made from, ``maps`` or ``components``.
    intervals : of proportions that were estimated, to what each tissue is known after
        normalisation: half the width of a 90 % interval, in distances between GM and WM.
    """

    to: str
    proportions: dict[str, float]
    reason: str
    population: dict[str, float]
    tissues: str
    intervals: dict[str, float] | None = None

    def sentence(self) -> str:
        """Say what the scan was matched to."""
        if self.to == "average":
            return f"Matched to the average of the reference: {self.reason}."
        own = ", ".join(f"{100 * one:.0f} % {name}" for name, one in self.proportions.items())
        usual = ", ".join(f"{100 * one:.0f} %" for one in self.population.values())
        said = f"Matched to {own} (population mean: {usual}), from {self.reason}."
        return said if self.intervals is None else f"{said} {known_within(self.intervals)}."

    def bands(self, tissues: Tissues | TissueModel | None) -> dict[str, tuple[float, float]]:
        """Return between which intensities each tissue lies after normalisation, if that is known.

        Parameters
        ----------
        tissues : of the population, in the units of the result.
        """
        if self.intervals is None or tissues is None:
            return {}
        means = dict(zip(TISSUES, (float(d.mean()[0]) for d in tissues.densities), strict=True))
        gap = abs(means["WM"] - means["GM"])
        return {
            name: (means[name] - half * gap, means[name] + half * gap)
            for name, half in self.intervals.items()
        }


def known_within(intervals: Mapping[str, float]) -> str:
    """Say to what the tissues are known after normalisation, see `TargetChoice`; without a stop."""
    each = listed([f"{100 * half:.0f} % ({name})" for name, half in intervals.items()])
    known = f"After normalisation, positions of tissues are known to within ± {each}"
    return f"{known} of the distance between GM and WM (90 % intervals)"


@dataclass(frozen=True)
class MatchRecord(Record):
    """How a map was found, for the sidecar of the result.

    Attributes
    ----------
    message : how the match ended.
    slopes : the smallest and the largest of the map where the scan has intensities, as multiples of
        that of the alignment.
    divergence : from the target; None for methods that do not compare densities.
    target : what the scan was matched to, where that was not simply the average.
    frozen : the components that were not allowed to move, if any were chosen.
    """

    message: str
    slopes: tuple[float, float] | None = None
    divergence: Divergence | None = None
    target: TargetChoice | None = None
    frozen: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Solution:
    """The map from a scan to its target.

    Attributes
    ----------
    imap : the map, from the units of the scan to those of the result.
    affine : the alignment of mean and standard deviation alone; None of several channels.
    message : how the match ended.
    converged : whether it ended well.
    divergence, target, frozen : see `MatchRecord`.
    joint : of several channels, what was measured on the way.
    """

    imap: IntensityMap
    affine: Affine | None
    message: str
    converged: bool = True
    divergence: Divergence | None = None
    target: TargetChoice | None = None
    frozen: tuple[int, ...] | None = None
    joint: JointFigures | None = None

    def warnings(self, path: str) -> list[str]:
        """Return what the user should know about the match of the scan at `path`."""
        found = [] if self.converged else [f"{path}: the match to the target {self.message}"]
        if self.joint is not None and not self.joint.kept:
            found.append(
                f"{path}: a joint flow would not bring the channels closer to the target, so each "
                f"was mapped by itself"
            )
        if self.frozen == ():
            found.append(
                f"{path}: --set freeze chooses none of its components; all of them could move"
            )
        return found

    def record(self, source: GaussianMixture) -> MatchRecord:
        """Return how the map of a scan with this density was found."""
        slopes = None
        if self.affine is not None:  # a map of several channels has no one slope
            low, high = source.quantile(DETERMINED_RANGE).tolist()
            found = np.exp(self.imap.log_det_jacobian(np.linspace(low, high, 1001)))
            own = abs(float(self.affine.matrix[0, 0]))
            slopes = float(found.min()) / own, float(found.max()) / own
        return MatchRecord(self.message, slopes, self.divergence, self.target, self.frozen)


# ── methods ───────────────────────────────────────────────────────────────────────────────────────

_EVERY_METHOD = {"method", "scale", "range"}  # options that no method needs to list


class Method(ABC):
    """A way to bring the intensities of a scan to a target.

    Attributes
    ----------
    name : what users call it.
    uses : the options of `Options` that it uses; the others are refused.
    usual_scale : the scale of results where the target is a reference and no other is chosen.
    matches_densities : whether it matches densities to each other, so that the reference of a site
        can be matched to the common one as well.
    maps_jointly : whether it can map several channels together.
    only_aligns : whether it is the plain alignment that evaluations compare others with.
    cites : the key of what to cite in ``references.bib`` of reports; by default the paper.
    """

    name: str
    uses: ClassVar[frozenset[str]] = frozenset()
    usual_scale: ClassVar[Scale] = "positive"
    matches_densities: ClassVar[bool] = False
    maps_jointly: ClassVar[bool] = False
    only_aligns: ClassVar[bool] = False
    cites: ClassVar[str] = "castro2018"

    @abstractmethod
    def solve(self, source: DensityModel, target: DensityModel, options: Options) -> Solution:
        """Return the map from a scan to a target.

        Parameters
        ----------
        source, target : what is known about both, in the units of the scan and of the result.
        options : what the user chose.
        """

    def check(self, options: Options) -> None:
        """Refuse options that the method would ignore."""
        default = Options()
        for one in options_of("match"):
            chosen = getattr(options, one.name) != getattr(default, one.name)
            if chosen and one.name not in self.uses | _EVERY_METHOD:
                raise InvalidValueError(f"{one.name} is no option of {self.name!r}; leave it out")

    def measure(self, histogram: Histogram, options: Options) -> Landmarks | None:
        """Return what it needs to know about a scan besides its density: nothing, by default."""
        return None

    def measure_options(self, options: Options) -> dict[str, str | int]:
        """Return the choices that `measure` depends on, for the fingerprint of a scan's model."""
        return {}

    def average(self, scans: Iterable[tuple[Landmarks, Affine, float]]) -> Landmarks | None:
        """Return its part of a reference.

        Parameters
        ----------
        scans : what `measure` found in each scan, the scan's alignment to zero mean and unit
            standard deviation, and its weight.
        """
        return None

    def target_landmarks(
        self, saved: Landmarks | None, mixture: GaussianMixture, options: Options, *, averaged: bool
    ) -> Landmarks | None:
        """Return what it needs to know about a target besides its density.

        Parameters
        ----------
        saved : what was saved with the target.
        mixture : its density.
        options : what the user chose.
        averaged : whether the density is an average over scans.
        """
        return None

    def options(self, options: Options) -> list[str]:
        """Return the choices that matter to it, in words, for the report."""
        return []


def method_of(options: Options) -> Method:
    """Return the method that the user chose; refuse options that it would ignore."""
    method = method_called(options.method)
    method.check(options)
    return method


def method_called(name: str) -> Method:
    """Return the method of a name, whatever its options are."""
    module = import_module(f"ndflow.methods.{METHODS[name]}")
    found: Method = next(method for method in module.METHODS if method.name == name)
    return found


# ── methods with landmarks ────────────────────────────────────────────────────────────────────────


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
    def landmarks_of(self, histogram: Histogram, options: Options) -> FloatArray:
        """Return the landmarks of a scan, (n,)."""

    @abstractmethod
    def join(self, own: FloatArray, target: FloatArray) -> Solution:
        """Return the map from landmarks to as many others; its alignment is filled in later."""

    def landmarks_of_density(self, mixture: GaussianMixture, options: Options) -> FloatArray | None:
        """Return the landmarks of a density; None where a density does not determine them."""
        return None

    def check_landmarks(self, landmarks: Landmarks | None) -> Landmarks:
        """Return landmarks, if they can be those of this method."""
        if landmarks is None or landmarks.method != self.name:
            raise InvalidValueError(f"{self.name!r} needs its own landmarks; give such a reference")
        size = landmarks.values.size
        if size != self.count if self.count else size < 2:
            wanted = self.count or "two or more"
            raise InvalidValueError(f"{self.name} needs {wanted} landmarks, not {size}")
        return landmarks

    def measure(self, histogram: Histogram, options: Options) -> Landmarks:
        """Return the landmarks of a scan."""
        return self._landmarks(self.landmarks_of(histogram, options))

    def measure_options(self, options: Options) -> dict[str, str | int]:
        """Return the method, and how many landmarks it was asked for."""
        return {"method": self.name, "landmarks": options.landmarks}

    def average(self, scans: Iterable[tuple[Landmarks, Affine, float]]) -> Landmarks:
        """Return the average of the landmarks of a study's scans."""
        known = list(scans)
        total = sum((w * aligned(own.values) for own, aligned, w in known), np.zeros(1))
        weights = sum(weight for _, _, weight in known)
        return self._landmarks(total / weights if self.fixed is None else np.array(self.fixed))

    def target_landmarks(
        self, saved: Landmarks | None, mixture: GaussianMixture, options: Options, *, averaged: bool
    ) -> Landmarks:
        """Return the landmarks saved with a target, or else those of its density.

        The landmarks of an average density are not the average landmarks, so they are not used.
        """
        if saved is not None and saved.method == self.name:
            if "landmarks" in self.uses and saved.values.size != options.landmarks:
                raise InvalidValueError(f"needs --set landmarks={saved.values.size}")
            return self.check_landmarks(saved)
        values = self.landmarks_of_density(mixture, options)
        if values is None or (averaged and self.fixed is None):
            raise InvalidValueError(
                f"holds no landmarks of {self.name}; give the file of a reference made with "
                f"'ndflow reference --method {self.name}'"
            )
        return self._landmarks(values)

    def solve(self, source: DensityModel, target: DensityModel, options: Options) -> Solution:
        """Return the map that joins the landmarks of a scan to those of a target."""
        own, other = map(self.check_landmarks, (source.landmarks, target.landmarks))
        if own.values.size != other.values.size:
            raise InvalidValueError(
                f"{own.values.size} landmarks cannot be joined to {other.values.size}; "
                f"use a reference made in the same way"
            )
        joined = self.join(own.values, other.values)
        return replace(joined, affine=align(source.mixture, target.mixture))

    def _landmarks(self, values: FloatArray) -> Landmarks:
        return self.check_landmarks(Landmarks(self.name, values))


def histogram_quantiles(histogram: Histogram, levels: FloatArray) -> FloatArray:
    """Return the intensities below which the given shares of a scan's voxels lie."""
    values, counts = histogram.values[:, 0], histogram.counts
    if values.size < 2:
        raise DegenerateDataError(f"all voxels used have the value {values[0]:g}")
    below = np.concatenate([[0.0], np.cumsum(counts)])
    quantiles: FloatArray = np.interp(levels * below[-1], below, midpoint_edges(values))
    return quantiles


# ── references ────────────────────────────────────────────────────────────────────────────────────


def build_reference(
    models: Sequence[DensityModel],
    method: Method,
    *,
    weights: Sequence[float] | None = None,
    tissues: TissueModel | None = None,
    **options: Any,
) -> Reference:
    """Average the models of some scans.

    Parameters
    ----------
    models : one per scan, in an order that does not depend on how they were given: sums of
        landmarks depend on it in the last digit.
    method : what the reference is for.
    weights, options : see `ndflow.population.reference`.
    tissues : of the population, where they are known.
    """
    made = reference([model.mixture for model in models], weights=weights, **options)
    heavy = [1.0] * len(models) if weights is None else weights
    known = [
        (model.landmarks, align(model.mixture), weight)
        for model, weight in zip(models, heavy, strict=True)
        if model.landmarks is not None
    ]
    return replace(made, landmarks=method.average(known) if known else None, tissues=tissues)
