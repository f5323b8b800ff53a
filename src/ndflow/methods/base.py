"""The contract of every method.

A method says what it needs to know about a scan (`Method.measure`), makes its part of a reference
from many scans (`Method.average`), and finds the map from a scan to a target (`Method.solve`). That
is all that the rest of the program asks of it; modes (`ndflow.methods.modes`) compose its maps.

Every method knows the density of a scan, a Gaussian mixture, and most need no more. Those that look
at a few intensities instead derive from `ndflow.methods.landmark_method.LandmarkMethod`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import fields
from importlib import import_module
from typing import ClassVar

from ndflow.density import GaussianMixture, Histogram
from ndflow.errors import InvalidValueError
from ndflow.methods.matching import Matching, Scale
from ndflow.methods.model import DensityModel
from ndflow.methods.registry import METHODS
from ndflow.methods.solution import Solution
from ndflow.population import Landmarks
from ndflow.transport import Affine

__all__ = ["Method", "method_called", "method_of"]

_EVERY_METHOD = {"method", "scale", "range"}  # options that no method needs to list
_PAPER = """@inproceedings{castro2018,
  author    = {Castro, Daniel C. and Glocker, Ben},
  title     = {Nonparametric Density Flows for {MRI} Intensity Normalisation},
  booktitle = {Medical Image Computing and Computer Assisted Intervention -- {MICCAI} 2018},
  series    = {Lecture Notes in Computer Science},
  volume    = {11070},
  pages     = {206--214},
  publisher = {Springer},
  year      = {2018},
  doi       = {10.1007/978-3-030-00928-1_24},
  eprint    = {1806.02613},
  archiveprefix = {arXiv},
}"""


class Method(ABC):
    """A way to bring the intensities of a scan to a target.

    Attributes
    ----------
    name : what users call it.
    uses : the options of `Matching` that it uses; the others are refused.
    usual_scale : the scale of results where the target is a reference and no other is chosen.
    matches_densities : whether it matches densities to each other, so that the reference of a site
        can be matched to the common one as well.
    maps_jointly : whether it can map several channels together.
    only_aligns : whether it is the plain alignment that evaluations compare others with.
    bibtex : what to cite; by default the paper.
    """

    name: str
    uses: ClassVar[frozenset[str]] = frozenset()
    usual_scale: ClassVar[Scale] = "positive"
    matches_densities: ClassVar[bool] = False
    maps_jointly: ClassVar[bool] = False
    only_aligns: ClassVar[bool] = False
    bibtex: ClassVar[str] = _PAPER

    @abstractmethod
    def solve(self, source: DensityModel, target: DensityModel, matching: Matching) -> Solution:
        """Return the map from a scan to a target.

        Parameters
        ----------
        source, target : what is known about both, in the units of the scan and of the result.
        matching : what the user chose.
        """

    @abstractmethod
    def description(self, matching: Matching) -> str:
        """Return what it does to scans, as the end of a sentence: "Scans were …"."""

    def check(self, matching: Matching) -> None:
        """Refuse options that the method would ignore."""
        default = Matching()
        for field in fields(Matching):
            chosen = getattr(matching, field.name) != getattr(default, field.name)
            if chosen and field.name not in self.uses | _EVERY_METHOD:
                raise InvalidValueError(
                    f"{field.name} is not an option of the method {self.name!r}; leave it out"
                )

    def measure(self, histogram: Histogram, matching: Matching) -> Landmarks | None:
        """Return what it needs to know about a scan besides its density: nothing, by default."""
        return None

    def measure_options(self, matching: Matching) -> dict[str, str | int]:
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
        self,
        saved: Landmarks | None,
        mixture: GaussianMixture,
        matching: Matching,
        *,
        averaged: bool,
    ) -> Landmarks | None:
        """Return what it needs to know about a target besides its density.

        Parameters
        ----------
        saved : what was saved with the target.
        mixture : its density.
        matching : what the user chose.
        averaged : whether the density is an average over scans.
        """
        return None

    def remarks(self, matching: Matching) -> str:
        """Return further sentences for a methods section, each with a blank before it."""
        return ""

    def shortcoming(self, matching: Matching) -> str:
        """Return why its results may be further from the target than aligned ones, and what to try.

        For a doubt about a scan.
        """
        return (
            "it matches a few intensities, and what lies between them may come to lie elsewhere: "
            "compare with --method affine"
        )

    def options(self, matching: Matching) -> list[str]:
        """Return the choices that matter to it, in words, for the report."""
        return []


def method_of(matching: Matching) -> Method:
    """Return the method that the user chose; refuse options that it would ignore."""
    method = method_called(matching.method)
    method.check(matching)
    return method


def method_called(name: str) -> Method:
    """Return the method of a name, whatever its options are."""
    module = import_module(f"ndflow.methods.{METHODS[name]}")
    found: Method = next(method for method in module.METHODS if method.name == name)
    return found
