"""Domain values: frozen, validated where they are made, unchanged by a trip through JSON.

A domain type is a frozen dataclass that derives from `Value`. Its ``__post_init__`` turns what it
is given into read-only arrays with `real_array` and refuses what makes no sense, so that no other
code has to check it again. `Value.to_dict` writes plain lists and numbers, and JSON keeps every
digit of a double, so ``from_dict(json.loads(json.dumps(v.to_dict()))) == v`` holds bit by bit.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.errors import InvalidValueError

__all__ = ["FloatArray", "Status", "Value", "einsum", "points", "positive", "real_array", "whole"]

FloatArray = NDArray[np.float64]


class Value:
    """Equality and a dictionary form for frozen dataclasses that hold arrays."""

    _kinds: ClassVar[dict[str, type[Value]]] = {}

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
        array = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
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
    """Return `value` if it is a finite positive number (or zero, where that is allowed)."""
    least = "zero or a positive number" if zero else "a positive number"
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidValueError(f"{name} must be {least}, not {value!r}") from None
    if not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise InvalidValueError(f"{name} must be {least}, not {value!r}")
    return number


def whole(value: int, name: str, low: int, high: int) -> int:
    """Return `value` if it is a whole number between two bounds, both included."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidValueError(f"{name} must be a whole number, not {value!r}") from None
    if isinstance(value, bool) or not low <= number <= high:
        raise InvalidValueError(f"{name} must lie between {low} and {high}, not {value!r}")
    return number


def points(x: ArrayLike, channels: int) -> tuple[FloatArray, tuple[int, ...]]:
    """Return `x` as points ``(n, channels)``, and the shape of one number a point.

    One channel: an array of any shape holds one point an element, and ``(n, 1)`` holds n points.
    Several channels: the last axis is the channel.
    """
    array = np.asarray(x, dtype=np.float64)
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
    return item


def _rebuilt(data: Any) -> Any:
    if isinstance(data, list):
        return [_rebuilt(part) for part in data] if any(isinstance(p, dict) for p in data) else data
    if not isinstance(data, Mapping):
        return data
    kind = Value._kinds.get(str(data.get("type")))
    if kind is None or not dataclasses.is_dataclass(kind):
        raise InvalidValueError(f"{data.get('type')!r} is not a type of value that ndflow knows")
    given = {key: _rebuilt(part) for key, part in data.items() if key != "type"}
    known = {f.name for f in dataclasses.fields(kind)}
    if given.keys() != known:
        wrong = ", ".join(sorted(map(str, given.keys() ^ known)))
        raise InvalidValueError(f"a {kind.__name__} with missing or unknown entries: {wrong}")
    return kind(**given)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return bool(a == b)
