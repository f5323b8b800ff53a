"""Student's t-test, with an answer also where there is nothing to test.

``t = difference / standard error`` is compared with the t distribution. Two cases need a word:

- a difference that is no more than the rounding of the data it comes from is none: t = 0 and p = 1.
  (Rounding errors of the same sign over all scans would else be highly significant.)
- a difference without any error is infinitely many of them: p is the limit, 0 or 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

__all__ = ["NOTHING", "TestResult", "t_test"]

_ROUNDING = 1e-12  # of the size of the data


class TestResult(NamedTuple):
    """The outcome of a test.

    Attributes
    ----------
    statistic : the difference, in standard errors.
    p : how often chance alone gives one as large, where there is no difference.
    """

    statistic: float
    p: float


NOTHING = TestResult(0.0, 1.0)  # where there is nothing to test, or too little of it


def t_test(
    difference: float, error: float, freedom: int, size: float, *, two_sided: bool
) -> TestResult:
    """Return the outcome of a t-test.

    Parameters
    ----------
    difference : what is tested to be zero.
    error : its standard error.
    freedom : degrees of freedom.
    size : the largest number among the data, next to which rounding is judged.
    two_sided : else the question is whether the difference is negative.
    """
    if abs(difference) <= _ROUNDING * size:
        return NOTHING
    if error <= _ROUNDING * size:
        statistic = float(np.copysign(np.inf, difference))
    else:
        statistic = difference / error
    if two_sided:
        return TestResult(statistic, float(2 * special.stdtr(freedom, -abs(statistic))))
    return TestResult(statistic, float(special.stdtr(freedom, statistic)))
