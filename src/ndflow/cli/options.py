"""Options that several commands share, each in its group of the help.

Those that may change a result are made from `ndflow.options.Options`; the others are defined here.
Commands that share many of them take a class of options, whose documentation is their help.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from cyclopts import Group, Parameter

from ndflow.cli.console import RUN, Verbosity
from ndflow.options import Options, PresetName, TissueSource, choices_of, options_of, sentence

_GROUPS = ("Options", "Input", "Preparation", "Matching", "Output")
OPTIONS, INPUT, PREPARATION, MATCHING, OUTPUT = (
    Group(name, sort_key=place) for place, name in enumerate(_GROUPS)
)

FLAT = Parameter(name="*")  # a class of options, as if the command had them itself


def several(metavar: str, *names: str) -> Parameter:
    """Return an option that takes several values."""
    return Parameter(name=names or None, metavar=metavar, consume_multiple=1, group=INPUT)


# ── input ─────────────────────────────────────────────────────────────────────────────────────────

Images = Annotated[tuple[str, ...], Parameter(metavar="IMAGE...|NAME=IMAGE...")]
Joint = Annotated[bool, Parameter(group=INPUT)]
Names = Annotated[tuple[str, ...], several("NAME...")]
Pattern = Annotated[str | None, Parameter(metavar="PATTERN", group=INPUT)]


@dataclass(frozen=True)
class ScanOptions:
    """What belongs to scans that are named one by one.

    Attributes
    ----------
    mask
        The brain mask of each image, in the same order; or `brain` to find the brains in T1w images
        (requires the extra `prepare`), or `auto` to find the foreground. Default: `nonzero`, all
        nonzero voxels.
    exclude
        For each image, a mask of voxels to leave out of the estimate, such as a lesion; `none` for
        an image without one. Where images are written, they are mapped like the others. Default:
        none.
    tissue_maps
        Tissue probability maps, as csf=FILE gm=FILE wm=FILE; for several scans, all of the first,
        then all of the second, and so on.
    """

    mask: Annotated[tuple[str, ...], several("FILE|auto|brain...")] = ()
    exclude: Annotated[tuple[str, ...], several("FILE|none...")] = ()
    tissue_maps: Annotated[tuple[str, ...], several("TISSUE=FILE...")] = ()


# ── preparation ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class RawOptions:
    """How raw scans are prepared.

    Attributes
    ----------
    tissues
        Find tissues of raw scans where no tissue probability maps are given (given), always (find),
        or never (none).
    no_bias_field
        Do not correct the bias field of raw scans.
    """

    tissues: Annotated[TissueSource, Parameter(group=PREPARATION)] = "given"
    no_bias_field: Annotated[bool, Parameter(group=PREPARATION)] = False


# ── matching ──────────────────────────────────────────────────────────────────────────────────────

Preset = Annotated[
    PresetName,
    Parameter(
        group=MATCHING,
        help="How to set the options that you leave out: by the tissue maps, sites and scans there "
        "are (auto), or as in the paper (paper). What was decided, and why, is printed.",
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
ReadSetting = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        metavar="max-bytes=N",
        group=RUN,
        help="The largest file that is read, in bytes after decompression.",
    ),
]


VerbosityOptions = Annotated[Verbosity, FLAT]


@dataclass(frozen=True)
class RunOptions:
    """How a study is carried out.

    Attributes
    ----------
    scheduler
        Run on a Dask cluster: the address of its scheduler, or its scheduler file.
    dry_run
        Only show what would be done; nothing is written.
    """

    no_report: NoReport = False
    jobs: Jobs = 1
    scheduler: Annotated[str | None, Parameter(metavar="ADDRESS", group=RUN)] = None
    dry_run: Annotated[bool, Parameter(group=RUN)] = False
    verbosity: VerbosityOptions = Verbosity()


# ── what may change a result ──────────────────────────────────────────────────────────────────────


def shown_default(value: Any) -> str | None:
    """Return a default value for the help; None where a sentence explains it."""
    if value is None or value is False or value == ():
        return None
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _options(*names: str) -> Any:
    """Return a class with some of the `Options`, and expert settings, for the command line."""
    hints, choices = get_type_hints(Options), choices_of(Options)
    shown: list[Any] = []
    for one in fields(Options):
        if one.name in names:
            in_output = one.metadata["step"] == "write" or one.name in ("scale", "range")
            parameter = Parameter(
                help=sentence(one),
                metavar=one.metadata["metavar"] or ("CHOICE" if one.name in choices else None),
                group=OUTPUT if in_output else MATCHING,
                consume_multiple=1 if one.name == "balance" else None,
                show_default=None if one.metadata["by_preset"] else shown_default(one.default),
            )
            kind: Any = Annotated[(hints[one.name] | None, parameter)]
            shown.append((one.name, kind, field(default=None)))
    shown.append(("expert", Expert, field(default=())))
    made = make_dataclass("Chosen", shown, frozen=True, namespace={"__module__": __name__})
    return Annotated[made, FLAT]


_MATCH = ("method", "proportions", "scale", "range", "dtype", "force")

if TYPE_CHECKING:
    StudyChoices = Any
    MatchOptions = Any
    ApplyOptions = Any
    FitOptions = Any
else:
    StudyChoices = _options("mode", "balance", *_MATCH)
    MatchOptions = _options(*_MATCH)
    ApplyOptions = _options("dtype", "force")
    FitOptions = _options("force")


@dataclass(frozen=True)
class StudyOptions:
    """What is asked of a study.

    Attributes
    ----------
    mask
        For scans without a mask: find the brain in T1w images (brain), find the foreground (auto),
        or use all nonzero voxels (nonzero). Default: nonzero, or brain with --prepare.
    prepare
        First find brains, bias fields and tissues in raw scans, as `ndflow prepare` does (requires
        the extra `prepare`).
    reference
        A reference (.json) to match scans to, or `builtin:T1w`; those of sites
        (`reference_SITE.json`) are looked for beside it. Default: made from these scans.
    """

    mask: Annotated[Literal["brain", "auto", "nonzero"] | None, Parameter(group=INPUT)] = None
    prepare: Annotated[bool, Parameter(group=PREPARATION)] = False
    raw: Annotated[RawOptions, FLAT] = RawOptions()
    reference: Annotated[str | None, Parameter(metavar="REFERENCE", group=MATCHING)] = None
    preset: Preset = "auto"
    choices: StudyChoices = None
    run: Annotated[RunOptions, FLAT] = RunOptions()


def explain_expert() -> str:
    """Return what ``--set help`` prints."""
    lines = []
    for one in options_of():
        if one.metadata["expert"]:
            default = "" if one.metadata["by_preset"] else shown_default(one.default)
            lines.append(f"{one.name.replace('_', '-')}: {sentence(one)}")
            lines[-1] += f" [default: {default}]" if default else ""
    return "\n".join(lines)
