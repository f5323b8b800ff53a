"""The settings as parameters of a function: their documentation, and their types.

The fields of the settings are explained once, in the docstrings of their classes. The command line
shows these texts as its help; `documented` adds them to the Parameters of a Python function.

What a function returns may depend on what it is given: one image, or several channels. For type
checkers, its options are written down once, as a `TypedDict`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypedDict, TypeVar

from ndflow.density import GaussianMixture
from ndflow.files.atomic import AnyPath
from ndflow.image.read import Source
from ndflow.methods.matching import MethodName, Objective, Scale, Solver, TargetKind
from ndflow.subject.settings import DType, Outside, PresetName

F = TypeVar("F", bound=Callable[..., object])


class FitOptions(TypedDict, total=False):
    """The options of `ndflow.fit`, but `joint`."""

    mask: Source | None
    exclude: Source | None
    effective_count: float
    concentration: float
    concentration_prior: tuple[float, float] | None
    truncation: int
    prior_strength: float
    tolerance: float
    start: GaussianMixture | None
    max_bytes: int


class ApplyOptions(TypedDict, total=False):
    """The options of `ndflow.apply`."""

    inverse: bool
    other_image: bool
    mask: Source | None
    output: AnyPath | None
    outside: Outside | None
    dtype: DType
    force: bool
    max_bytes: int


class NormaliseOptions(TypedDict, total=False):
    """The options of `ndflow.normalise`."""

    joint: bool
    mask: Source | None
    to_mask: Source | None
    exclude: Source | None
    csf: Source | None
    gm: Source | None
    wm: Source | None
    output: AnyPath | None
    preset: PresetName
    method: MethodName
    target: TargetKind | None
    freeze: tuple[str, ...]
    objective: Objective | None
    regularisation: float | None
    solver: Solver
    landmarks: int
    scale: Scale | None
    range: tuple[float, float] | None
    outside: Outside | None
    dtype: DType
    force: bool
    effective_count: float
    max_bytes: int


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
