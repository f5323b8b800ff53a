"""Plans: what is to be done with many scans, and how; a study is one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ndflow.image.subject import Subject, TissueMaps, count_by_site
from ndflow.methods.base import Method, method_of
from ndflow.methods.modes import MODES, Mode
from ndflow.methods.targets import TargetRule, target_rule
from ndflow.options import Options, Preparing
from ndflow.subject.presets import Choices, PresetRecord
from ndflow.subject.target import with_scale

# ── preparations ──────────────────────────────────────────────────────────────────────────────────

PREPARED = "prepared"  # the folder of a study for scans that are prepared with it
FIGURES = "figures"

_IMAGE = "_desc-preproc_"


class PreparedPaths(NamedTuple):
    """Where the results of a scan go; not every scan has all of them.

    Attributes
    ----------
    image : the scan free of bias, on its own grid and in its own units.
    sidecar : the JSON that describes the image and all that was made with it.
    mask : of the brain.
    csf, gm, wm : the tissue probability maps.
    lesion : the mask of a lesion, as it was given.
    picture : for quality control.
    """

    image: Path
    sidecar: Path
    mask: Path
    csf: Path
    gm: Path
    wm: Path
    lesion: Path
    picture: Path

    @property
    def tissues(self) -> tuple[Path, Path, Path]:
        """The tissue probability maps."""
        return self.csf, self.gm, self.wm

    @property
    def unfinished(self) -> Path:
        """A file that is there while the others are written: what has no sidecar yet is ours."""
        return self.sidecar.with_name(f".ndflow-unfinished-{self.sidecar.stem}")

    def named(self, outputs: Iterable[str]) -> dict[str, Path]:
        """Return the files that a sidecar names, by what they are; none that we do not know."""
        known = self._asdict()
        return {what: known[what] for what in outputs if what in known}


@dataclass(frozen=True)
class Preparation:
    """What is to be prepared, and how.

    Attributes
    ----------
    folder : for the results.
    scans : with names of their own; ``output`` is the image to be made, relative to the folder, see
        `ndflow.study.prepared_study`.
    preparing, options : what the user chose.
    channel : what the images show, if the user said so.
    force : whether the folder may hold something else, or scans that are not listed now.
    jobs, scheduler : see `Study`.
    source : the folder that the scans come from: a dataset, that of the table, or the current one.
    any_source : whether that need not be a BIDS dataset.
    table : the table that lists the scans, if there is one.
    within : whether the folder lies in that of a study, which is made with it.
    partial : whether other runs prepare more scans of the same dataset, to the same folder.
    """

    folder: Path
    scans: Sequence[Subject]
    preparing: Preparing = field(default_factory=Preparing)
    options: Options = field(default_factory=Options)
    channel: str | None = None
    force: bool = False
    jobs: int = 1
    scheduler: str | None = None
    source: Path = field(default_factory=Path)
    any_source: bool = True
    table: str | None = None
    within: bool = False
    partial: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that was chosen and may change a result."""
        return asdict(self.preparing)

    @property
    def own_settings(self) -> dict[str, Any]:
        """The same, for the results on the scans' own grids."""
        return {n: part for n, part in self.settings.items() if n not in ("space", "resolution")}

    @property
    def site_counts(self) -> dict[str, int]:
        """How many scans each site has."""
        return count_by_site(self.scans)

    def paths(self, scan: Subject) -> PreparedPaths:
        """Return where the results of a scan go."""
        image = self.folder / scan.output
        stem, _, suffix = image.name.partition(_IMAGE)
        suffix = suffix.partition(".")[0]
        return PreparedPaths(
            image,
            self.folder / scan.sidecar,
            image.with_name(f"{stem}_desc-brain_mask.nii.gz"),
            image.with_name(f"{stem}_label-CSF_probseg.nii.gz"),
            image.with_name(f"{stem}_label-GM_probseg.nii.gz"),
            image.with_name(f"{stem}_label-WM_probseg.nii.gz"),
            image.with_name(f"{stem}_label-lesion_mask.nii.gz"),
            self.folder / FIGURES / f"{stem}{_IMAGE}{suffix}.png",
        )

    def keeps_tissues(self, scan: Subject) -> bool:
        """Tell whether the tissue probability maps that a scan came with are kept."""
        return scan.tissues.complete and self.preparing.tissues != "find"

    def finds_tissues(self, scan: Subject) -> bool:
        """Tell whether tissue probability maps of a scan are to be made."""
        return self.preparing.tissues != "none" and not self.keeps_tissues(scan)

    def prepared(self, scan: Subject, like: Subject | None = None) -> Subject:
        """Return a scan as it will be when it is prepared: with our image, mask and maps.

        Parameters
        ----------
        scan : one of those to be prepared.
        like : the same scan in a study, where other results are made of it.
        """
        paths = self.paths(scan)
        tissues = TissueMaps()
        if self.keeps_tissues(scan) or self.finds_tissues(scan):
            tissues = TissueMaps(*map(str, paths.tissues))
        return replace(
            like or scan,
            image=str(paths.image),
            mask=str(paths.mask),
            lesion=None if scan.lesion is None else str(paths.lesion),
            tissues=tissues,
        )


