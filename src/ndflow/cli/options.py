"""Options that several commands share, each in its group of the help.

Those that may change a result are made from `ndflow.options.Options`; the others are defined here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from cyclopts import Group, Parameter

from ndflow.options import (
    NoMask,
    Options,
    PresetName,
    Space,
    Step,
    TissueSource,
    choices_of,
    expert_options,
    options_of,
    sentence,
)

_GROUPS = ("Options", "Input", "Preparation", "Matching", "Output", "Run")
OPTIONS, INPUT, PREPARATION, MATCHING, OUTPUT, RUN = (
    Group(name, sort_key=place) for place, name in enumerate(_GROUPS)
)

# ── input ─────────────────────────────────────────────────────────────────────────────────────────

Images = Annotated[tuple[str, ...], Parameter(metavar="IMAGE...|NAME=IMAGE...")]
Joint = Annotated[bool, Parameter(negative=(), group=INPUT)]
Masks = Annotated[
    tuple[str, ...], Parameter(metavar="FILE|auto|brain...", consume_multiple=1, group=INPUT)
]
Excludes = Annotated[
    tuple[str, ...], Parameter(metavar="FILE|none...", consume_multiple=1, group=INPUT)
]
TissueMapFiles = Annotated[
    tuple[str, ...],
    Parameter(
        metavar="TISSUE=FILE...",
        consume_multiple=1,
        group=INPUT,
        help="Tissue probability maps, as csf=FILE gm=FILE wm=FILE; for several scans, all of the "
        "first, then all of the second, and so on.",
    ),
]
UnmaskedScans = Annotated[
    Literal["brain", "auto", "nonzero"] | None,
    Parameter(
        group=INPUT,
        help="For scans without a mask: find the brain in T1w images (brain), find the foreground "
        "(auto), or use all nonzero voxels (nonzero). Default: nonzero, or brain with --prepare.",
    ),
]
Pattern = Annotated[
    str | None,
    Parameter(
        metavar="PATTERN",
        group=INPUT,
        help="With a folder: the names of the images, such as `*_T1w.nii.gz`. Default: all images.",
    ),
]

# ── preparation ───────────────────────────────────────────────────────────────────────────────────

Prepare = Annotated[
    bool,
    Parameter(
        group=PREPARATION,
        help="First find brains, bias fields and tissues in raw scans, as `ndflow prepare` does "
        "(requires pip install 'ndflow[prepare]').",
    ),
]
NoBiasField = Annotated[
    bool, Parameter(group=PREPARATION, help="Do not correct the bias field of raw scans.")
]
FindTissues = Annotated[
    TissueSource,
    Parameter(
        group=PREPARATION,
        help="Find tissues of raw scans where no tissue probability maps are given (given), always "
        "(find), or never (none).",
    ),
]
PreparedMask = Annotated[
    NoMask,
    Parameter(
        group=INPUT,
        help="For scans without a mask: find the brain, in T1w images (brain); or take all nonzero "
        "voxels of scans that are skull-stripped already (nonzero).",
    ),
]
CopySpace = Annotated[
    Space,
    Parameter(
        group=PREPARATION,
        help="Leave scans where they are (own); or write copies in a common space beside them, "
        "aligned with the ICBM152 template by rotation and shift alone (MNI).",
    ),
]
Resolution = Annotated[
    float | None,
    Parameter(
        metavar="MM",
        group=PREPARATION,
        help="With --space MNI: the size of the voxels of the copies, from 0.5 to 8. Default: 2.",
    ),
]

# ── matching ──────────────────────────────────────────────────────────────────────────────────────

Preset = Annotated[
    PresetName,
    Parameter(
        group=MATCHING,
        help="How to set the options that you leave out: by the tissue maps, sites and scans there "
        "are (auto), or as in the paper (paper). What was decided, and why, is printed.",
    ),
]
GivenReference = Annotated[
    str | None,
    Parameter(
        metavar="REFERENCE",
        group=MATCHING,
        help="A reference (.json) to match scans to, or `builtin:T1w`; those of sites "
        "(`reference_SITE.json`) are looked for beside it. Default: made from these scans.",
    ),
]
Expert = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        metavar="NAME=VALUE",
        group=MATCHING,
        help="An expert setting; repeat it for several. --set help lists them.",
    ),
]

# ── output ────────────────────────────────────────────────────────────────────────────────────────

Output = Annotated[str, Parameter(name=("--output", "-o"), metavar="OUT", group=OUTPUT)]
NoReport = Annotated[
    bool,
    Parameter(
        group=OUTPUT,
        env_var="NDFLOW_NO_REPORT",
        show_env_var=False,
        help="Do not write the report, OUT/report.html.",
    ),
]
Force = Annotated[
    bool,
    Parameter(
        group=OUTPUT, help=next(o.metadata["text"] for o in fields(Options) if o.name == "force")
    ),
]

# ── run ───────────────────────────────────────────────────────────────────────────────────────────

Jobs = Annotated[
    int,
    Parameter(
        name=("--jobs", "-j"),
        metavar="N",
        group=RUN,
        help="How many scans to process at a time, each on one core; -1 for one per core.",
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
DryRun = Annotated[
    bool, Parameter(group=RUN, help="Only show what would be done; nothing is written.")
]

ReadSetting = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        metavar="max-bytes=N",
        group=RUN,
        help="The largest file that is read, in bytes after decompression.",
    ),
]


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

    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"), group=RUN)] = False
    verbose: Annotated[bool, Parameter(name=("--verbose", "-v"), group=RUN)] = False


VerbosityOptions = Annotated[Verbosity, Parameter(name="*")]

# ── what may change a result ──────────────────────────────────────────────────────────────────────


def shown_default(value: Any) -> str | None:
    """Return a default value for the help; None where a sentence explains it."""
    if value is None or value is False or value == ():
        return None
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _options(*names: str) -> Any:
    """Return a class with some of the `Options`, for the command line; None is not chosen."""
    hints, choices = get_type_hints(Options), choices_of(Options)
    shown = []
    for one in fields(Options):
        if one.name in names:
            several = one.name == "balance"
            parameter = Parameter(
                help=sentence(one),
                metavar=one.metadata["metavar"] or ("CHOICE" if one.name in choices else None),
                group=OUTPUT if one.metadata["step"] == "write" or one.name in _UNITS else MATCHING,
                negative=(),
                consume_multiple=1 if several else None,
                show_default=None if one.metadata["by_preset"] else shown_default(one.default),
            )
            kind: Any = Annotated[(hints[one.name] | None, parameter)]
            shown.append((one.name, kind, field(default=None)))
    made = make_dataclass("Chosen", shown, frozen=True, namespace={"__module__": __name__})
    return Annotated[made, Parameter(name="*")]


_UNITS = ("scale", "range")
_MATCH = ("method", "proportions", "scale", "range", "dtype", "force")

if TYPE_CHECKING:
    StudyOptions = Any
    MatchOptions = Any
    ApplyOptions = Any
else:
    StudyOptions = _options("mode", "balance", *_MATCH)
    MatchOptions = _options(*_MATCH)
    ApplyOptions = _options("dtype", "force")


def chosen(options: Any, expert: tuple[str, ...], *steps: Step) -> dict[str, Any]:
    """Return the options that the user typed, by name, of some steps of work."""
    typed = (
        {}
        if options is None
        else {
            one.name: value
            for one in fields(options)
            if (value := getattr(options, one.name)) is not None
        }
    )
    return typed | expert_options(expert, *steps)


def explain_expert() -> str:
    """Return what ``--set help`` prints."""
    lines = []
    for one in options_of():
        if one.metadata["expert"]:
            default = "" if one.metadata["by_preset"] else shown_default(one.default)
            lines.append(f"{one.name.replace('_', '-')}: {sentence(one)}")
            lines[-1] += f" [default: {default}]" if default else ""
    return "\n".join(lines)
