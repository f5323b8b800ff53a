"""Docstrings of the house, as numpydoc reads them.

Signatures have the types, so docstrings say ``name : what it is``, where numpydoc expects a type.
Here the description goes to the line below. The transformer of scikit-learn has types, as there.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

_SECTIONS = ("Parameters", "Other Parameters", "Attributes", "Raises", "Yields")
_ENTRY = re.compile(r"(\*{0,2}\w[\w.]*(?:, \*{0,2}\w[\w.]*)*) : (.*)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Change docstrings before numpydoc does."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    app.connect("autodoc-process-signature", _own_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _process(
    app: Sphinx, kind: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    if not name.startswith("ndflow.integrations.sklearn"):
        lines[:] = with_descriptions_below(lines)


def _own_signature(
    app: Sphinx, kind: str, name: str, thing: Any, options: object, given: str, returns: str
) -> tuple[str, str] | None:
    """Return the signature of a class whose base is not installed, and hides it."""
    if kind != "class" or given != "(*args, **kwargs)" or "__init__" not in vars(thing):
        return None
    parameters = [*inspect.signature(thing.__init__).parameters.values()][1:]
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    return str(inspect.Signature(bare)), returns


def with_descriptions_below(lines: list[str]) -> list[str]:
    """Return the lines of a docstring with descriptions below the names of what they describe."""
    return list(_moved(lines))


def _moved(lines: list[str]) -> Iterator[str]:
    section = ""
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if line.strip() and below and set(below) == {"-"}:
            section = line.strip()
        entry = _ENTRY.fullmatch(line) if section in _SECTIONS else None
        yield from (entry[1], f"    {entry[2]}") if entry else (line,)
