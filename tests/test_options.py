"""`Options`: each option is defined, validated, recorded and explained in one place."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from ndflow.errors import InvalidValueError
from ndflow.methods.base import method_of
from ndflow.options import (
    Options,
    Preparing,
    chosen_options,
    expert_options,
)

IGNORED: list[dict[str, Any]] = [
    {"solver": "rk4", "method": "nyul"},
    {"regularisation": 1.0, "method": "affine"},
    {"objective": "cramer", "method": "hellier"},
    {"landmarks": 7, "method": "quantile"},
    {"landmarks": 7, "method": "ndflow"},
    {"proportions": "tissue", "method": "affine"},
    {"freeze": ("3",), "method": "zscore"},
]

WRONG: list[dict[str, Any]] = [
    *({"max_bytes": value} for value in (0, np.nan, "many", True)),
    {"effective_count": -5.0},
    {"regularisation": -1e-9},
    *({"landmarks": value, "method": "nyul"} for value in (1, 7.5)),
    *({"freeze": value} for value in ("3", (3,), ("",), ("a", "b", "a"))),
    {"outside": ["zero"]},
    {"dtype": "complex64"},
    {"force": 1},
    *({"range": value} for value in ((1, 1), (0, 1, 2), 5, (0, np.inf))),
    {"range": (0, 1), "scale": "standard"},
]
WRONG_PREPARING: list[dict[str, Any]] = [
    {"space": "Talairach"},
    {"resolution": 2.0},
    {"resolution": 0.4, "space": "MNI"},
]


@pytest.mark.parametrize("chosen", WRONG)
def test_what_makes_no_sense_is_refused_by_name(chosen: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(chosen))):
        Options(**chosen)
    with pytest.raises(InvalidValueError, match=next(iter(chosen))):
        chosen_options(chosen)


@pytest.mark.parametrize("chosen", WRONG_PREPARING)
def test_preparing_validates_too(chosen: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(chosen))):
        Preparing(**chosen)


def test_the_defaults_are_those_of_the_paper() -> None:
    assert dataclasses.asdict(Options()) == {
        "mode": "individual",
        "average": "density",
        "balance": (),
        "effective_count": 1e4,
        "method": "ndflow",
        "proportions": "average",
        "freeze": (),
        "objective": "l2",
        "regularisation": 1e-3,
        "solver": "exact",
        "landmarks": 11,
        "scale": None,
        "range": None,
        "outside": None,
        "dtype": "float32",
        "force": False,
        "max_bytes": 4 << 30,
    }


def test_numbers_and_lists_of_any_kind_become_the_same_options() -> None:
    assert Options(effective_count=np.float32(500)) == Options(effective_count=500)
    assert Options(max_bytes=np.int64(500)) == Options(max_bytes=500)
    assert isinstance(Options(max_bytes=1e6).max_bytes, int)  # type: ignore[arg-type]
    assert isinstance(Options(regularisation=0).regularisation, float)
    assert Options(range=(np.int16(0), np.float64(2))) == Options(range=(0, 2))
    assert Options(range=np.array([0.0, 2.0])) == Options(range=(0, 2))  # type: ignore[arg-type]
    assert Options(freeze=["3"]) == Options(freeze=("3",))  # type: ignore[arg-type]


def test_chosen_options_are_those_that_are_not_none() -> None:
    chosen = {"dtype": "int16", "regularisation": 0, "mode": None, "range": [0, 1]}
    found = chosen_options(chosen)
    assert found == {"dtype": "int16", "regularisation": 0.0, "range": (0.0, 1.0)}
    assert isinstance(found["regularisation"], float)
    assert chosen_options({}) == {}


def test_an_unknown_option_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidValueError, match="no option 'effectve_count'") as caught:
        chosen_options({"effectve_count": 5, "dtype": "int16"}, "fit", "write")
    message = str(caught.value)
    assert "effective_count" in message
    assert "dtype" in message
    assert "regularisation" not in message  # of another step
    with pytest.raises(InvalidValueError, match="no option 'mode'"):
        chosen_options({"mode": "site"}, "fit", "match")


def test_expert_options_are_read_from_words() -> None:
    words = ["objective=cramer", "freeze=3,weight<0.02", "effective-count=1e3", "landmarks=7"]
    assert expert_options(words) == {
        "objective": "cramer",
        "freeze": ("3", "weight<0.02"),
        "effective_count": 1000.0,
        "landmarks": 7,
    }
    assert isinstance(expert_options(["landmarks=7"])["landmarks"], int)
    assert expert_options([]) == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["objective"], "--set objective: give NAME=VALUE"),
        (["=cramer"], "--set =cramer: give NAME=VALUE"),
        # It has an option of its own.
        (["dtype=int16"], "--set dtype=int16: give NAME=VALUE, where NAME is one of"),
        (["average=density"], "--set average=density: give NAME=VALUE"),  # of another step
        (["solver=rk4", "solver=exact"], "--set solver: given twice"),
        (["landmarks=many"], "landmarks must be a number, not 'many'"),
        (["regularisation="], "regularisation must be a number, not ''"),
    ],
)
def test_words_that_are_no_expert_options_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        expert_options(words, "fit", "match", "write")


@pytest.mark.parametrize("chosen", IGNORED)
def test_options_that_a_method_ignores_are_refused_by_name(chosen: dict[str, Any]) -> None:
    option = next(iter(chosen))
    message = f"{option} is not an option of the method '{chosen['method']}'; leave it out"
    with pytest.raises(InvalidValueError, match=message):
        method_of(Options(**chosen))
