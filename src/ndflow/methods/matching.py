"""What a user may choose about the match of a scan to a target.

The command line shows `MatchingChoices` as its options, and Python functions take its fields as
keywords, so each choice has one name, one default and one explanation. What a user leaves open, a
preset decides (`ndflow.subject.presets`); `Matching` is the same with nothing left open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from ndflow.errors import InvalidValueError

# ── the table of methods ──────────────────────────────────────────────────────────────────────────
# The available methods: one line each.
#
# A method lives in a module of this package and keeps to the contract of `ndflow.methods.base`. To
# add one, write the module and its test, and add a line here; commands, studies, evaluations and
# reports find it by its name and never ask which one it is. (Nothing is imported before a method is
# used, so that ``ndflow --help`` does not wait for numpy.)

METHODS = {  # name: module
    "ndflow": "ndflow",
    "affine": "baselines",
    "zscore": "baselines",
    "nyul": "baselines",
    "quantile": "baselines",
    "hellier": "baselines",
}

if TYPE_CHECKING:
    MethodName = str
else:
    MethodName = Literal[tuple(METHODS)]


# ── matching ──────────────────────────────────────────────────────────────────────────────────────

Objective = Literal["l2", "cramer"]
Scale = Literal["positive", "standard", "target"]
Solver = Literal["exact", "rk4"]
TargetKind = Literal["average", "tissue", "adaptive"]


@dataclass(frozen=True)
class MatchingChoices:
    """How a density is brought to a target, as far as a user says so.

    Attributes
    ----------
    method
        The density flow (ndflow); mean and standard deviation alone, of the density (affine) or of
        the voxels (zscore); or a method to compare with: percentiles (nyul), the whole distribution
        (quantile), or the means of five classes (hellier).
    target
        Match a scan to the average density of the reference (average); or to the tissues of the
        reference in the scan's own proportions, which are known from its tissue probability maps
        (tissue) or estimated (adaptive). Default: what the preset says.
    freeze
        Keep components of the scan's density where the alignment puts them: by index (3), weight
        (weight<0.02) or intensity (900:1200). Repeat the option for several rules. Default: none.
    objective
        What the match minimises: the L2 divergence of the paper (l2), or the Cramér distance
        (cramer), which is sensitive to light tails too. Default: what the preset says.
    regularisation
        How strongly the components of the scan are held back from moving, from 0 (not at all).
        Default: what the preset says.
    solver
        Compute the flow in closed form (exact), or integrate it step by step as in the paper (rk4).
    landmarks
        How many percentiles nyul matches, from the 1st to the 99th.
    scale
        The units of the result. positive: the target has a mean of 500 and a standard deviation of
        125, so practically all of a brain lies above 0, the background. standard: a mean of 0 and a
        standard deviation of 1. target: the units of the target, an image or a mixture of one scan.
        Default: positive for a reference (standard with zscore), target for an image or a mixture.
    range
        Two numbers, LOW and HIGH: where the 0.1st and 99.9th percentiles of the target lie in the
        result.
    """

    _open: ClassVar[tuple[None, ...]] = (None,)  # what stands for a choice that is left open

    method: MethodName = "ndflow"
    target: TargetKind | None = None
    freeze: tuple[str, ...] = ()
    objective: Objective | None = None
    regularisation: float | None = None
    solver: Solver = "exact"
    landmarks: int = 11
    scale: Scale | None = None
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Validate each choice; whether the method uses it, the method says."""
        check_choice("method", self.method, MethodName)
        check_choice("target", self.target, TargetKind, *self._open)
        object.__setattr__(self, "freeze", self._checked_rules())
        check_choice("objective", self.objective, Objective, *self._open)
        check_choice("solver", self.solver, Solver)
        check_choice("scale", self.scale, Scale, None)
        self._check_regularisation()
        if isinstance(self.landmarks, bool) or not (
            isinstance(self.landmarks, int) and 2 <= self.landmarks <= 1000
        ):
            raise InvalidValueError(f"landmarks must be 2 to 1000, not {self.landmarks!r}")
        if self.range is not None:
            object.__setattr__(self, "range", self._checked_range())

    def _check_regularisation(self) -> None:
        value: Any = self.regularisation
        if value is None and self._open:
            return
        if not (is_number(value) and value >= 0):
            raise InvalidValueError(f"regularisation must be 0 or a positive number, not {value!r}")
        object.__setattr__(self, "regularisation", float(value))

    def _checked_rules(self) -> tuple[str, ...]:
        try:
            rules = None if isinstance(self.freeze, str) else tuple(self.freeze)
        except TypeError:
            rules = None
        if rules is None or not all(isinstance(rule, str) for rule in rules):
            raise InvalidValueError(f"freeze must be a list of rules, not {self.freeze!r}")
        return rules

    def _checked_range(self) -> tuple[float, float]:
        try:
            low, high = self.range  # type: ignore[misc]
        except (TypeError, ValueError):
            raise InvalidValueError(f"range must be a pair, not {self.range!r}") from None
        if not (is_number(low) and is_number(high) and low < high):
            raise InvalidValueError(f"range must rise from LOW to HIGH, not {low!r} to {high!r}")
        if self.scale is not None:
            raise InvalidValueError("range and scale both choose the units; give one of them")
        return float(low), float(high)


@dataclass(frozen=True)
class Matching(MatchingChoices):
    """How a density is brought to a target, with nothing left open; see `MatchingChoices`.

    The defaults are those of the paper.
    """

    _open: ClassVar[tuple[None, ...]] = ()

    target: TargetKind = "average"
    objective: Objective = "l2"
    regularisation: float = 1e-3


def check_choice(name: str, value: object, choices: Any, *more: object) -> None:
    """Refuse a value that is neither a choice of a `Literal` nor one of `more`."""
    allowed = (*get_args(choices), *more)
    if value not in allowed:
        listed = ", ".join(repr(choice) for choice in allowed)
        raise InvalidValueError(f"{name} must be one of {listed}, not {value!r}")


def is_number(value: object) -> bool:
    """Tell whether a value is a finite real number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
