"""The public names, the options that verbs take, and what importing the package costs."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import ndflow
from ndflow.options import Preparing, options_of


@pytest.mark.parametrize("name", ndflow.__all__)
def test_every_public_name_exists_and_says_what_it_is(name: str) -> None:
    thing = getattr(ndflow, name)
    text = thing.__doc__ or ""
    assert text.strip()
    assert not text.startswith(f"{name}(")  # what a dataclass or named tuple writes by itself


def test_the_list_is_what_editors_and_type_checkers_see() -> None:
    # Names come when they are used; those for people who read the source are imported for them.
    tree = ast.parse(inspect.getsource(ndflow))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    shown = {alias.name for node in block.body for alias in node.names}
    assert shown == set(ndflow.__all__)


def test_editors_list_the_public_names_and_nothing_else() -> None:
    assert set(dir(ndflow)) == {*ndflow.__all__, "__version__"}
    ndflow.normalise, ndflow.Affine  # noqa: B018 - what is imported by now makes no difference
    assert set(dir(ndflow)) == {*ndflow.__all__, "__version__"}


def test_a_name_that_does_not_exist_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'normalisation'"):
        ndflow.normalisation  # noqa: B018


# ── the options of verbs ─────────────────────────────────────────────────────────────────────────

MATHEMATICS = ("ndflow.density", "ndflow.transport", "ndflow.population")
VERBS = [
    name
    for name in ndflow.__all__
    if inspect.isfunction(function := getattr(ndflow, name))
    and not function.__module__.startswith(MATHEMATICS)
    and name not in ("load", "save", "normalize")
]
DEFAULTS = {one.name: None if one.metadata["by_preset"] else one.default for one in options_of()}
# `reference` averages densities: that is another fit than that of a scan, and no preset decides.
OTHERWISE = {("reference", "effective_count"), ("reference", "average")}


@pytest.mark.parametrize("verb", VERBS)
def test_defaults_are_those_of_the_options(verb: str) -> None:
    defaults = DEFAULTS | (
        {one.name: one.default for one in fields(Preparing)} if verb == "prepare" else {}
    )
    for name, one in inspect.signature(getattr(ndflow, verb)).parameters.items():
        if name in defaults and (verb, name) not in OTHERWISE:
            assert (name, one.default) == (name, defaults[name])
            assert type(one.default) is type(defaults[name])


@pytest.mark.parametrize("verb", VERBS)
def test_every_parameter_is_explained_once(verb: str) -> None:
    function = getattr(ndflow, verb)
    text = inspect.getdoc(function) or ""
    _, _, rest = text.partition("Parameters\n----------\n")
    parameters, returns, _ = rest.partition("\n\nReturns\n-------\n")
    assert returns
    lines = [line for line in parameters.splitlines() if line and not line.startswith(" ")]
    names = [name for line in lines for name in line.partition(" : ")[0].split(", ")]
    assert sorted(names) == sorted(inspect.signature(function).parameters)


def test_both_spellings_are_one_function() -> None:
    assert ndflow.normalize is ndflow.normalise


# ── imports ──────────────────────────────────────────────────────────────────────────────────────

HEAVY = ("cyclopts", "joblib", "matplotlib", "pandas", "rich", "sklearn", "torch")


@pytest.mark.parametrize(
    ("used", "heavy"),
    [
        ("", (*HEAVY, "nibabel", "numpy", "scipy")),
        ("ndflow.histogram, ndflow.normalising_map, ndflow.Reference", (*HEAVY, "nibabel")),
        ("ndflow.fit, ndflow.reference, ndflow.normalise, ndflow.load", HEAVY),
        ("ndflow.cohort, ndflow.evaluate, ndflow.report", HEAVY),
    ],
)
def test_no_more_is_imported_than_is_used(used: str, heavy: tuple[str, ...]) -> None:
    program = f"import sys, ndflow\n{used}\nprint(*sys.modules)"
    command = [sys.executable, "-W", "error", "-c", program]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert "ndflow" in loaded
    assert loaded.isdisjoint(heavy)


# ── arguments of a wrong type ────────────────────────────────────────────────────────────────────

SCAN = np.arange(1.0, 28.0).reshape(3, 3, 3)
DOUBLE = ndflow.Affine([[2.0]], [0.0])
MIXTURE = ndflow.GaussianMixture([0.3, 0.7], [1.0, 20.0], [0.1, 0.1])
WRONG: list[tuple[str, Callable[[Any], object]]] = [
    ("imap, where it is not a map, must be a path", lambda wrong: ndflow.apply(SCAN, wrong)),
    ("output must be a path", lambda wrong: ndflow.apply(SCAN, DOUBLE, output=wrong)),
    ("output must be a path", lambda wrong: ndflow.normalise(SCAN, MIXTURE, output=wrong)),
    ("path must be a path", ndflow.load),
    ("table must be a path", lambda wrong: ndflow.cohort(wrong, "out")),
    ("out must be a path", lambda wrong: ndflow.cohort("table.tsv", wrong)),
    ("sources must be a list of scans", ndflow.reference),
]


@pytest.mark.parametrize(("message", "call"), WRONG)
def test_what_cannot_be_a_path_is_refused_by_name(
    message: str, call: Callable[[Any], object]
) -> None:
    with pytest.raises(ndflow.InvalidValueError, match=f"^{message}, not 3$"):
        call(3)
