"""What importing the package costs, and the examples in docstrings."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import ndflow

HEAVY = ("cyclopts", "joblib", "matplotlib", "pandas", "rich", "sklearn", "torch")
NEED_TORCH = {"ndflow.integrations.monai", "ndflow.integrations.torchio"}  # in tests/needs_torch
MODULES = [
    module.name
    for module in pkgutil.walk_packages(ndflow.__path__, "ndflow.")
    if not module.name.endswith("__main__") and module.name not in NEED_TORCH
]


@pytest.mark.parametrize(
    ("used", "heavy"),
    [
        ("", (*HEAVY, "nibabel", "numpy", "scipy")),
        ("ndflow.histogram, ndflow.normalising_map, ndflow.Reference", (*HEAVY, "nibabel")),
        ("ndflow.fit, ndflow.normalise, ndflow.cohort, ndflow.evaluate, ndflow.report", HEAVY),
    ],
)
def test_no_more_is_imported_than_is_used(used: str, heavy: tuple[str, ...]) -> None:
    program = f"import sys, ndflow\n{used}\nprint(*sys.modules)"
    command = [sys.executable, "-W", "error", "-c", program]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert "ndflow" in loaded
    assert loaded.isdisjoint(heavy)


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name: str) -> None:
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    found: list[str] = []
    for example in doctest.DocTestFinder().find(module, name):
        runner.run(example, out=found.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(found)
