"""A table of numbers, before it is written or shown."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Part", "Table"]

Part = float | int | str | None


class Table(NamedTuple):
    """A table.

    Attributes
    ----------
    name : of its file.
    columns : their names.
    rows : as many parts each.
    """

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[Part, ...]]
