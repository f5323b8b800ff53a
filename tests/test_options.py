"""`Options`: each option is defined, validated, recorded and explained in one place."""

from typing import Any

import numpy as np
import pytest

from ndflow.errors import InvalidValueError
from ndflow.options import Options, Preparing, chosen_options, expert_options

WRONG: list[dict[str, Any]] = [
    *({"max_bytes": value} for value in (0, np.nan, "many", True)),
    {"effective_count": -5.0},
    {"regularisation": -1e-9},
    *({"landmarks": value} for value in (1, 7.5)),
    *({"freeze": value} for value in ("3", (3,), ("",), ("a", "b", "a"))),
    {"outside": ["zero"]},
    *({"range": value} for value in ((1, 1), (0, 1, 2), 5, (0, np.inf))),
    {"resolution": 2.0},
]


@pytest.mark.parametrize("chosen", WRONG)
def test_what_makes_no_sense_is_refused_by_name(chosen: dict[str, Any]) -> None:
    make = Preparing if {"space", "resolution"} & {*chosen} else Options
    with pytest.raises(InvalidValueError, match=next(iter(chosen))):
        make(**chosen)


def test_numbers_and_lists_of_any_kind_become_the_same_options() -> None:
    given: dict[str, Any] = {"effective_count": np.float32(500), "max_bytes": 1e6, "freeze": ["3"]}
    found = chosen_options(given | {"range": np.array([0.0, 2.0]), "mode": None})
    expected = [500.0, 1_000_000, ("3",), (0.0, 2.0)]  # None is not chosen
    assert [*found.values()] == expected
    assert [type(one) for one in found.values()] == [type(one) for one in expected]


def test_an_unknown_option_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidValueError, match="no option 'effectve_count'") as caught:
        chosen_options({"effectve_count": 5, "dtype": "int16"}, "fit", "write")
    assert "effective_count" in str(caught.value)
    assert "regularisation" not in str(caught.value)  # of another step


def test_expert_options_are_read_from_words() -> None:
    words = ["objective=cramer", "freeze=3,weight<0.02", "effective-count=1e3", "landmarks=7"]
    found = expert_options(words)
    assert [*found.values()] == ["cramer", ("3", "weight<0.02"), 1000.0, 7]
    assert Options(**found).landmarks == 7
