"""What a user may choose about a run, in the groups that belong together.

The command line shows these very classes as its options and the Python functions take their fields
as keywords, so each choice has one name, one default and one explanation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

from ndflow.errors import InvalidValueError

__all__ = [
    "Averaging",
    "Fitting",
    "Matching",
    "Reading",
    "Settings",
    "Writing",
    "flat",
    "settings_from",
]

_GAMMA = 1e-3
_SITE_SPELLINGS: dict[str, Mode] = {"centre": "site", "center": "site"}
_NYUL = 11

Average = Literal["density", "quantile"]
Lesions = Literal["auto"]
Mode = Literal["individual", "site", "two-level"]
DType = Literal[
    "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"
]
Method = Literal[
    "ndflow",
    "affine",
    "zscore",
    "nyul",
    "quantile",
    "hellier",
    "whitestripe",
    "kde",
    "fcm",
    "lsq",
]
Objective = Literal["l2", "cramer"]
Outside = Literal["zero", "keep", "map"]
Scale = Literal["standard", "target"]
Solver = Literal["exact", "rk4"]
TargetKind = Literal["average", "tissue", "adaptive"]


@dataclass(frozen=True)
class Reading:
    """How files are read.

    Attributes
    ----------
    max_bytes
        Refuse files whose content is larger than this when decompressed.
    """

    max_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        """Validate."""
        object.__setattr__(self, "max_bytes", int(_positive(self, "max_bytes")))


@dataclass(frozen=True)
class Fitting:
    """How the density of a scan is estimated.

    Attributes
    ----------
    effective_count
        How many independent voxels a scan is worth at most; more of them show finer
        detail of its histogram.
    """

    effective_count: float = 1e4

    def __post_init__(self) -> None:
        """Validate."""
        object.__setattr__(self, "effective_count", _positive(self, "effective_count"))


@dataclass(frozen=True)
class Matching:
    """How a density is brought to a target.

    Attributes
    ----------
    method
        The whole density flow, or the alignment of mean and spread alone, of the density or
        (zscore) of the voxels; or another method to compare with: percentiles joined one by one
        (nyul), whole distributions (quantile), five classes joined by a polynomial (hellier), or
        one of the package intensity-normalization (whitestripe, kde, fcm, lsq).
    target
        What a scan is matched to: the average density of the reference, as in the paper; or its
        tissues in the scan's own proportions, known from maps of its tissues, or (adaptive) those
        with which the scan needs the mildest map.
    lesions
        Find what no healthy scan of the reference has (auto), and keep it out of the match.
    freeze
        Components of the scan's density that stay where the alignment takes them: an index (3), a
        weight (weight<0.02) or a range of its intensities (900:1200). One rule each time that the
        option is given.
    objective
        What the flow makes small: the paper's L2 divergence, or the Cramér distance,
        which sees light tails too.
    regularisation
        How strongly the components of the scan are held back from moving.
    solver
        The flow in closed form, or integrated step by step as in the paper.
    landmarks
        How many percentiles nyul joins, from the 1st to the 99th.
    scale
        The units of the result: zero mean and unit spread, or those of the target image.
        By default the latter where there are any; a reference has none.
    range
        Units in which the 0.1st and 99.9th percentiles of the target lie at LOW and HIGH.
    """

    method: Method = "ndflow"
    target: TargetKind = "average"
    lesions: Lesions | None = None
    freeze: tuple[str, ...] = ()
    objective: Objective = "l2"
    regularisation: float = _GAMMA
    solver: Solver = "exact"
    landmarks: int = _NYUL
    scale: Scale | None = None
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Validate."""
        _one_of("method", self.method, Method)
        _one_of("target", self.target, TargetKind)
        _one_of("lesions", self.lesions, Lesions, None)
        if isinstance(self.freeze, str) or not all(isinstance(rule, str) for rule in self.freeze):
            raise InvalidValueError(f"freeze must be a list of rules, not {self.freeze!r}")
        object.__setattr__(self, "freeze", tuple(self.freeze))
        _one_of("objective", self.objective, Objective)
        _one_of("solver", self.solver, Solver)
        _one_of("scale", self.scale, Scale, None)
        if not (_is_number(self.regularisation) and self.regularisation >= 0):
            raise InvalidValueError(
                f"regularisation must be 0 or a positive number, not {self.regularisation!r}"
            )
        object.__setattr__(self, "regularisation", float(self.regularisation))
        self._refuse_ignored()
        if self.range is None:
            return
        try:
            low, high = self.range
        except (TypeError, ValueError):
            raise InvalidValueError(f"range must be a pair, not {self.range!r}") from None
        if not (_is_number(low) and _is_number(high) and low < high):
            raise InvalidValueError(f"range must rise from LOW to HIGH, not {low!r} to {high!r}")
        if self.scale is not None:
            raise InvalidValueError("range and scale both choose the units; give one of them")
        object.__setattr__(self, "range", (float(low), float(high)))

    def _refuse_ignored(self) -> None:
        """Refuse what the method would ignore."""
        if self.method != "ndflow" and (self.solver != "exact" or self.regularisation != _GAMMA):
            raise InvalidValueError("solver and regularisation are for the method 'ndflow' only")
        if self.method != "ndflow" and self.target != "average":
            raise InvalidValueError("target is for the method 'ndflow' only")
        if self.method != "ndflow" and (self.lesions or self.freeze):
            raise InvalidValueError("lesions and freeze are for the method 'ndflow' only")
        if self.lesions and self.freeze:
            raise InvalidValueError("lesions and freeze both choose components; give one of them")
        if self.method not in ("ndflow", "affine") and self.objective != "l2":
            raise InvalidValueError("objective is for the methods 'ndflow' and 'affine' only")
        if isinstance(self.landmarks, bool) or not (
            isinstance(self.landmarks, int) and 2 <= self.landmarks <= 1000
        ):
            raise InvalidValueError(f"landmarks must be 2 to 1000, not {self.landmarks!r}")
        if self.method != "nyul" and self.landmarks != _NYUL:
            raise InvalidValueError("landmarks is for the method 'nyul' only")


