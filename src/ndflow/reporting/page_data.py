"""What the scripts of a page read, and how numbers and addresses of pictures are written in it.

Curves are drawn when somebody opens the row of a scan, so a page of 500 scans holds some 300,000
points that are rarely seen. They are written as whole numbers with a common exponent, ``[exponent,
first, second, ...]``, to about four digits of their range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any
from urllib.parse import quote

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.reporting.content import Curves, Page, ScanEntry, Slices

__all__ = ["column_digits", "known", "page_data", "picture_address", "picture_size", "shown"]

_PNG = b"\x89PNG\r\n\x1a\n"
_DIGITS = 3  # of a typical number of a column: enough to compare scans; of fractions, one less
_LEAST = 1e-4  # columns of smaller numbers have a power of ten


def page_data(page: Page) -> dict[str, Any]:
    """Return what the scripts of the page read: the scans, their curves, the grey windows."""
    return {
        "study": page.study or page.title,
        "windows": page.windows and [_window(window) for window in page.windows],
        "scans": [_scan_data(scan) for scan in page.scans],
    }


def _scan_data(scan: ScanEntry) -> dict[str, Any]:
    found: dict[str, Any] = {"name": scan.name, "site": scan.site}
    if scan.slices is not None:
        found["slices"] = _slices_data(scan.slices)
    if scan.curves is not None:
        found["curves"] = {
            field.name: _whole_numbers(getattr(scan.curves, field.name)) for field in fields(Curves)
        }
    return found


def _slices_data(slices: Slices) -> dict[str, Any]:
    found: dict[str, Any] = {
        "width": slices.width,
        "height": slices.height,
        "windows": [_window(slices.before), _window(slices.after)],
    }
    return found | {"lesion": slices.lesion} if slices.lesion else found


def _window(window: tuple[float, float]) -> list[float]:
    low, high = (float(f"{value:.6g}") for value in window)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidValueError(f"a grey window must be finite, not {window}")
    return [low, high]


def _whole_numbers(values: Sequence[float]) -> list[int | None]:
    """Return values as whole numbers after the exponent of ten that they are multiples of."""
    array = np.asarray(values, np.float64)
    finite = array[np.isfinite(array)]
    spread = (np.ptp(finite) or abs(finite[0])) if finite.size else 0
    exponent = math.floor(math.log10(spread)) - 3 if spread else 0
    scaled = array * 10.0**-exponent
    return [exponent, *(round(v) if math.isfinite(v) else None for v in scaled.tolist())]


def known(cell: str | float | None) -> bool:
    """Return whether a cell of the table has a value."""
    return isinstance(cell, str) or (cell is not None and not math.isnan(cell))


def column_digits(page: Page) -> list[int | None]:
    """Return how many decimals the numbers of each column of the table of scans have.

    They are the same for a whole column, so that its numbers can be compared at a glance: as many
    as give its median three digits, or two if it is below one; none where all are whole numbers;
    None where all are so small that they are written with a power of ten.
    """
    found: list[int | None] = []
    for column in range(len(page.columns)):
        cells = [scan.cells[column] for scan in page.scans]
        numbers = [abs(float(c)) for c in cells if not isinstance(c, str | None) and known(c)]
        numbers = [number for number in numbers if number and math.isfinite(number)]
        decimals: int | None = 0
        if any(number != round(number) for number in numbers):
            middle = sorted(numbers)[len(numbers) // 2]
            decimals = max(_DIGITS - 1 - math.floor(math.log10(middle)) - (middle < 1), 0)
            decimals = decimals if middle >= _LEAST else None
        found.append(decimals)
    return found


def shown(cell: str | float | None, decimals: int | None) -> str:
    """Return a cell as the table shows it, with the decimals of its column."""
    if cell is None or not known(cell):
        return "–"
    if isinstance(cell, str):
        return cell
    if decimals is None:
        digits, exponent = f"{cell:.1e}".split("e")
        return f"{digits}e{int(exponent)}".replace("-", "−") if cell else "0"
    least = 10.0**-decimals
    text = f"{cell:,.{decimals}f}"
    if 0 < abs(cell) < least / 2:
        sign = "<" if cell > 0 else ">"
        text = f"{sign}\N{NO-BREAK SPACE}{math.copysign(least, cell):.{decimals}f}"
    return text.replace("-", "−")


def picture_size(png: bytes) -> tuple[int, int]:
    """Return the width and height of a PNG, in pixels."""
    if not png.startswith(_PNG) or len(png) < 24:
        raise InvalidValueError("a picture of a page is not a PNG")
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def picture_address(link: str) -> str:
    """Return the path of a picture beside the page as an address relative to it."""
    return quote(link.encode("utf-8", "surrogateescape"))
