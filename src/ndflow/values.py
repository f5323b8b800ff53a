"""Domain values: frozen, validated where they are made, unchanged by a trip through JSON.

A domain type is a frozen dataclass that derives from `Value`. Its ``__post_init__`` turns what it
is given into read-only arrays with `real_array` and refuses what makes no sense, so that no other
code has to check it again. `Value.to_dict` writes plain lists and numbers, and JSON keeps every
digit of a double, so ``from_dict(json.loads(json.dumps(v.to_dict()))) == v`` holds bit by bit.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError

__all__ = [
    "FloatArray",
    "Status",
    "Value",
    "einsum",
    "instance",
    "points",
    "positive",
    "real",
    "real_array",
    "short",
    "whole",
]

FloatArray = NDArray[np.float64]

_DEEPEST = 32  # nested values, in a file that is not hostile


class Value:
    """Equality and a dictionary form for frozen dataclasses that hold arrays."""

    _kinds: ClassVar[dict[str, type[Value]]] = {}
    _verbatim: ClassVar[frozenset[str]] = frozenset()  # fields of plain data, never values

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make the type known by its name, so that `from_dict` finds it."""
        super().__init_subclass__(**kwargs)
        Value._kinds[cls.__name__] = cls

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain numbers, strings, lists and dictionaries."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {"type": type(self).__name__} | {
            f.name: _plain(getattr(self, f.name)) for f in fields
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild the value from `to_dict`; called on a base class, of whichever kind it names."""
        value = _rebuilt(data)
        if not isinstance(value, cls):
            raise InvalidValueError(
                f"expected a {cls.__name__}, got a {type(value).__name__}; "
                f"check that this is the right file"
            )
        return value

    def __eq__(self, other: object) -> bool:
        """Tell whether two values of one type agree in every bit."""
        if type(self) is not type(other):
            return NotImplemented
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields)

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass(frozen=True, eq=False)
class Status(Value):
    """How an iteration ended.

    Attributes
    ----------
    converged : whether it stopped because there was nothing left to gain.
    iterations : how many it took.
    message : the same in words, with what to try where it did not converge.
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
    """Return how a message shows something that may be huge or deeply nested."""
    return reprlib.repr(value)


def instance(value: object, name: str, kind: type | UnionType) -> None:
    """Refuse a part that is not of the kind it should be."""
    if not isinstance(value, kind):
        wanted = getattr(kind, "__name__", str(kind))
        raise InvalidValueError(f"{name} must be of the type {wanted}, not {short(value)}")


def einsum(subscripts: str, *operands: NDArray[np.floating[Any]]) -> FloatArray:
    """`numpy.einsum`, which sums in a fixed order, unlike products that go through BLAS."""
    result: FloatArray = np.einsum(subscripts, *operands)
    return result


def real_array(value: ArrayLike, name: str, *shape: int | None) -> FloatArray:
    """Return `value` as a read-only array of finite doubles, or say what is wrong with it.

    Parameters
    ----------
    value : anything numpy can read as numbers.
    name : how messages call it.
    shape : the length of each axis; None where any length will do. Missing trailing axes are added
        with length 1, so that one channel may be written without them.
    """
    try:
        given = np.asarray(value)
        if given.dtype.kind in "USV" or any(
            isinstance(part, str | bytes) for part in _loose(given)
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


def _loose(array: NDArray[Any]) -> Iterable[object]:
    """The elements that numpy has no number type for."""
    return array.flat if array.dtype.kind == "O" else ()


def positive(value: float, name: str, *, zero: bool = False) -> float:
    """Return `value` if it is a finite positive number (or zero, where that is allowed)."""
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
    """Return `value` if it is a whole number between two bounds, both included."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidValueError(f"{name} must be a whole number, not {short(value)}") from None
    if isinstance(value, bool) or not low <= number <= high:
        raise InvalidValueError(f"{name} must lie between {low} and {high}, not {short(value)}")
    return number


def points(x: ArrayLike, channels: int) -> tuple[FloatArray, tuple[int, ...]]:
    """Return `x` as points ``(n, channels)``, and the shape of one number a point.

    One channel: an array of any shape holds one point an element, and ``(n, 1)`` holds n points.
    Several channels: the last axis is the channel.
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


def _plain(item: Any) -> Any:
    if isinstance(item, Value):
        return item.to_dict()
    if isinstance(item, np.ndarray):
        return item.tolist()
    if isinstance(item, tuple | list):
        return [_plain(part) for part in item]
    if isinstance(item, dict):
        return {key: _plain(part) for key, part in item.items()}
    return item


def _rebuilt(data: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise InvalidValueError(f"values must not be nested more than {_DEEPEST} deep")
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
    known = {f.name for f in dataclasses.fields(kind)}
    if given.keys() != known:
        wrong = ", ".join(sorted(map(str, given.keys() ^ known)))
        raise InvalidValueError(f"a {kind.__name__} with missing or unknown entries: {wrong}")
    return kind(**given)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, float) and isinstance(b, float):
        return a.hex() == b.hex()  # tells 0.0 from -0.0
    return bool(a == b)
