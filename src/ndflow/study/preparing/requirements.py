"""What must be there before scans can be prepared.

The packages that are needed; masks of scans that are not T1w; tissue maps of all tissues or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Scan
from ndflow.preparation.brain_mask import refuse_other_contrasts
from ndflow.preparation.contrasts import T1W
from ndflow.study.preparing.preparation_plan import Preparation
from ndflow.study.preparing.raw_scan import choices_for
from ndflow.study.preparing.result_names import contrast_of

__all__ = ["check_requirements"]

_MODULES = {"antspyx": "ants"}  # where they are not called like their packages


def check_requirements(plan: Preparation) -> None:
    """Raise an error, before any work, where a package or something of a scan is missing."""
    choices = {scan.name: choices_for(plan, scan) for scan in plan.scans}
    for scan in plan.scans:
        if not plan.preparing.new_tissues:
            _refuse_some_tissues(scan)
        if choices[scan.name].mask == "brain":
            refuse_other_contrasts(scan.path)
            if (contrast := contrast_of(scan, plan.channel)) != T1W:
                cause = f"not a T1w image, but {contrast}; brains are found in T1w images only"
                raise FileError(scan.path, cause, "give its mask, in the column mask of the table")
    needed = {name for one in choices.values() for name in one.packages}
    needed |= {"torch"} if "deepbet" in needed else set()
    missing = [name for name in sorted(needed) if find_spec(_MODULES.get(name, name)) is None]
    if missing:
        raise InvalidValueError(
            f"preparing these scans needs {_listed(missing)}, not installed here; "
            "try pip install 'ndflow[prepare]'"
        )


def _refuse_some_tissues(scan: Scan) -> None:
    """Refuse a scan with maps of one or two tissues, which would be lost."""
    given = [tissue for tissue, source in scan.tissues._asdict().items() if source is not None]
    if given and not scan.tissues.complete:
        cause = f"{scan.origin}: has a tissue map of {_listed(given)} only"
        raise FileError(scan.path, cause, "give csf, gm and wm, or none of them")


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
