"""The documentation of settings as parameters of a function.

The fields of the settings are explained once, in the docstrings of their classes. The command line
shows these texts as its help; `documented` adds them to the Parameters of a Python function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

__all__ = ["documented"]

F = TypeVar("F", bound=Callable[..., object])

_SECTION = "Returns\n-------"


def documented(*settings: type) -> Callable[[F], F]:
    """Return a decorator that adds the fields of some settings to a function's Parameters."""

    def decorate(function: F) -> F:
        text = inspect.getdoc(function) or ""
        known = set(inspect.signature(function).parameters)
        fields = {name: words for kind in settings for name, words in _fields(kind).items()}
        lines = [f"{name}\n    {words}" for name, words in fields.items() if name in known]
        before, section, after = text.partition(_SECTION)
        function.__doc__ = f"{before.rstrip()}\n" + "\n".join(lines) + f"\n\n{section}{after}"
        return function

    return decorate


def _fields(kind: type) -> dict[str, str]:
    """Return what the docstring of a settings class says about each field."""
    _, _, attributes = (inspect.getdoc(kind) or "").partition("Attributes\n----------\n")
    found: dict[str, list[str]] = {}
    name = ""
    for line in attributes.splitlines():
        if line and not line.startswith(" "):
            name = line.strip()
            found[name] = []
        elif line.strip():
            found[name].append(line.strip())
    return {name: "\n    ".join(lines) for name, lines in found.items()}
