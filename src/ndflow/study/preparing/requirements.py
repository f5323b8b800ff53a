"""What must be there before scans can be prepared: packages, and masks of scans that are no T1w."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from ndflow.errors import FileError, InvalidValueError
from ndflow.preparation.brain_mask import refuse_other_contrasts
from ndflow.preparation.contrasts import T1W
from ndflow.study.preparing.preparation_plan import Preparation
from ndflow.study.preparing.raw_scan import Choices, choices_for
from ndflow.study.preparing.result_names import contrast_of

__all__ = ["check_requirements"]

_MODULES = {"ants": "antspyx", "deepbet": "deepbet", "nilearn": "nilearn", "torch": "torch"}


def check_requirements(plan: Preparation) -> None:
    """Raise an error, before any work, where a package is missing or a scan needs a mask."""
    choices = {scan.name: choices_for(plan, scan) for scan in plan.scans}
    for scan in plan.scans:
        if choices[scan.name].mask == "brain":
            refuse_other_contrasts(scan.path)
            if (contrast := contrast_of(scan, plan.channel)) != T1W:
                cause = f"not a T1w image, but {contrast}; brains are found in T1w images only"
                raise FileError(scan.path, cause, "give its mask, in the column mask of the table")
    needed = sorted({module for one in choices.values() for module in _modules(one)})
    missing = [_MODULES[module] for module in needed if find_spec(module) is None]
    if missing:
        raise InvalidValueError(
            f"preparing these scans needs {_listed(missing)}, not installed here; "
            "try pip install 'ndflow[prepare]'"
        )


def _modules(choices: Choices) -> set[str]:
    """Return the modules that the preparation of a scan imports."""
    found: set[str] = set()
    if choices.mask == "brain":
        found |= {"deepbet", "torch"}
    if choices.bias_field:
        found |= {"ants"}
    if choices.tissues == "found" or choices.resolution is not None:
        found |= {"ants", "nilearn"}
    return found


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
