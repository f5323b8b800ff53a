"""Settings: one name, one default and one check for each choice."""

import dataclasses
from typing import Any, get_args

import numpy as np
import pytest
from ndflow.subject.settings import flat, settings_from

from ndflow.errors import InvalidValueError
from ndflow.methods.modes import MODES
from ndflow.options import ModeName, Options

KINDS = (Options, Options, Options, Options, Options)

WRONG: list[tuple[type[Any], dict[str, Any]]] = [
    *((Options, {"max_bytes": value}) for value in (0, -1, np.nan, "many", None, True)),
    *((Options, {"effective_count": value}) for value in (0, -5.0, np.inf, np.nan, "1", True)),
    (Options, {"method": "median"}),  # more of these in tests/methods/test_matching.py
    (Options, {"range": (0, 1), "scale": "standard"}),
    *((Options, {"mode": value}) for value in ("sites", None, "")),
    (Options, {"average": "mean"}),
    (Options, {"outside": "background"}),
    (Options, {"dtype": "complex64"}),
    (Options, {"dtype": None}),
    *((Options, {"force": value}) for value in (1, "yes", None)),
]


@pytest.mark.parametrize(("kind", "chosen"), WRONG)
def test_what_makes_no_sense_is_refused_by_name(kind: type[Any], chosen: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(chosen))):
        kind(**chosen)
    with pytest.raises(InvalidValueError, match=next(iter(chosen))):
        settings_from(chosen, *KINDS)


@pytest.mark.parametrize(
    "name",
    ["dtype", "outside", "scale", "method", "objective", "solver", "mode", "average"],
)
def test_a_wrong_choice_is_told_the_right_ones(name: str) -> None:
    right = {
        "dtype": ("float32", "uint64"),
        "outside": ("zero", "keep", "map"),
        "scale": ("standard", "target"),
        "method": ("ndflow", "affine"),
        "objective": ("l2", "cramer"),
        "solver": ("exact", "rk4"),
        "mode": ("individual", "site", "two-level"),
        "average": ("density", "quantile"),
    }
    with pytest.raises(InvalidValueError, match=f"{name} must be one of") as caught:
        settings_from({name: "nonsense"}, *KINDS)
    assert all(repr(choice) in str(caught.value) for choice in right[name])
    assert "'nonsense'" in str(caught.value)


def test_a_choice_that_cannot_be_compared_is_refused_too() -> None:
    with pytest.raises(InvalidValueError, match="outside must be one of"):
        Options(outside=["zero"])  # type: ignore[arg-type]


def test_the_defaults_are_those_of_the_paper_and_the_issue() -> None:
    assert flat(*(kind() for kind in KINDS)) == {
        "max_bytes": 4 << 30,
        "effective_count": 1e4,
        "method": "ndflow",
        "target": "average",
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
        "mode": "individual",
        "average": "density",
        "balance": (),
    }


def test_no_two_kinds_share_a_name() -> None:
    names = [field.name for kind in KINDS for field in dataclasses.fields(kind)]
    assert len(names) == len(set(names))


def test_keywords_find_their_kind() -> None:
    chosen = {"dtype": "int16", "regularisation": 0, "max_bytes": 1e6, "range": [0, 1]}
    options, options, options, options, options = settings_from(chosen, *KINDS)
    assert options == Options(max_bytes=1_000_000)
    assert isinstance(options.max_bytes, int)
    assert options == Options()
    assert options == Options(regularisation=0.0, range=(0.0, 1.0))
    assert options == Options(dtype="int16")
    assert options == Options()


def test_numbers_of_numpy_are_numbers() -> None:
    assert Options(effective_count=np.float32(500)) == Options(effective_count=500)
    assert Options(max_bytes=np.int64(500)) == Options(max_bytes=500)


def test_there_is_a_mode_for_each_name_and_a_name_for_each_mode() -> None:
    assert tuple(MODES) == get_args(ModeName)


def test_an_unknown_keyword_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidValueError, match="no setting 'effectve_count'") as caught:
        settings_from({"effectve_count": 5, "dtype": "int16"}, Options, Options)
    message = str(caught.value)
    assert "effective_count" in message
    assert "dtype" in message
    assert "regularisation" not in message  # not asked for here


def test_settings_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().force = True  # type: ignore[misc]
