"""Domain values and records: frozen, checked where they are made, unchanged by JSON.

A `Record` is a frozen dataclass: what a file says about how it was made. `Record.to_dict` gives
what JSON can hold and leaves out what is None; `Record.from_dict` rebuilds the record from the
types of its fields. Keys that a record does not know are ignored, so that files of a later minor
version can be read; a field without a default must be there, and each must have the type that it
claims.

A domain type derives from `Value`, a record that holds arrays, and is decorated with
``@dataclass(frozen=True, eq=False, repr=False)``. Its ``__post_init__`` converts its arguments to
read-only arrays with `real_array` and rejects what makes no sense, so that no other code has to
check again. Its dictionary names its type, and has no other entries than its fields. JSON keeps
every digit of a double, so that ``from_dict(json.loads(json.dumps(v.to_dict()))) == v`` holds to
the last bit.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import reprlib
from collections.abc import Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError

FloatArray = NDArray[np.float64]

_MAX_DEPTH = 32  # of nested values; only a hostile file goes deeper


JSON = Any  # text, numbers, booleans, None, and lists and dictionaries of them


class Record:
    """A frozen dataclass that goes to JSON and back."""

    def to_dict(self) -> dict[str, JSON]:
        """Return the record as JSON can hold it, without the fields that are None."""
        return {name: _json(part) for name, part in self._parts() if part is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, JSON]) -> Self:
        """Rebuild the record from `to_dict`.

        Raises
        ------
        InvalidValueError
            Where a field is missing, is not of the type that it should be, or is rejected.
        """
        return _rebuilt(cls, data)

    @classmethod
    def _described(cls, data: Mapping[str, JSON]) -> type[Self]:
        """The class that a dictionary describes."""
        return cls

    def _parts(self) -> list[tuple[str, Any]]:
        """The names and values of the fields."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return [(f.name, getattr(self, f.name)) for f in fields]


class Value(Record):
    """A record that holds arrays, is equal to another bit by bit, and names its type in JSON."""

    _kinds: ClassVar[dict[str, type[Value]]] = {}
    _most: ClassVar[Mapping[str, int]] = {}  # longest stored fields: a file must not cost gigabytes

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Register the type under its name, so that `from_dict` finds it."""
        super().__init_subclass__(**kwargs)
        Value._kinds[cls.__name__] = cls

    def to_dict(self) -> dict[str, JSON]:
        """Return the value as plain numbers, strings, lists and dictionaries.

        Returns
        -------
        The name of the type under ``"type"``, and one entry per field; fields that are None are
        left out.

        Raises
        ------
        InvalidValueError : a field has more entries than `from_dict` accepts.
        """
        for name, part in self._parts():
            self._check_length(name, part)
        return {"type": type(self).__name__} | super().to_dict()

    @classmethod
    def _described(cls, data: Mapping[str, JSON]) -> type[Self]:
        """The type that a dictionary names, which must be this class or a subclass."""
        name = data.get("type")
        kind = Value._kinds.get(name) if isinstance(name, str) else None
        if kind is None or not dataclasses.is_dataclass(kind) or not issubclass(kind, cls):
            raise InvalidValueError(f"its type must be {cls.__name__}, not {short(name)}")
        unknown = data.keys() - {"type", *(f.name for f in dataclasses.fields(kind))}
        if unknown:
            raise InvalidValueError(f"a {name} with unknown entries: {', '.join(sorted(unknown))}")
        for entry, part in data.items():
            kind._check_length(entry, part)
        return kind

    @classmethod
    def _check_length(cls, name: str, part: Any) -> None:
        most = cls._most.get(name)
        if most is not None and isinstance(part, list | tuple | np.ndarray) and len(part) > most:
            raise InvalidValueError(f"a {cls.__name__} of {len(part):,} {name}, at most {most:,}")

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same type and agree in every bit."""
        if not isinstance(other, Value) or type(self) is not type(other):
            return NotImplemented
        pairs = zip(self._parts(), other._parts(), strict=True)
        return all(_same(one, two) for (_, one), (_, two) in pairs)

    __hash__ = None  # type: ignore[assignment]

    def _set(self, **fields: Any) -> None:
        """Replace arguments, on construction, by what they were converted to."""
        for name, part in fields.items():
            object.__setattr__(self, name, part)


