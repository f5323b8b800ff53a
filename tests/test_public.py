"""The public names, the README's example, and what importing the package costs."""

import ast
import inspect
import subprocess
import sys

import pytest

import ndflow


@pytest.mark.parametrize("name", ndflow.__all__)
def test_every_public_name_exists_and_says_what_it_is(name: str) -> None:
    thing = getattr(ndflow, name)
    text = thing.__doc__ or ""
    assert text.strip()
    assert not text.startswith(f"{name}(")  # what a dataclass or named tuple writes by itself


def test_names_are_listed_once_and_in_order() -> None:
    assert ndflow.__all__ == sorted(set(ndflow.__all__))


def test_the_list_is_what_editors_and_type_checkers_see() -> None:
    # Names come when they are used; those for people who read the source are imported for them.
    tree = ast.parse(inspect.getsource(ndflow))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    shown = {alias.name for node in block.body for alias in node.names}
    assert shown == set(ndflow.__all__)
    assert set(ndflow.__all__) <= set(dir(ndflow))


def test_a_name_that_does_not_exist_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'normalisation'"):
        ndflow.normalisation  # noqa: B018


HEAVY = ("cyclopts", "joblib", "matplotlib", "nibabel", "pandas", "rich", "sklearn", "torch")


@pytest.mark.parametrize(
    ("used", "heavy"),
    [("", (*HEAVY, "numpy", "scipy")), ("ndflow.normalising_map, ndflow.reference", HEAVY)],
)
def test_no_more_is_imported_than_is_used(used: str, heavy: tuple[str, ...]) -> None:
    program = f"import sys, ndflow\n{used}\nprint(*sys.modules)"
    command = [sys.executable, "-W", "error", "-c", program]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert "ndflow" in loaded
    assert loaded.isdisjoint(heavy)
