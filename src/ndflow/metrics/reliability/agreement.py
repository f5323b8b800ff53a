"""A coefficient of agreement, with an interval."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Agreement"]


class Agreement(NamedTuple):
    """A coefficient of agreement between repeated scans.

    Attributes
    ----------
    value : 1 where they agree perfectly.
    low, high : the ends of its 95 % interval; None where there is none, as for two
        subjects.
    """

    value: float
    low: float | None = None
    high: float | None = None
