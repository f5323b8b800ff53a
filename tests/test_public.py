"""What importing the package costs, what its functions take, and the examples in docstrings."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import ndflow
from ndflow.options import Preparing, options_of

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


NEED_TORCH = {  # whose examples run in tests/needs_torch
    f"ndflow.integrations.{name}" for name in ("monai", "torchio")
}
MODULES = [
    module.name
    for module in pkgutil.walk_packages(ndflow.__path__, "ndflow.")
    if not module.name.endswith("__main__") and module.name not in NEED_TORCH
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name: str) -> None:
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    found: list[str] = []
    for example in doctest.DocTestFinder().find(module, name):
        runner.run(example, out=found.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(found)