@dataclasses.dataclass(frozen=True, eq=False)
class Status(Value):
    """How an iterative algorithm ended.

    Attributes
    ----------
    converged : whether it stopped because there was nothing left to gain.
    iterations : how many iterations it took.
    message : the same in words, with what to try if it did not converge.

    Examples
    --------
    >>> from ndflow import Histogram, fit
    >>> fit(Histogram([1.0, 2.0, 3.0], [40.0, 80.0, 40.0])).status.converged
    True
    """

    converged: bool
    iterations: int
    message: str


@dataclasses.dataclass(frozen=True)
class Doubt(Record):
    """A reason to look at a scan or its result, although nothing failed.

    Attributes
    ----------
    kind : what is doubtful, in two or three words that are the same for all scans, such as "whole
        head"; a study counts its doubts by kind.
    text : what was seen in this scan, one sentence with its figures.
    hint : what to try, the same for all scans of a kind.

    Examples
    --------
    >>> str(Doubt("whole head", "It seems to show the skull.", "give a mask of the brain"))
    'whole head: it seems to show the skull; give a mask of the brain'
    """

    kind: str
    text: str
    hint: str

    def __str__(self) -> str:
        """Return kind, sentence and hint, for one line about one scan."""
        sentence = self.text[:1].lower() + self.text[1:].removesuffix(".")
        return f"{self.kind}: {sentence}; {self.hint}"


def short(value: object) -> str:
    """Return a repr for messages, abbreviated if the value is large or deeply nested."""
    return reprlib.repr(value)


def plural(count: int, noun: str) -> str:
    """Return a number with its noun: "1 scan", "2 scans"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return names in a sentence.

    Examples
    --------
    >>> listed(["T1w", "T2w", "FLAIR"])
    'T1w, T2w and FLAIR'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def first_of(names: Sequence[str], most: int = 5) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def instance(value: object, name: str, kind: type | UnionType) -> None:
    """Raise InvalidValueError unless `value` is an instance of `kind`; messages call it `name`."""
    if not isinstance(value, kind):
        wanted = getattr(kind, "__name__", str(kind))
        raise InvalidValueError(f"{name} must be of the type {wanted}, not {short(value)}")


def einsum(subscripts: str, *operands: NDArray[np.floating[Any]]) -> FloatArray:
    """Call `numpy.einsum`, which, unlike BLAS, always sums in the same order."""
    result: FloatArray = np.einsum(subscripts, *operands)
    return result


def real_array(value: ArrayLike, name: str, *shape: int | None) -> FloatArray:
    """Return `value` as a read-only array of finite doubles.

    Parameters
    ----------
    value : anything numpy can convert to numbers.
    name : what messages call it.
    shape : the length of each axis, None for any length. Missing trailing axes are added with
        length 1, so that one channel may be written without them.

    Raises
    ------
    InvalidValueError : `value` is not numeric, not finite or not of this shape.
    """
    try:
        given = np.asarray(value)
        if given.dtype.kind in "USV":
            raise TypeError("it holds text")
        array = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValueError(f"{name} must be an array of real numbers ({error})") from None
    array = array.reshape(array.shape + (1,) * (len(shape) - array.ndim))
    fits = array.ndim == len(shape) and all(
        shape[axis] in (None, array.shape[axis]) for axis in range(array.ndim)
    )
    if not fits:
        wanted = ", ".join("any" if want is None else str(want) for want in shape)
        raise InvalidValueError(f"{name} must have the shape ({wanted}), not {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidValueError(f"{name} must be finite, but holds NaN or infinity")
    array.flags.writeable = False
    return array


def positive(value: float, name: str, *, zero: bool = False) -> float:
    """Return `value` as a float if it is finite and positive (or zero, if `zero` is True)."""
    number = real(value, name)
    if number < 0 or (number == 0 and not zero):
        wanted = f"{'zero or ' if zero else ''}a positive number"
        raise InvalidValueError(f"{name} must be {wanted}, not {short(value)}")
    return number


def real(value: float, name: str) -> float:
    """Return `value` as a finite float."""
    instance(value, name, float | int | np.floating | np.integer)
    return float(real_array(value, name))


def number_of(text: str | None) -> float:
    """Return a value as a number; NaN if it is none.

    >>> number_of("34.5"), number_of("89+"), number_of(None)
    (34.5, nan, nan)
    """
    try:
        number = float(text or "nan")
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def whole(value: int, name: str, low: int, high: int) -> int:
    """Return `value` as an int if it is a whole number from `low` to `high`, both included."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidValueError(f"{name} must be a whole number, not {short(value)}") from None
    if isinstance(value, bool) or not low <= number <= high:
        raise InvalidValueError(f"{name} must lie between {low} and {high}, not {short(value)}")
    return number


