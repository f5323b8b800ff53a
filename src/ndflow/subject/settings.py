"""What a user may choose about a run, in the groups that belong together.

The command line shows these very classes as its options, and Python functions take their fields as
keywords, so each choice has one name, one default and one explanation. What a user leaves open in
`AveragingChoices` and `MatchingChoices`, a preset decides (`ndflow.subject.presets`); `Averaging`
and `Matching` are the same with nothing left open.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ndflow.errors import InvalidValueError
from ndflow.methods.matching import Matching, check_choice, is_number

Average = Literal["density", "quantile"]
ModeName = Literal["individual", "site", "two-level"]
DType = Literal[
    "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"
]
NoMask = Literal["brain", "nonzero"]
Outside = Literal["zero", "keep", "map"]
PresetName = Literal["auto", "paper"]
Space = Literal["own", "MNI"]

_RESOLUTION = 2.0  # mm, of copies
_RESOLUTIONS = (0.5, 8.0)  # the least and the largest


@dataclass(frozen=True)
class Reading:
    """How files are read.

    Attributes
    ----------
    max_bytes
        The largest file that is read, in bytes after decompression.
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
        How many independent voxels a scan counts as at most; larger numbers let the density follow
        finer detail of the histogram.
    """

    effective_count: float = 1e4

    def __post_init__(self) -> None:
        """Validate."""
        object.__setattr__(self, "effective_count", _positive(self, "effective_count"))


@dataclass(frozen=True)
class Writing:
    """How a result is written.

    Attributes
    ----------
    outside
        Voxels outside the mask become 0 (zero), stay as they are (keep), or are mapped like the
        others (map). Default: zeros stay zero and the rest is mapped.
    dtype
        The data type of the voxels of the result.
    force
        Replace results that exist already, but never a file that ndflow did not write.
    """

    outside: Outside | None = None
    dtype: DType = "float32"
    force: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        check_choice("outside", self.outside, Outside, None)
        check_choice("dtype", self.dtype, DType)
        if not isinstance(self.force, bool):
            raise InvalidValueError(f"force must be True or False, not {self.force!r}")


@dataclass(frozen=True)
class AveragingChoices:
    """How the reference of a study is made and used, as far as a user says so.

    Attributes
    ----------
    mode
        Match each scan to the common reference (individual); match only the average of each site,
        which keeps the differences between its scans (site); or first the site, then each scan
        (two-level). Default: what the preset says.
    average
        Average the densities, as in the paper (density); or their quantiles, which keeps peaks
        sharp (quantile). Default: what the preset says.
    balance
        Covariates, such as age and sex: weight the scans in references so that these are alike at
        all sites, and the maps of sites do not remove their effects. Default: all scans count the
        same.
    """

    _open: ClassVar[tuple[None, ...]] = (None,)  # what stands for a choice that is left open

    mode: ModeName | None = None
    average: Average | None = None
    balance: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate."""
        check_choice("mode", self.mode, ModeName, *self._open)
        check_choice("average", self.average, Average, *self._open)
        names = None if isinstance(self.balance, str) else tuple(self.balance)
        if names is None or not all(isinstance(one, str) and one for one in names):
            raise InvalidValueError(f"balance must be names of covariates, not {self.balance!r}")
        if len({*names}) < len(names):
            raise InvalidValueError(f"balance: {' '.join(names)}: the same twice; leave one out")
        object.__setattr__(self, "balance", names)


@dataclass(frozen=True)
class Averaging(AveragingChoices):
    """How the reference of a study is made and used, with nothing left open.

    See `AveragingChoices`. The defaults are those of the paper.
    """

    _open: ClassVar[tuple[None, ...]] = ()

    mode: ModeName = "individual"
    average: Average = "density"


@dataclass(frozen=True)
class Preparing:
    """How a raw scan is prepared.

    Attributes
    ----------
    mask
        For scans without a mask in the table: find the brain, in T1w images (brain); or take all
        voxels but 0, where scans are skull-stripped already (nonzero).
    no_bias_field
        Do not correct the bias field.
    no_tissues
        Do not find tissues. Tissue probability maps that the table names are kept.
    new_tissues
        Find tissues even where the table names tissue probability maps, instead of keeping these.
    space
        Leave scans where they are (own); or write copies in a common space beside them, aligned
        with the ICBM152 template by rotation and shift alone, so that brains keep their size (MNI).
    resolution
        With space MNI: the size of the voxels of the copies, from 0.5 to 8 mm. Default: 2.
    """

    mask: NoMask = "brain"
    no_bias_field: bool = False
    no_tissues: bool = False
    new_tissues: bool = False
    space: Space = "own"
    resolution: float | None = None

    def __post_init__(self) -> None:
        """Validate."""
        check_choice("mask", self.mask, NoMask)
        for name in ("no_bias_field", "no_tissues", "new_tissues"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidValueError(
                    f"{name} must be True or False, not {getattr(self, name)!r}"
                )
        if self.no_tissues and self.new_tissues:
            raise InvalidValueError("no_tissues and new_tissues: give one of them")
        check_choice("space", self.space, Space)
        self._check_resolution()

    def _check_resolution(self) -> None:
        if self.space == "own":
            if self.resolution is not None:
                raise InvalidValueError(
                    "resolution is that of copies in a common space; choose space MNI, "
                    "or leave it out"
                )
            return
        least, largest = _RESOLUTIONS
        value = _RESOLUTION if self.resolution is None else self.resolution
        if not (is_number(value) and least <= value <= largest):
            raise InvalidValueError(
                f"resolution must be a number of mm from {least:g} to {largest:g}, not {value!r}"
            )
        object.__setattr__(self, "resolution", float(value))


Settings = Reading | Fitting | Matching | Writing | Averaging | Preparing


def settings_from(chosen: Mapping[str, Any], *kinds: type[Settings]) -> tuple[Any, ...]:
    """Return settings of several kinds from a record of all their fields.

    Raises
    ------
    InvalidValueError
        For a name that none of them has, or a value that makes no sense.
    """
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


def _positive(settings: Settings, name: str) -> float:
    value: Any = getattr(settings, name)
    if not (is_number(value) and value > 0):
        raise InvalidValueError(f"{name} must be a positive number, not {value!r}")
    return float(value)
