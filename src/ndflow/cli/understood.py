"""Print what was understood of a table, a folder or a dataset, before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

from ndflow.cli.console import print_line, print_warning
from ndflow.cli.options import Verbosity
from ndflow.study.listing.overview import overview
from ndflow.study.plan import Study
from ndflow.study.preparing.preparation_plan import Preparation
from ndflow.values import plural

__all__ = ["print_understood"]

_COLUMN, _WIDTH = 14, 100


def print_understood(
    study: Study | Preparation,
    source: str,
    *,
    verbosity: Verbosity,
    unused: Mapping[str, str] | None = None,
    skipped: Mapping[str, int] | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Print what is known about the scans of a plan, unless the user wants no words.

    Parameters
    ----------
    study : what is to be done.
    source : the table, folder or dataset.
    verbosity : how much to print.
    unused : columns of a table that are not used, and why.
    skipped : how many images of a folder were left out, by reason.
    warnings : about what may have been misunderstood.
    """
    if verbosity.quiet:
        return
    print_line(f"{source}: {plural(len(study.scans), 'scan')}")
    for name, text in overview(study, unused or {}, skipped or {}).items():
        margin = f"  {name:<{_COLUMN}}"
        for line in wrap(text, _WIDTH - len(margin), break_on_hyphens=False) or [""]:
            print_line(margin + line)
            margin = " " * len(margin)
    for warning in warnings:
        print_warning(warning)
