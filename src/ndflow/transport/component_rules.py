"""Choosing components by rules that users write, for example those to freeze.

| rule                         | chooses                                                      |
|------------------------------|--------------------------------------------------------------|
| ``3``                        | the component with this index, counted from 0                |
| ``weight<0.02``              | components with less than this share of the voxels           |
| ``weight>0.3``               | components with more than this share of the voxels           |
| ``900:1200``, ``:50``, ``1200:`` | components whose mean lies in this range, ends included  |

Intensities are in the units of the mixture. Several rules choose the components that at least one
of them chooses. A weight or a range may choose nothing, because scans differ; an index that does
not exist is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.values import instance, short

__all__ = ["check_rules", "components_by_rule"]

_INDEX = re.compile(r"\d{1,9}", re.ASCII)
_WEIGHT = re.compile(r"weight\s*([<>])([^<>=]*)")
_FORMS = "an index (3), a weight (weight<0.02 or weight>0.3) or a range (900:1200, :50 or 1200:)"


def components_by_rule(mixture: GaussianMixture, rules: Iterable[str]) -> tuple[int, ...]:
    """Return the indices of the components that at least one of the rules chooses, in order.

    Parameters
    ----------
    mixture : a density of one channel.
    rules : strings such as ``"3"``, ``"weight<0.02"`` or ``"900:1200"``.

    Raises
    ------
    InvalidValueError : a rule that is not understood, or an index that does not exist.

    Examples
    --------
    >>> mixture = GaussianMixture([0.3, 0.69, 0.01], [300.0, 900.0, 1500.0], [1e-3] * 3)
    >>> components_by_rule(mixture, ["weight<0.02", ":500"])
    (0, 2)
    """
    if mixture.channels != 1:
        raise InvalidValueError(
            f"rules choose components of one channel only, but mixture has {mixture.channels}"
        )
    if isinstance(rules, str):
        raise InvalidValueError(f"rules must be a list of strings, not one string ({short(rules)})")
    picked = np.zeros(mixture.components, dtype=bool)
    for rule in rules:
        picked |= _follow(mixture, rule)
    return tuple(np.flatnonzero(picked).tolist())


def check_rules(rules: Iterable[str]) -> None:
    """Raise InvalidValueError for rules that are not understood, before any mixture is known.

    Examples
    --------
    >>> check_rules(["weight<0.02", "900:1200"])
    >>> check_rules(["weight=0.02"])
    Traceback (most recent call last):
    ...
    ndflow.errors.InvalidValueError: the rule 'weight=0.02' is not understood; ...
    """
    anything = GaussianMixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    for rule in rules:
        if not _INDEX.fullmatch(rule.strip()):
            _follow(anything, rule)


def _follow(mixture: GaussianMixture, rule: str) -> NDArray[np.bool_]:
    instance(rule, "each rule", str)
    text = rule.strip()
    if _INDEX.fullmatch(text):
        return _by_index(mixture.components, int(text), rule)
    weighty = _WEIGHT.fullmatch(text)
    if weighty:
        limit = _number(weighty[2], rule)
        if not 0 <= limit <= 1:
            raise InvalidValueError(
                f"the rule {short(rule)} must name a share of the voxels, from 0 to 1"
            )
        return mixture.weights < limit if weighty[1] == "<" else mixture.weights > limit
    low, colon, high = text.partition(":")
    if colon and text != ":":
        return _by_range(mixture, low, high, rule)
    raise InvalidValueError(f"the rule {short(rule)} is not understood; write {_FORMS}")


def _by_index(components: int, index: int, rule: str) -> NDArray[np.bool_]:
    if index >= components:
        raise InvalidValueError(
            f"the rule {short(rule)} names a component that does not exist; "
            f"write an index from 0 to {components - 1}"
        )
    picked = np.zeros(components, dtype=bool)
    picked[index] = True
    return picked


def _by_range(mixture: GaussianMixture, low: str, high: str, rule: str) -> NDArray[np.bool_]:
    begin = _number(low, rule) if low.strip() else -math.inf
    end = _number(high, rule) if high.strip() else math.inf
    if begin > end:
        raise InvalidValueError(f"the rule {short(rule)} must name the lower end first")
    means = mixture.means[:, 0]
    inside: NDArray[np.bool_] = (means >= begin) & (means <= end)
    return inside


def _number(text: str, rule: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidValueError(f"the rule {short(rule)} has no valid number; write {_FORMS}")
    return number