@dataclass(frozen=True)
class Writing:
    """How a result is written.

    Attributes
    ----------
    outside
        What becomes of voxels outside the mask: 0; what they are; or mapped like the others.
        By default zeros stay zero and the rest is mapped. NaN and infinity stay what they are,
        except outside with zero.
    dtype
        The type of the voxels.
    force
        Replace files that exist already.
    """

    outside: Outside | None = None
    dtype: DType = "float32"
    force: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        _one_of("outside", self.outside, Outside, None)
        _one_of("dtype", self.dtype, DType)
        if not isinstance(self.force, bool):
            raise InvalidValueError(f"force must be True or False, not {self.force!r}")


@dataclass(frozen=True)
class Averaging:
    """How the reference of a study is made and used.

    Attributes
    ----------
    mode
        Match each scan to the reference of all, which makes scans as alike as possible; or match
        the reference of each site to that of all, and apply its one map to all scans of the
        site, which keeps the variation within it; or (two-level) one after the other.
    average
        The mean of the densities, as in the paper; or of the quantiles, which keeps peaks sharp.
    """

    mode: Mode = "individual"
    average: Average = "density"

    def __post_init__(self) -> None:
        """Validate."""
        object.__setattr__(self, "mode", _SITE_SPELLINGS.get(self.mode, self.mode))
        _one_of("mode", self.mode, Mode)
        _one_of("average", self.average, Average)


Settings = Reading | Fitting | Matching | Writing | Averaging


def settings_from(chosen: Mapping[str, Any], *kinds: type[Settings]) -> tuple[Any, ...]:
    """Return settings of several kinds from keywords; refuse a keyword that none of them knows."""
    fields = {kind: {field.name for field in dataclasses.fields(kind)} for kind in kinds}
    known = {name for names in fields.values() for name in names}
    if unknown := sorted(chosen.keys() - known):
        raise InvalidValueError(
            f"there is no setting {unknown[0]!r}; the settings are {', '.join(sorted(known))}"
        )
    return tuple(
        kind(**{name: chosen[name] for name in names & chosen.keys()})
        for kind, names in fields.items()
    )


def flat(*settings: Settings) -> dict[str, Any]:
    """Return all fields of some settings, for the record."""
    return {name: part for group in settings for name, part in dataclasses.asdict(group).items()}


def _one_of(name: str, value: object, choices: Any, *more: object) -> None:
    allowed = (*get_args(choices), *more)
    if value not in allowed:
        listed = ", ".join(repr(choice) for choice in allowed)
        raise InvalidValueError(f"{name} must be one of {listed}, not {value!r}")


def _positive(settings: Settings, name: str) -> float:
    value: Any = getattr(settings, name)
    if not (_is_number(value) and value > 0):
        raise InvalidValueError(f"{name} must be a positive number, not {value!r}")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
