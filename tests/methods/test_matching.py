"""`Options`: each choice is checked once, and options that a method ignores are refused."""

from typing import Any

import numpy as np
import pytest

from ndflow.errors import InvalidValueError
from ndflow.methods.base import method_of
from ndflow.methods.baselines import landmark_levels
from ndflow.options import METHODS, Options

WRONG: list[dict[str, Any]] = [
    *({"regularisation": value} for value in (-1e-9, np.nan, np.inf, None, False)),
    *({"landmarks": value, "method": "nyul"} for value in (1, 1001, 7.0, True, None)),
    {"method": "median"},
    {"method": None},
    {"target": "mean"},
    {"freeze": "3"},
    {"freeze": (3,)},
    {"objective": "kl"},
    {"solver": "euler"},
    {"scale": "unit"},
    *({"range": value} for value in ((1, 0), (1, 1), (0,), (0, 1, 2), 5, "01")),
    *({"range": value} for value in ((0, np.inf), (np.nan, 1), (0, None), (False, 1))),
    {"range": (0, 1), "scale": "standard"},
    {"range": (0, 1), "scale": "target"},
]
IGNORED: list[dict[str, Any]] = [
    {"solver": "rk4", "method": "nyul"},
    {"regularisation": 1.0, "method": "affine"},
    {"objective": "cramer", "method": "hellier"},
    {"landmarks": 7, "method": "quantile"},
    {"landmarks": 7, "method": "ndflow"},
    {"target": "tissue", "method": "affine"},
    {"freeze": ("3",), "method": "zscore"},
]


@pytest.mark.parametrize("chosen", WRONG)
def test_what_makes_no_sense_is_refused_by_name(chosen: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(chosen))):
        Options(**chosen)


@pytest.mark.parametrize("chosen", IGNORED)
def test_options_that_a_method_ignores_are_refused_by_name(chosen: dict[str, Any]) -> None:
    option = next(iter(chosen))
    message = f"{option} is not an option of the method '{chosen['method']}'; leave it out"
    with pytest.raises(InvalidValueError, match=message):
        method_of(Options(**chosen))


def test_an_unknown_method_is_told_the_known_ones() -> None:
    with pytest.raises(InvalidValueError, match="method must be one of") as caught:
        Options(method="mean")
    assert all(repr(name) in str(caught.value) for name in METHODS)
    assert "not 'mean'" in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    assert Options(range=(np.int16(0), np.float64(2))) == Options(range=(0, 2))
    assert Options(range=np.array([0.0, 2.0])) == Options(range=(0, 2))  # type: ignore[arg-type]
    assert Options(regularisation=0) == Options(regularisation=0.0)
    assert isinstance(Options(regularisation=0).regularisation, float)
    assert Options(freeze=["3"]) == Options(freeze=("3",))  # type: ignore[arg-type]


def test_nyul_has_the_percentiles_of_the_paper_by_default() -> None:
    tenths = [0.01, *np.arange(1, 10) / 10, 0.99]
    np.testing.assert_allclose(landmark_levels(Options().landmarks), tenths)