# ── studies ───────────────────────────────────────────────────────────────────────────────────────

ANY_CHANNEL = "intensity"  # where it is not known what the images show


class Plan(Protocol):
    """What is common to all work on many scans whose results go to one folder."""

    @property
    def folder(self) -> Path:
        """The folder for the results."""

    @property
    def scans(self) -> Sequence[Subject]:
        """The scans, with names of their own."""

    @property
    def jobs(self) -> int:
        """How many scans at a time; see `ndflow.study.tasks.run_tasks`."""

    @property
    def scheduler(self) -> str | None:
        """Where workers are, if not on this machine."""

    def paths(self, scan: Subject) -> tuple[Path, ...]:
        """Return where the results of a scan go."""


class ResultPaths(NamedTuple):
    """Where the results of a scan go.

    Attributes
    ----------
    model : its density.
    image : the normalised image.
    sidecar : the JSON that describes the image.
    preview : slices of the scan before and after, for the report.
    """

    model: Path
    image: Path
    sidecar: Path
    preview: Path

    @property
    def mask(self) -> Path:
        """Where its mask goes, if the study finds one and keeps it."""
        return self.model.parents[1] / kept_mask_name(self.model.stem)


def kept_mask_name(scan: str) -> str:
    """Return the file of a mask that a study finds and keeps, relative to its folder."""
    return f"masks/{scan}.nii.gz"


@dataclass(frozen=True)
class Study:
    """What is to be done, and how.

    Attributes
    ----------
    folder : for the results.
    scans : with names of their own, see `ndflow.study.table.named_scans`.
    options : what the user chose, or a preset decided.
    given : the path of a reference to use instead of one made from these scans.
    channel : what the images show.
    jobs, scheduler : how many workers, or where they are; see `run_tasks`.
    table : the table that lists the scans, if there is one.
    within : the folder of several studies that this one is part of, if it is; made with them.
    preparation : what is to be prepared first, if anything; then `scans` are what becomes of it.
    choices : what the user chose, where a preset decides the rest; None where all options
        were chosen, without a preset (`ndflow.study.presets`).
    preset : what the preset decided, and why.
    """

    folder: Path
    scans: Sequence[Subject]
    options: Options = field(default_factory=Options)
    given: str | None = None
    channel: str = ANY_CHANNEL
    jobs: int = 1
    scheduler: str | None = None
    table: str | None = None
    within: Path | None = None
    preparation: Preparation | None = None
    choices: Choices | None = None
    preset: PresetRecord | None = None

    def __post_init__(self) -> None:
        """Name the scale of the results, which are brought to a reference."""
        object.__setattr__(self, "options", with_scale(self.options, has_units=False))

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that was chosen and may change a result."""
        return self.options.of("average", "fit", "match", "write")

    @property
    def mode(self) -> Mode:
        """How the maps of scans are composed."""
        return MODES[self.options.mode]

    @property
    def method(self) -> Method:
        """The method that finds maps."""
        return method_of(self.options)

    @property
    def target_rule(self) -> TargetRule:
        """What each scan is matched to."""
        return target_rule(self.options)

    @property
    def target_is_open(self) -> bool:
        """Whether a preset decides about the proportions by what the scans have."""
        return (
            self.choices is not None
            and self.preset is not None
            and self.preset.name == "auto"
            and "proportions" not in self.choices.options
            and self.mode.per_scan
        )

    @property
    def site_counts(self) -> dict[str, int]:
        """How many scans each site has."""
        return count_by_site(self.scans)

    def paths(self, scan: Subject) -> ResultPaths:
        """Return where the results of a scan go."""
        return ResultPaths(
            self.folder / "models" / f"{scan.name}.json",
            self.folder / scan.output,
            self.folder / scan.sidecar,
            self.folder / "figures" / f"{scan.name}.png",
        )
