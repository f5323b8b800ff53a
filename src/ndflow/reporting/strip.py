"""Scans as points by site: one number of each, the first one in which they differ.

Places are in per cent of the width and the height, so that a page can be of any width.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ndflow.reporting.content import Column, Page

FEW = 3  # so few scans need no overview

_TICKS = 6  # along the axis, at most
_GOLDEN = 0.5 * (5**0.5 - 1)  # its multiples spread points evenly, without randomness


class Point(NamedTuple):
    """A scan: its number on the page, its value, and where it is drawn."""

    number: int
    value: float
    across: float
    down: float


class Row(NamedTuple):
    """The scans of a site, with their median, and where that is drawn."""

    site: str
    median: float
    middle: float
    points: list[Point]


class Strip(NamedTuple):
    """What is drawn: which number, (place, text) of the ticks, and a row per site."""

    column: Column
    ticks: list[tuple[float, str]]
    rows: list[Row]


def strip_of(page: Page) -> Strip | None:
    """Return the first column of numbers that differ between scans, drawn by site."""
    for place, column in enumerate(page.columns):
        cells = {number: scan.cells[place] for number, scan in enumerate(page.scans, 1)}
        known = {
            number: float(cell)
            for number, cell in cells.items()
            if cell is not None and not isinstance(cell, str) and math.isfinite(cell)
        }
        if len(known) > FEW and len(set(known.values())) > 1:
            return _drawn(page, column, known)
    return None


def _drawn(page: Page, column: Column, known: dict[int, float]) -> Strip:
    from matplotlib.ticker import MaxNLocator

    low, high = min(known.values()), max(known.values())
    ticks = MaxNLocator(_TICKS, steps=[1, 2, 5, 10]).tick_values(low, high)
    rows = []
    for site in sorted({scan.site for scan in page.scans}):
        own = {n: value for n, value in known.items() if page.scans[n - 1].site == site}
        points = [
            Point(n, own[n], _share(own[n], low, high), round(100 * (i * _GOLDEN % 1)))
            for i, n in enumerate(sorted(own, key=own.__getitem__))
        ]
        if points:
            median = float(np.median(list(own.values())))
            rows.append(Row(site, median, _share(median, low, high), points))
    return Strip(
        column,
        [(_share(tick, low, high), f"{tick:.6g}") for tick in ticks if low <= tick <= high],
        rows,
    )


def _share(value: float, low: float, high: float) -> float:
    return round(100 * (value - low) / (high - low), 1)
