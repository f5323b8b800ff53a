"""Domain values: frozen, validated on construction, unchanged by a round trip through JSON.

A domain type derives from `Value` and is decorated with
``@dataclass(frozen=True, eq=False, repr=False)``: equality and repr come from `Value`. Its
``__post_init__`` converts its arguments to read-only arrays with `real_array` and rejects what
makes no sense, so that no other code has to check again. `Value.to_dict` writes plain lists and
numbers, and JSON keeps every digit of a double, so that
``from_dict(json.loads(json.dumps(v.to_dict()))) == v`` holds to the last bit.
"""

from __future__ import annotations

import dataclasses
import operator
import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError

FloatArray = NDArray[np.float64]

_MAX_DEPTH = 32  # of nested values; only a hostile file goes deeper


class Value:
    """Base of frozen dataclasses that hold arrays: equality, a dictionary form and a short repr."""

    _kinds: ClassVar[dict[str, type[Value]]] = {}
    _verbatim: ClassVar[frozenset[str]] = frozenset()  # fields of plain data, never nested values
    _most: ClassVar[Mapping[str, int]] = {}  # longest stored fields: a file must not cost gigabytes

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Register the type under its name, so that `from_dict` finds it."""
        super().__init_subclass__(**kwargs)
        Value._kinds[cls.__name__] = cls

    def to_dict(self) -> dict[str, Any]:
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
            _check_length(type(self), name, part)
        named = {name: _json(part) for name, part in self._parts() if part is not None}
        return {"type": type(self).__name__} | named

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a value from the dictionary that `to_dict` wrote.

        Parameters
        ----------
        data : the dictionary; entries may be missing only for fields that have a default.

        Returns
        -------
        A value of the type that the dictionary names, which must be this class or a subclass.

        Raises
        ------
        InvalidValueError : an unknown type, missing or unknown entries, or values that the type
            itself rejects.
        """
        value = _rebuilt(data)
        if not isinstance(value, cls):
            raise InvalidValueError(
                f"expected a {cls.__name__}, got a {type(value).__name__}; "
                f"check that this is the right file"
            )
        return value

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same type and agree in every bit."""
        if not isinstance(other, Value) or type(self) is not type(other):
            return NotImplemented
        pairs = zip(self._parts(), other._parts(), strict=True)
        return all(_same(one, two) for (_, one), (_, two) in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return one short line: arrays by their shape, nested values by their type."""
        sketched = (f"{name}={_sketch(part)}" for name, part in self._parts())
        return f"{type(self).__name__}({', '.join(sketched)})"

    def _parts(self) -> list[tuple[str, Any]]:
        """The names and values of the fields."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return [(f.name, getattr(self, f.name)) for f in fields]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
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

    def __post_init__(self) -> None:
        """Validate."""
        instance(self.converged, "converged", bool | np.bool_)
        instance(self.message, "message", str)
        object.__setattr__(self, "converged", bool(self.converged))
        object.__setattr__(self, "iterations", whole(self.iterations, "iterations", 0, 1 << 53))


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


def instance(value: object, name: str, kind: type | UnionType) -> None:
    """Raise InvalidValueError unless `value` is an instance of `kind`; messages call it `name`."""
    if not isinstance(value, kind):
        wanted = getattr(kind, "__name__", str(kind))
        raise InvalidValueError(f"{name} must be of the type {wanted}, not {short(value)}")


def path_like(value: object, name: str) -> None:
    """Raise InvalidValueError unless `value` can be the path of a file; messages call it `name`."""
    if not isinstance(value, str | os.PathLike):
        raise InvalidValueError(f"{name} must be a path, not {short(value)}")


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
        if given.dtype.kind in "USV" or any(
            isinstance(part, str | bytes) for part in _objects(given)
        ):
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


def _objects(array: NDArray[Any]) -> Iterable[object]:
    """The elements of an array of objects; nothing for arrays of numbers."""
    return array.flat if array.dtype.kind == "O" else ()


def positive(value: float, name: str, *, zero: bool = False) -> float:
    """Return `value` as a float if it is finite and positive (or zero, if `zero` is True)."""
    least = "zero or a positive number" if zero else "a positive number"
    number = real(value, name)
    if number < 0 or (number == 0 and not zero):
        raise InvalidValueError(f"{name} must be {least}, not {short(value)}")
    return number


def real(value: float, name: str) -> float:
    """Return `value` as a finite float."""
    instance(value, name, float | int | np.floating | np.integer)
    return float(real_array(value, name))


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
        raise InvalidValueError(
            f"the last axis must hold the {channels} channels, but the shape is {array.shape}"
        )
    return array.reshape(-1, channels), array.shape[:-1]


def _rebuilt(data: Any, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise InvalidValueError(f"values must not be nested more than {_MAX_DEPTH} deep")
    if isinstance(data, list):
        plain = not any(isinstance(part, dict) for part in data)
        return data if plain else [_rebuilt(part, depth + 1) for part in data]
    if not isinstance(data, Mapping):
        return data
    name = data.get("type")
    kind = Value._kinds.get(name) if isinstance(name, str) else None
    if kind is None or not dataclasses.is_dataclass(kind):
        raise InvalidValueError(f"{short(name)} is not a type of value that ndflow knows")
    given = {
        key: part if key in kind._verbatim else _rebuilt(part, depth + 1)
        for key, part in data.items()
        if key != "type"
    }
    fields = dataclasses.fields(kind)
    missing = {f.name for f in fields if _is_required(f)} - given.keys()
    unknown = given.keys() - {f.name for f in fields}
    if missing or unknown:
        wrong = ", ".join(sorted(map(str, missing | unknown)))
        raise InvalidValueError(f"a {kind.__name__} with missing or unknown entries: {wrong}")
    for name, part in given.items():
        _check_length(kind, name, part)
    return kind(**given)


def _check_length(kind: type[Value], name: str, part: Any) -> None:
    most = kind._most.get(name)
    if most is not None and isinstance(part, list | tuple | np.ndarray) and len(part) > most:
        raise InvalidValueError(
            f"a {kind.__name__} of {len(part):,} {name}, where at most {most:,} may be stored"
        )


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _sketch(item: Any) -> str:
    if isinstance(item, Value):
        return type(item).__name__
    if isinstance(item, np.ndarray):
        return f"array{item.shape}"
    if isinstance(item, tuple) and any(isinstance(part, Value) for part in item):
        return f"({', '.join(map(_sketch, item))})"
    return f"{item:g}" if isinstance(item, float) else short(item)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, float) and isinstance(b, float):
        return a.hex() == b.hex()  # distinguishes 0.0 from -0.0
    return bool(a == b)


# ── records ───────────────────────────────────────────────────────────────────────────────────────
# Records: what a file says about how it was made, as typed values.
#
# A record is a frozen dataclass that derives from `Record`. `Record.to_dict` gives what JSON can
# hold and leaves out what is None; `Record.from_dict` rebuilds the record from the types of its
# fields. Keys that a record does not know are ignored, so that files of a later minor version can
# be read; a field without a default must be there, and each must have the type that it claims.

JSON = Any  # text, numbers, booleans, None, and lists and dictionaries of them


class Record:
    """A frozen dataclass that goes to JSON and back."""

    _types: ClassVar[dict[str, Any]]

    def to_dict(self) -> dict[str, JSON]:
        """Return the record as JSON can hold it, without the fields that are None."""
        return {
            field.name: _json(part)
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if (part := getattr(self, field.name)) is not None
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, JSON]) -> Self:
        """Rebuild the record from `to_dict`.

        Raises
        ------
        InvalidValueError
            Where a field is missing, or is not of the type that it should be.
        """
        if not isinstance(data, Mapping):
            raise InvalidValueError(f"it must be a JSON object, not {short(data)}")
        given: dict[str, Any] = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            if data.get(field.name) is not None:
                given[field.name] = _typed(_hints(cls)[field.name], data[field.name], field.name)
            elif _is_required(field):
                raise InvalidValueError(f"it has no {field.name!r}")
        return cls(**given)


def _hints(kind: type[Record]) -> dict[str, Any]:
    """Return the types of the fields, computed once per class because that is slow."""
    if "_types" not in vars(kind):
        kind._types = get_type_hints(kind)
    return kind._types


def _json(item: Any) -> JSON:
    if isinstance(item, Record | Value):
        return item.to_dict()
    if isinstance(item, np.ndarray):
        return item.tolist()
    if isinstance(item, tuple | list):
        return [_json(part) for part in item]
    if isinstance(item, Mapping):
        return {str(key): _json(part) for key, part in item.items()}
    return item


def _typed(hint: Any, part: JSON, name: str) -> Any:
    """Return a part of a JSON file as the type that its field has."""
    if hint is Any:
        return part
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (some,) = [option for option in parts if option is not type(None)]
        return _typed(some, part, name)
    if origin is tuple:
        return _typed_tuple(parts, part, name)
    if origin in (dict, Mapping):
        if not isinstance(part, Mapping):
            raise _wrong(name, "a JSON object", part)
        return {str(key): _typed(parts[1], item, f"{name}.{key}") for key, item in part.items()}
    if isinstance(hint, type) and issubclass(hint, Record | Value):
        try:
            return hint.from_dict(part)
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


def _typed_tuple(parts: tuple[Any, ...], part: JSON, name: str) -> tuple[Any, ...]:
    if not isinstance(part, list | tuple):
        raise _wrong(name, "a list", part)
    if len(parts) == 2 and parts[1] is Ellipsis:
        parts = (parts[0],) * len(part)
    if len(parts) != len(part):
        raise _wrong(name, f"a list of {len(parts)}", part)
    return tuple(_typed(hint, item, name) for hint, item in zip(parts, part, strict=True))


def _wrong(name: str, wanted: str, part: JSON) -> InvalidValueError:
    return InvalidValueError(f"{name} must be {wanted}, not {short(part)}")
