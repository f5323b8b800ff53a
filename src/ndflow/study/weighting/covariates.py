"""Covariates of scans, such as age and sex, as columns of numbers or of categories.

A table holds text. A covariate is a number if most of its values are, and then all must be, or be
missing; otherwise its values are categories, of which there may be a few.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.image.subject import Scan
from ndflow.values import FloatArray

__all__ = ["Columns", "columns_of", "known_in", "number_of"]

Columns = dict[str, NDArray[Any]]  # by covariate: numbers, or names; NaN or "" if not known

_MOST_CATEGORIES = 10
_NAMED = 3  # scans in a message


def columns_of(scans: Sequence[Scan], names: Sequence[str]) -> Columns:
    """Return some covariates of all scans.

    Raises
    ------
    InvalidValueError
        Where no scan has one of them, or where its values are neither numbers nor few categories.
    """
    return {name: _column(scans, name) for name in names}


def known_in(columns: Mapping[str, NDArray[Any]], count: int) -> NDArray[np.bool_]:
    """Return for each of `count` scans whether all covariates are known."""
    known = np.ones(count, np.bool_)
    for values in columns.values():
        known &= values != "" if values.dtype.kind == "U" else ~np.isnan(values)
    return known


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


def _column(scans: Sequence[Scan], name: str) -> NDArray[Any]:
    texts = [scan.covariates.get(name) for scan in scans]
    if all(text is None for text in texts):
        known = ", ".join(sorted({other for scan in scans for other in scan.covariates}))
        raise InvalidValueError(
            f"balance: no scan has a covariate {name!r}; the covariates are: {known or 'none'}"
        )
    numbers = np.array([number_of(text) for text in texts])
    given = np.array([text is not None for text in texts])
    if 2 * np.count_nonzero(~np.isnan(numbers)) > np.count_nonzero(given):
        return _checked(scans, name, numbers, given)
    spelled = {
        text.casefold(): text for text in sorted({one for one in texts if one}, reverse=True)
    }
    if len(spelled) > _MOST_CATEGORIES:
        raise InvalidValueError(
            f"balance: {name} has {len(spelled)} different values, which are no numbers; choose a "
            f"covariate of numbers, or of at most {_MOST_CATEGORIES} categories"
        )
    return np.array(["" if text is None else spelled[text.casefold()] for text in texts])


def _checked(
    scans: Sequence[Scan], name: str, numbers: FloatArray, given: NDArray[np.bool_]
) -> FloatArray:
    """Return numbers, if all that is given is one."""
    wrong = [scans[place] for place in np.flatnonzero(given & np.isnan(numbers))]
    if wrong:
        listed = ", ".join(
            f"{scan.covariates[name]!r} ({scan.origin or scan.name})" for scan in wrong[:_NAMED]
        )
        more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        raise InvalidValueError(
            f"balance: some values of {name} are no numbers: {listed}{more}; correct them, or "
            f"write n/a where it is not known"
        )
    return numbers
