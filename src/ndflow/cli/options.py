"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from ndflow.scan.settings import Averaging, Fitting, Matching, Reading, Writing

__all__ = [
    "METHOD",
    "RESULT",
    "RUN",
    "AutoMask",
    "AveragingOptions",
    "DryRun",
    "Excludes",
    "FittingOptions",
    "Force",
    "Images",
    "Jobs",
    "Masks",
    "MatchingOptions",
    "NoReport",
    "Output",
    "ReadingOptions",
    "Scheduler",
    "StopEarly",
    "TissueFiles",
    "Verbosity",
    "VerbosityOptions",
    "WritingOptions",
]

METHOD = Group("Method", sort_key=1)
RESULT = Group("Result", sort_key=2)
RUN = Group("Run", sort_key=3)

Images = Annotated[tuple[str, ...], Parameter(metavar="IMAGE...")]
Output = Annotated[str, Parameter(name=("--output", "-o"), metavar="OUT")]
Masks = Annotated[tuple[str, ...], Parameter(metavar="FILE|auto...", consume_multiple=1)]
Excludes = Annotated[tuple[str, ...], Parameter(metavar="FILE|none...", consume_multiple=1)]
TissueFiles = Annotated[
    tuple[str, ...], Parameter(metavar="FILE...", consume_multiple=1, group=METHOD)
]
Force = Annotated[bool, Parameter(group=RESULT, help="Replace files that exist already.")]
Jobs = Annotated[
    int,
    Parameter(
        name=("--jobs", "-j"),
        metavar="N",
        group=RUN,
        help="How many scans to process at a time; -1 for one per core.",
    ),
]
Scheduler = Annotated[
    str | None,
    Parameter(
        metavar="ADDRESS",
        group=RUN,
        help="Run on a Dask cluster: the address of its scheduler, or its scheduler file.",
    ),
]
StopEarly = Annotated[bool, Parameter(group=RUN, help="Stop as soon as a scan fails.")]
AutoMask = Annotated[
    bool, Parameter(group=METHOD, help="Find the foreground of scans that have no mask.")
]
NoReport = Annotated[
    bool,
    Parameter(group=RUN, env_var="NDFLOW_NO_REPORT", help="Do not write OUT/report.html."),
]
DryRun = Annotated[bool, Parameter(group=RUN, help="Only show what would be done.")]


@dataclass(frozen=True)
class Verbosity:
    """How much is printed.

    Attributes
    ----------
    quiet
        Print nothing but errors.
    verbose
        Print the traceback of each error.
    """

    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"))] = False
    verbose: Annotated[bool, Parameter(name=("--verbose", "-v"))] = False


AveragingOptions = Annotated[Averaging, Parameter(name="*", group=METHOD)]
FittingOptions = Annotated[Fitting, Parameter(name="*", group=METHOD)]
MatchingOptions = Annotated[Matching, Parameter(name="*", group=METHOD)]
WritingOptions = Annotated[Writing, Parameter(name="*", group=RESULT)]
ReadingOptions = Annotated[Reading, Parameter(name="*", group=RUN)]
VerbosityOptions = Annotated[Verbosity, Parameter(name="*", group=RUN)]