def points(x: ArrayLike, channels: int) -> tuple[FloatArray, tuple[int, ...]]:
    """Return `x` as points ``(n, channels)``, and the shape of a result with one number per point.

    With one channel, every element of an array of any shape is a point, and ``(n, 1)`` holds n
    points. With several channels, the last axis is the channel.
    """
    given = np.asarray(x)
    if given.dtype.kind not in "buif":
        raise InvalidValueError(f"intensities must be real numbers, not of the type {given.dtype}")
    array = given.astype(np.float64, copy=False)
    if channels == 1 and not (array.ndim == 2 and array.shape[1] == 1):
        return array.reshape(-1, 1), array.shape
    if array.ndim == 0 or array.shape[-1] != channels:
        raise InvalidValueError(f"the last axis must hold {channels} channels, not {array.shape}")
    return array.reshape(-1, channels), array.shape[:-1]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, float) and isinstance(b, float):
        return a.hex() == b.hex()  # distinguishes 0.0 from -0.0
    return bool(a == b)


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────

_R = TypeVar("_R", bound=Record)
_hints = cache(get_type_hints)  # which is slow


def _json(item: Any) -> JSON:
    if isinstance(item, Record):
        return item.to_dict()
    if isinstance(item, np.ndarray):
        return item.tolist()
    if isinstance(item, tuple | list):
        return [_json(part) for part in item]
    if isinstance(item, Mapping):
        return {str(key): _json(part) for key, part in item.items()}
    return item


def _rebuilt(wanted: type[_R], data: JSON, depth: int = 0) -> _R:
    """Return the record, or the value, that a dictionary describes."""
    if depth > _MAX_DEPTH:
        raise InvalidValueError(f"values must not be nested more than {_MAX_DEPTH} deep")
    if not isinstance(data, Mapping):
        raise InvalidValueError(f"it must be a JSON object, not {short(data)}")
    kind = wanted._described(data)
    given: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        name = field.name
        if data.get(name) is not None:
            given[name] = _typed(_hints(kind)[name], data[name], name, depth + 1)  # type: ignore[arg-type]
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise InvalidValueError(f"it has no {name!r}")
    return kind(**given)


def _typed(hint: Any, part: JSON, name: str, depth: int) -> Any:
    """Return a part of a JSON file as the type that its field has."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any or origin is np.ndarray:  # arrays are checked by the value that holds them
        return part
    if origin in (Union, UnionType):
        (some,) = [option for option in parts if option is not type(None)]
        return _typed(some, part, name, depth)
    if origin is tuple:
        if not isinstance(part, list | tuple):
            raise _wrong(name, "a list", part)
        hints = (parts[0],) * len(part) if parts[-1] is Ellipsis else parts
        if len(hints) != len(part):
            raise _wrong(name, f"a list of {len(hints)}", part)
        return tuple(_typed(*pair, name, depth) for pair in zip(hints, part, strict=True))
    if origin in (dict, Mapping):
        if not isinstance(part, Mapping):
            raise _wrong(name, "a JSON object", part)
        return {str(k): _typed(parts[1], item, f"{name}.{k}", depth) for k, item in part.items()}
    if issubclass(hint, Record):
        try:
            return _rebuilt(hint, part, depth)
        except InvalidValueError as error:
            raise InvalidValueError(f"{name}: {error}") from None
    if hint is float and isinstance(part, int) and not isinstance(part, bool):
        try:
            return float(part)
        except OverflowError:
            raise _wrong(name, "a number that fits a double", part) from None
    if not isinstance(part, hint) or (isinstance(part, bool) and hint is not bool):
        raise _wrong(name, f"of the type {hint.__name__}", part)
    return part


def _wrong(name: str, wanted: str, part: JSON) -> InvalidValueError:
    return InvalidValueError(f"{name} must be {wanted}, not {short(part)}")
