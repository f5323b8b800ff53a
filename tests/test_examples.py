"""The examples in docstrings run, and give what they say."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import ndflow

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


@pytest.mark.parametrize(
    "name", [name for name in ndflow.__all__ if inspect.isfunction(getattr(ndflow, name))]
)
def test_every_public_function_has_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(ndflow, name)) or ""
    _, section, example = text.partition("Examples\n--------\n")
    assert section
    assert ">>> " in example or example.startswith("See `")
