"""Every option that may change a result, once: its default, its choices and its explanation.

The command line shows the fields of `Options`, Python functions take them as keywords, and records
hold them. Expert settings are typed as ``--set NAME=VALUE``. Those that a preset decides
(`ndflow.subject.presets`) default to what the paper does.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ndflow.errors import InvalidValueError

# The available methods: one line each. A method lives in a module of `ndflow.methods` and keeps to
# the contract of `ndflow.methods.base`. To add one, write the module and its test, and add a line
# here; commands, studies, evaluations and reports find it by its name.
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

Average = Literal["density", "quantile"]
DType = Literal[
    "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"
]
ModeName = Literal["individual", "site", "two-level"]
NoMask = Literal["brain", "nonzero"]
Objective = Literal["l2", "cramer"]
Outside = Literal["zero", "keep", "map"]
PresetName = Literal["auto", "paper"]
Proportions = Literal["average", "tissue", "adaptive"]
Scale = Literal["positive", "standard", "target"]
Solver = Literal["exact", "rk4"]
Space = Literal["own", "MNI"]
TissueSource = Literal["given", "find", "none"]
Visits = Literal["together", "apart"]

Step = Literal["read", "fit", "average", "match", "write"]

F = TypeVar("F", bound=Callable[..., object])


def _option(
    default: Any,
    step: Step,
    *,
    by_preset: bool = False,
    expert: bool = False,
    metavar: str | None = None,
) -> Any:
    """Return the field of an option.

    Parameters
    ----------
    default : where neither the user nor a preset decides.
    step : the step of the work that it belongs to.
    by_preset : whether a preset decides it.
    expert : whether it is typed as ``--set NAME=VALUE``.
    metavar : what stands for its value in the help.
    """
    more = {"step": step, "by_preset": by_preset, "expert": expert, "metavar": metavar}
    return field(default=default, metadata=more)


@dataclass(frozen=True)
class Options:
    """What a user, or a preset, chose about the results of a scan or a study.

    Attributes
    ----------
    mode
        Match each scan (individual); only the average of each site, which keeps differences between
        its scans (site); or first the site, then each scan (two-level).
    average
        Average the densities of scans, as in the paper (density), or their quantiles, which keeps
        peaks sharp (quantile).
    balance
        Weight scans in references so that these covariates, such as age and sex, are alike at all
        sites; or, with subject, make references of sites from people who were scanned at several.
    visits
        Give the scans of a person one map, and each a straight line of its own, so that what
        changes between visits is kept (together); or match each by itself (apart).
    effective_count
        How many independent voxels a scan counts as at most; larger numbers let its density follow
        finer detail of the histogram.
    method
        The density flow (ndflow); mean and standard deviation of the density (affine) or the voxels
        (zscore); or, to compare with, nyul, quantile or hellier.
    proportions
        Match scans to the average density of the reference (average), or to its tissues in the
        scan's own proportions: of its tissue maps (tissue), or estimated (adaptive).
    freeze
        Keep components of the scan's density where z-scoring puts them: by index (3), weight
        (weight<0.02) or intensity (900:1200). On the command line, commas separate rules.
    objective
        What the match minimises: the L2 divergence of the paper (l2), or the Cramér distance
        (cramer), which is sensitive to light tails too.
    regularisation
        How strongly the components of the scan are held back from moving, from 0 (not at all).
    solver
        Compute the flow in closed form (exact), or integrate it step by step as in the paper (rk4).
    landmarks
        How many percentiles nyul matches, from the 1st to the 99th.
    scale
        The units of the result: mean 500, standard deviation 125 (positive); mean 0, standard
        deviation 1 (standard); or those of a target image (target). Default: target for an image,
        or else positive (standard with zscore).
    range
        Where the 0.1st and 99.9th percentiles of the target lie in the result, instead of a scale.
    outside
        Voxels outside the mask become 0 (zero), stay as they are (keep), or are mapped like the
        others (map). Default: zeros stay zero and the rest is mapped.
    dtype
        The data type of the result, such as int16.
    force
        Replace results of ndflow that exist already, never other files.
    max_bytes
        The largest file that is read, in bytes after decompression.
    """

    mode: ModeName = _option("individual", "average", by_preset=True)
    average: Average = _option("density", "average", by_preset=True, expert=True)
    balance: tuple[str, ...] = _option((), "average", metavar="NAME...")
    visits: Visits = _option("together", "average", expert=True)
    effective_count: float = _option(1e4, "fit", expert=True, metavar="N")
    method: MethodName = _option("ndflow", "match")
    proportions: Proportions = _option("average", "match", by_preset=True)
    freeze: tuple[str, ...] = _option((), "match", expert=True, metavar="RULE")
    objective: Objective = _option("l2", "match", by_preset=True, expert=True)
    regularisation: float = _option(1e-3, "match", by_preset=True, expert=True, metavar="NUMBER")
    solver: Solver = _option("exact", "match", expert=True)
    landmarks: int = _option(11, "match", expert=True, metavar="N")
    scale: Scale | None = _option(None, "match")
    range: tuple[float, float] | None = _option(None, "match", metavar="LOW HIGH")
    outside: Outside | None = _option(None, "write", expert=True)
    dtype: DType = _option("float32", "write", metavar="TYPE")
    force: bool = _option(False, "write")
    max_bytes: int = _option(4 << 30, "read", expert=True, metavar="N")

    def __post_init__(self) -> None:
        """Validate each option; whether the method uses it, the method says."""
        _check_choices(self)
        for name in ("effective_count", "max_bytes"):
            value = getattr(self, name)
            _require(_is_number(value) and value > 0, name, "a positive number", value)
        least = _is_number(self.regularisation) and self.regularisation >= 0
        _require(least, "regularisation", "0 or a positive number", self.regularisation)
        count = isinstance(self.landmarks, int) and 2 <= self.landmarks <= 1000
        _require(count, "landmarks", "2 to 1000", self.landmarks)
        _set(
            self,
            balance=_words("balance", self.balance),
            freeze=_words("freeze", self.freeze),
            effective_count=float(self.effective_count),
            regularisation=float(self.regularisation),
            max_bytes=int(self.max_bytes),
        )
        if self.range is not None:
            ends = tuple(self.range) if isinstance(self.range, Iterable) else ()
            rises = len(ends) == 2 and all(map(_is_number, ends)) and ends[0] < ends[1]
            _require(rises, "range", "two numbers, from LOW to HIGH", self.range)
            if self.scale is not None:
                raise InvalidValueError("range and scale both choose the units; give one of them")
            _set(self, range=tuple(map(float, ends)))

    def of(self, *steps: Step) -> dict[str, Any]:
        """Return the options that belong to some steps, for a record or a fingerprint."""
        return {one.name: getattr(self, one.name) for one in options_of(*steps)}


@dataclass(frozen=True)
class Preparing:
    """How a raw scan is prepared.

    Attributes
    ----------
    mask
        For scans without a mask: find the brain, in T1w images (brain); or take all voxels but 0,
        where scans are skull-stripped already (nonzero).
    tissues
        Find tissues where no tissue probability maps are given (given), always (find), or never
        (none).
    no_bias_field
        Do not correct the bias field.
    space
        Leave scans where they are (own); or write copies in a common space beside them, aligned
        with the ICBM152 template by rotation and shift alone, so that brains keep their size (MNI).
    resolution
        With space MNI: the size of the voxels of the copies, from 0.5 to 8 mm. Default: 2.
    """

    mask: NoMask = "brain"
    tissues: TissueSource = "given"
    no_bias_field: bool = False
    space: Space = "own"
    resolution: float | None = None

    def __post_init__(self) -> None:
        """Validate."""
        _check_choices(self)
        if self.space == "MNI":
            size = 2.0 if self.resolution is None else self.resolution
            _require(_is_number(size) and 0.5 <= size <= 8, "resolution", "0.5 to 8 mm", size)
            _set(self, resolution=float(size))
        elif self.resolution is not None:
            raise InvalidValueError("resolution is that of copies; choose space MNI as well")


def options_of(*steps: Step) -> list[Field[Any]]:
    """Return the fields of the options that belong to some steps, or to any."""
    return [one for one in fields(Options) if not steps or one.metadata["step"] in steps]


def chosen_options(given: Mapping[str, Any], *steps: Step) -> dict[str, Any]:
    """Return the options that were chosen, those that are not None, once they are checked.

    Parameters
    ----------
    given : options by name.
    steps : the steps of work that there are; options of others are refused. Default: all.

    Raises
    ------
    InvalidValueError
        For a name that no option has, or a value that makes no sense.
    """
    known = [one.name for one in options_of(*steps)]
    if unknown := sorted(given.keys() - {*known}):
        raise InvalidValueError(f"there is no option {unknown[0]!r}; there are {', '.join(known)}")
    chosen = {name: value for name, value in given.items() if value is not None}
    checked = Options(**chosen)
    return {name: getattr(checked, name) for name in chosen}


def expert_options(words: Iterable[str], *steps: Step) -> dict[str, Any]:
    """Return the options of ``--set NAME=VALUE``, by name.

    Parameters
    ----------
    words : what was typed.
    steps : the steps of work that there are; settings of others are refused. Default: all.

    Raises
    ------
    InvalidValueError
        For a word without =, a name that is not one of the expert settings, or a bad value.
    """
    expert = [one for one in options_of(*steps) if one.metadata["expert"]]
    known = {one.name.replace("_", "-"): one for one in expert}
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in known or not equals:
            raise InvalidValueError(
                f"--set {word}: give NAME=VALUE, where NAME is one of {', '.join(known)}; "
                f"--set help explains them"
            )
        found[known[name].name] = _parsed(known[name], value)
    return found


def typed_options(options: object, *steps: Step) -> dict[str, Any]:
    """Return the options that the user typed, by name, of some steps of work."""
    typed = {} if options is None else {**vars(options)}
    expert = expert_options(typed.pop("expert", ()), *steps)
    return {name: value for name, value in typed.items() if value is not None} | expert


def _parsed(one: Field[Any], value: str) -> Any:
    """Return the value of an expert setting from a word."""
    if isinstance(one.default, tuple):
        return tuple(value.split(","))
    if not isinstance(one.default, int | float):
        return value
    try:
        number = float(value)
    except ValueError:
        raise InvalidValueError(f"{one.name} must be a number, not {value!r}") from None
    return int(number) if isinstance(one.default, int) and number.is_integer() else number


def documented(*steps: Step) -> Callable[[F], F]:
    """Return a decorator that adds the options of some steps to a function's documentation.

    Its keyword arguments `options` become parameters in its signature, each explained.
    """

    def decorate(function: F) -> F:
        found = options_of(*steps)
        signature = inspect.signature(function)
        hints = get_type_hints(Options)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        more = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None if one.metadata["by_preset"] else one.default,
                annotation=hints[one.name] | None if one.metadata["by_preset"] else hints[one.name],
            )
            for one in found
        ]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        before, section, after = (inspect.getdoc(function) or "").partition("Returns\n-------")
        lines = [f"{one.name} : {sentence(one)}" for one in found]
        function.__doc__ = f"{before.rstrip()}\n" + "\n".join(lines) + f"\n\n{section}{after}"
        return function

    return decorate


def sentence(one: Field[Any]) -> str:
    """Return the explanation of an option, from the documentation of `Options`."""
    explained = inspect.getdoc(Options) or ""
    found = re.search(rf"^{one.name}\n((    .*\n?)+)", explained, re.MULTILINE)
    text = " ".join(found[1].split()) if found else ""
    return f"{text} Default: what the preset says." if one.metadata["by_preset"] else text


def _is_number(value: object) -> bool:
    """Whether a value is a finite real number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


@cache
def choices_of(kind: type[Any]) -> dict[str, tuple[object, ...]]:
    """Return the values that each field of a class may have, where these are a few."""
    found = {}
    for name, hint in get_type_hints(kind).items():
        parts = (hint, *get_args(hint))
        literal = next((one for one in parts if get_origin(one) is Literal), None)
        if literal is not None:
            found[name] = (*get_args(literal), *((None,) if type(None) in parts else ()))
    return found


def _check_choices(settings: Options | Preparing) -> None:
    kind: Any = type(settings)
    for name, allowed in choices_of(kind).items():
        value, listed = getattr(settings, name), ", ".join(map(repr, allowed))
        _require(value in allowed, name, f"one of {listed}", value)


def _words(name: str, value: object) -> tuple[str, ...]:
    words = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ("",)
    _require(all(isinstance(one, str) and one for one in words), name, "a list of words", value)
    if len({*words}) < len(words):
        raise InvalidValueError(f"{name}: {' '.join(words)}: the same twice; leave one out")
    return words


def _require(holds: bool, name: str, wanted: str, value: object) -> None:
    if not holds:
        raise InvalidValueError(f"{name} must be {wanted}, not {value!r}")


def _set(settings: Options | Preparing, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(settings, name, value)
