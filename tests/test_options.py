"""`Options`: each option is defined, validated, recorded and explained in one place."""

import dataclasses
import inspect
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from ndflow.errors import InvalidValueError
from ndflow.methods.base import method_of
from ndflow.methods.baselines import landmark_levels
from ndflow.methods.modes import MODES
from ndflow.options import (
    METHODS,
    Keywords,
    ModeName,
    Options,
    Preparing,
    chosen_options,
    documented,
    expert_options,
    options_of,
)

WRONG: list[dict[str, Any]] = [
    *({"max_bytes": value} for value in (0, -1, np.nan, "many", True)),
    *({"effective_count": value} for value in (0, -5.0, np.inf, np.nan, "1", True)),
    *({"regularisation": value} for value in (-1e-9, np.nan, np.inf, False)),
    *({"landmarks": value, "method": "nyul"} for value in (1, 1001, 7.5, True)),
    *({"mode": value} for value in ("sites", "")),
    *({name: value} for name in ("balance", "freeze") for value in ("3", (3,), ("",), 3)),
    *({name: ("a", "b", "a")} for name in ("balance", "freeze")),
    {"average": "mean"},
    {"method": "median"},
    {"proportions": "mean"},
    {"objective": "kl"},
    {"solver": "euler"},
    {"scale": "unit"},
    {"outside": "background"},
    {"outside": ["zero"]},
    {"dtype": "complex64"},
    *({"force": value} for value in (1, "yes")),
    *({"range": value} for value in ((1, 0), (1, 1), (0,), (0, 1, 2), 5, "01")),
    *({"range": value} for value in ((0, np.inf), (np.nan, 1), (0, None), (False, 1))),
    {"range": (0, 1), "scale": "standard"},
    {"range": (0, 1), "scale": "target"},
]
NEVER_NONE = [one.name for one in options_of() if one.default is not None]
WRONG_PREPARING: list[dict[str, Any]] = [
    {"mask": "none"},
    {"tissues": "maybe"},
    {"space": "Talairach"},
    {"resolution": 2.0},
    *({"resolution": value, "space": "MNI"} for value in (0.4, 9, np.nan, "2", True)),
]
IGNORED: list[dict[str, Any]] = [
    {"solver": "rk4", "method": "nyul"},
    {"regularisation": 1.0, "method": "affine"},
    {"objective": "cramer", "method": "hellier"},
    {"landmarks": 7, "method": "quantile"},
    {"landmarks": 7, "method": "ndflow"},
    {"proportions": "tissue", "method": "affine"},
    {"freeze": ("3",), "method": "zscore"},
]


@pytest.mark.parametrize("chosen", WRONG)
def test_what_makes_no_sense_is_refused_by_name(chosen: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(chosen))):
        Options(**chosen)
    with pytest.raises(InvalidValueError, match=next(iter(chosen))):
        chosen_options(chosen)


@pytest.mark.parametrize("name", NEVER_NONE)
def test_an_option_with_a_default_is_never_none(name: str) -> None:
    with pytest.raises(InvalidValueError, match=name):
        Options(**{name: None})


@pytest.mark.parametrize("chosen", WRONG_PREPARING)
def test_preparing_validates_too(chosen: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(chosen))):
        Preparing(**chosen)


def test_copies_have_voxels_of_two_millimetres_by_default() -> None:
    assert Preparing(space="MNI").resolution == 2
    assert Preparing(space="MNI", resolution=1).resolution == 1
    assert Preparing().resolution is None


@pytest.mark.parametrize("name", ["method", "mode", "proportions", "outside", "dtype", "scale"])
def test_a_wrong_choice_is_told_the_right_ones(name: str) -> None:
    right = {
        "method": tuple(METHODS),
        "mode": ("individual", "site", "two-level"),
        "proportions": ("average", "tissue", "adaptive"),
        "outside": ("zero", "keep", "map"),
        "dtype": ("float32", "uint64"),
        "scale": ("positive", "standard", "target"),
    }
    with pytest.raises(InvalidValueError, match=f"{name} must be one of") as caught:
        Options(**{name: "nonsense"})
    assert all(repr(choice) in str(caught.value) for choice in right[name])
    assert "not 'nonsense'" in str(caught.value)


