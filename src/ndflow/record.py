"""Records: what a file says about how it was made, as typed values.

A record is a frozen dataclass that derives from `Record`. `Record.to_dict` gives what JSON can hold
and leaves out what is None; `Record.from_dict` rebuilds the record from the types of its fields.
Keys that a record does not know are ignored, so that files of a later minor version can be read; a
field without a default must be there, and each must have the type that it claims.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.values import Value, short

__all__ = ["JSON", "Record"]

JSON = Any  # text, numbers, booleans, None, and lists and dictionaries of them


class Record:
    """A frozen dataclass that goes to JSON and back."""

    _types: ClassVar[dict[str, Any]]

    def to_dict(self) -> dict[str, JSON]:
        """Return the record as JSON can hold it, without the fields that are None."""
        return {
            field.name: _plain(part)
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


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _hints(kind: type[Record]) -> dict[str, Any]:
    """Return the types of the fields, computed once per class because that is slow."""
    if "_types" not in vars(kind):
        kind._types = get_type_hints(kind)
    return kind._types


def _plain(item: Any) -> JSON:
    if isinstance(item, Record | Value):
        return item.to_dict()
    if isinstance(item, np.ndarray):
        return item.tolist()
    if isinstance(item, tuple | list):
        return [_plain(part) for part in item]
    if isinstance(item, Mapping):
        return {str(key): _plain(part) for key, part in item.items()}
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
