"""Options that several commands share, and how the help of a command shows them.

The help has two groups of options: those that most people need (`COMMON`), and all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import App, ArgumentCollection, Group, Parameter

from ndflow.methods.matching import MatchingChoices
from ndflow.subject.settings import (
    AveragingChoices,
    Fitting,
    Preparing,
    PresetName,
    Reading,
    Writing,
)

# What most people need, in the order of the help; all other options of a command are advanced.
COMMON: dict[str, tuple[str, ...]] = {
    "normalise": (
        *("--to", "--output", "--mask", "--exclude", "--scale", "--dtype"),
        *("--jobs", "--force", "--quiet"),
    ),
    "prepare": (
        *("--output", "--from-folder", "--mask", "--no-bias-field", "--no-tissues"),
        *("--channel", "--jobs", "--dry-run", "--force", "--quiet"),
    ),
    "cohort": (
        *("--from-folder", "--prepare", "--mask", "--reference", "--preset", "--mode"),
        *("--jobs", "--dry-run", "--quiet"),
    ),
    "bids": (
        *("--participant-label", "--suffix", "--prepare", "--derivatives", "--mask"),
        *("--preset", "--jobs", "--dry-run", "--quiet"),
    ),
    "reference": (
        *("--output", "--mask", "--exclude", "--channel", "--average", "--weights"),
        *("--jobs", "--force", "--quiet"),
    ),
    "fit": ("--output", "--mask", "--exclude", "--joint", "--jobs", "--force", "--quiet"),
    "apply": ("--map", "--output", "--inverse", "--mask", "--dtype", "--force", "--quiet"),
    "evaluate": ("--output", "--covariate", "--jobs", "--force", "--quiet"),
    "report": ("--title", "--sample", "--viewer", "--force", "--quiet"),
    "verify": ("--jobs", "--quiet"),
    "demo": ("--raw", "--jobs", "--quiet"),
    "doctor": ("--quiet", "--verbose"),
}

_OPTIONS = Group("Options", sort_key=1)
_ADVANCED = Group("Advanced options", sort_key=2)
_METAVARS = {  # of settings, whose classes know nothing about the command line
    "--freeze": "RULE",
    "--regularisation": "NUMBER",
    "--landmarks": "N",
    "--range": "LOW HIGH",
    "--effective-count": "N",
    "--max-bytes": "N",
    "--balance": "NAME...",
    "--resolution": "MM",
}
_SEVERAL = ("--balance",)  # options with one or more values, up to the next option

Images = Annotated[tuple[str, ...], Parameter(metavar="IMAGE...|NAME=IMAGE...")]
Joint = Annotated[bool, Parameter(negative=())]
Output = Annotated[str, Parameter(name=("--output", "-o"), metavar="OUT")]
Masks = Annotated[tuple[str, ...], Parameter(metavar="FILE|auto|brain...", consume_multiple=1)]
Excludes = Annotated[tuple[str, ...], Parameter(metavar="FILE|none...", consume_multiple=1)]
TissueFiles = Annotated[tuple[str, ...], Parameter(metavar="FILE...", consume_multiple=1)]
Force = Annotated[
    bool,
    Parameter(
        help="Replace results that exist already, but never a file that ndflow did not write."
    ),
]
Jobs = Annotated[
    int,
    Parameter(
        name=("--jobs", "-j"),
        metavar="N",
        help="How many scans to process at a time, each on one core; -1 for one per core.",
    ),
]
Scheduler = Annotated[
    str | None,
    Parameter(
        metavar="ADDRESS",
        help="Run on a Dask cluster: the address of its scheduler, or its scheduler file. "
        "Default: this machine.",
    ),
]
UnmaskedScans = Annotated[
    Literal["brain", "auto", "nonzero"] | None,
    Parameter(
        help="For scans without a mask: find the brain (brain; T1w images only, requires pip "
        "install 'ndflow[prepare]'), find the foreground (auto), or use all nonzero voxels "
        "(nonzero; with --prepare, for scans that are skull-stripped already). Default: nonzero, "
        "or brain with --prepare."
    ),
]
NoReport = Annotated[
    bool,
    Parameter(env_var="NDFLOW_NO_REPORT", help="Do not write the report, OUT/report.html."),
]
Prepare = Annotated[
    bool,
    Parameter(
        help="The scans are raw: first find brains, bias fields and tissues, as `ndflow prepare` "
        "does, and write them to OUT/prepared (requires pip install 'ndflow[prepare]')."
    ),
]
Preset = Annotated[
    PresetName,
    Parameter(
        help="How to set the options that you leave out (--mode, --target, --average, --objective, "
        "--regularisation): by the tissue maps, sites and scans there are (auto), or as in the "
        "paper (paper). What was decided, and why, is printed and recorded."
    ),
]
NoBiasField = Annotated[bool, Parameter(help="With --prepare: do not correct the bias field.")]
NoTissues = Annotated[
    bool,
    Parameter(
        help="With --prepare: do not find tissues. Tissue probability maps that are given are kept."
    ),
]
NewTissues = Annotated[
    bool,
    Parameter(
        help="With --prepare: find tissues even where tissue probability maps are given, instead "
        "of keeping these."
    ),
]
DryRun = Annotated[bool, Parameter(help="Only show what would be done; nothing is written.")]


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


AveragingOptions = Annotated[AveragingChoices, Parameter(name="*")]
FittingOptions = Annotated[Fitting, Parameter(name="*")]
MatchingOptions = Annotated[MatchingChoices, Parameter(name="*")]
PreparingOptions = Annotated[Preparing, Parameter(name="*")]
WritingOptions = Annotated[Writing, Parameter(name="*")]
ReadingOptions = Annotated[Reading, Parameter(name="*")]
VerbosityOptions = Annotated[Verbosity, Parameter(name="*")]


class GroupedApp(App):
    """An application whose commands show their options in two groups."""

    def assemble_argument_collection(
        self, *, default_parameter: Parameter | None = None, parse_docstring: bool = False
    ) -> ArgumentCollection:
        """Return the arguments of a command, each in its group, in the order of the help."""
        found = super().assemble_argument_collection(
            default_parameter=default_parameter, parse_docstring=parse_docstring
        )
        common = COMMON.get(self.name[0], ())
        for argument in found:
            if argument.index is None:
                group = _OPTIONS if argument.name in common else _ADVANCED
                label = _METAVARS.get(argument.name)
                shown = [Parameter(group=group), *([Parameter(metavar=label)] if label else [])]
                shown += [Parameter(consume_multiple=1)] if argument.name in _SEVERAL else []
                argument.parameter = Parameter.combine(argument.parameter, *shown)
        last = len(common)
        places = {name: place for place, name in enumerate(common)}
        found.sort(key=lambda one: -1 if one.index is not None else places.get(one.name, last))
        return found


def shown_default(value: Any) -> str | None:
    """Return a default value for the help; None where a sentence explains it."""
    if value is None or value is False or value == ():
        return None
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