@pytest.mark.parametrize("chosen", IGNORED)
def test_options_that_a_method_ignores_are_refused_by_name(chosen: dict[str, Any]) -> None:
    option = next(iter(chosen))
    message = f"{option} is not an option of the method '{chosen['method']}'; leave it out"
    with pytest.raises(InvalidValueError, match=message):
        method_of(Options(**chosen))


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


def test_nyul_has_the_percentiles_of_the_paper_by_default() -> None:
    tenths = [0.01, *np.arange(1, 10) / 10, 0.99]
    np.testing.assert_allclose(landmark_levels(Options().landmarks), tenths)


def test_there_is_a_mode_for_each_name_and_a_name_for_each_mode() -> None:
    assert tuple(MODES) == get_args(ModeName)


def test_numbers_and_lists_of_any_kind_become_the_same_options() -> None:
    assert Options(effective_count=np.float32(500)) == Options(effective_count=500)
    assert Options(max_bytes=np.int64(500)) == Options(max_bytes=500)
    assert isinstance(Options(max_bytes=1e6).max_bytes, int)  # type: ignore[arg-type]
    assert isinstance(Options(regularisation=0).regularisation, float)
    assert Options(range=(np.int16(0), np.float64(2))) == Options(range=(0, 2))
    assert Options(range=np.array([0.0, 2.0])) == Options(range=(0, 2))  # type: ignore[arg-type]
    assert Options(freeze=["3"]) == Options(freeze=("3",))  # type: ignore[arg-type]


def test_options_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().force = True  # type: ignore[misc]


def test_options_of_a_step() -> None:
    options = Options(dtype="int16", effective_count=300)
    assert options.of("write") == {"outside": None, "dtype": "int16", "force": False}
    assert options.of("fit", "read") == {"effective_count": 300.0, "max_bytes": 4 << 30}
    assert options.of() == dataclasses.asdict(options)
    assert Options(**options.of()) == options


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


def test_a_function_is_documented_with_its_options() -> None:
    @documented("fit", "average")
    def normalised(image: str, **options: Any) -> str:
        """Return an image.

        Parameters
        ----------
        image : the image.

        Returns
        -------
        The image.
        """
        return image + "".join(options)

    parameters = inspect.signature(normalised).parameters
    names = [one.name for one in options_of("fit", "average")]
    assert list(parameters) == ["image", *names]
    assert parameters["effective_count"].default == Options().effective_count
    assert parameters["mode"].default is None  # the preset decides
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in names)
    explained, returns, rest = (inspect.getdoc(normalised) or "").partition("\n\nReturns\n-------")
    assert (returns, rest) == ("\n\nReturns\n-------", "\nThe image.")
    lines = explained.splitlines()
    assert lines[4] == "image : the image."
    assert [line.split(" : ")[0] for line in lines[5:]] == names
    for line, one in zip(lines[5:], options_of("fit", "average"), strict=True):
        assert one.metadata["text"] in line
        assert ("the preset" in line) == one.metadata["by_preset"]
    assert normalised("a", mode="site") == "amode"


def test_every_option_is_a_keyword_of_python_functions() -> None:
    hints, keywords = get_type_hints(Options), get_type_hints(Keywords)
    assert [*keywords] == [one.name for one in options_of()]
    for one in options_of():
        maybe = hints[one.name] | None if one.metadata["by_preset"] else hints[one.name]
        assert keywords[one.name] == maybe


def test_every_option_is_described_in_the_same_terms() -> None:
    terms = {"text", "step", "by_preset", "expert", "metavar"}
    assert all({*one.metadata} == terms for one in options_of())
