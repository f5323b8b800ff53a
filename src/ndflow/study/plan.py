"""Plans: what is to be done with many scans, and how; a study is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ndflow.image.subject import Scan, count_by_site
from ndflow.methods.base import Method, method_of
from ndflow.methods.modes import MODES, Mode
from ndflow.methods.targets import TargetRule, target_rule
from ndflow.scan.presets.preset_rules import Choices, PresetRecord
from ndflow.scan.settings import Averaging, Fitting, Matching, Reading, Writing, flat
from ndflow.scan.target import with_scale
from ndflow.study.preparing.preparation_plan import Preparation

__all__ = ["ANY_CHANNEL", "Plan", "ResultPaths", "Study", "kept_mask_name"]

ANY_CHANNEL = "intensity"  # where it is not known what the images show


class Plan(Protocol):
    """What is common to all work on many scans whose results go to one folder."""

    @property
    def folder(self) -> Path:
        """The folder for the results."""

    @property
    def scans(self) -> Sequence[Scan]:
        """The scans, with names of their own."""

    @property
    def jobs(self) -> int:
        """How many scans at a time; see `ndflow.study.parallel.tasks.run_tasks`."""

    @property
    def scheduler(self) -> str | None:
        """Where workers are, if not on this machine."""

    def paths(self, scan: Scan) -> tuple[Path, ...]:
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
    scans : with names of their own, see `ndflow.study.listing.scan_table.named_scans`.
    averaging, fitting, matching, reading, writing : what the user chose, or a preset decided.
    given : the path of a reference to use instead of one made from these scans.
    channel : what the images show.
    jobs, scheduler : how many workers, or where they are; see `run_tasks`.
    table : the table that lists the scans, if there is one.
    within : the folder of several studies that this one is part of, if it is; made with them.
    preparation : what is to be prepared first, if anything; then `scans` are what becomes of it.
    choices : what the user chose about the settings that a preset decides; None where all of them
        were chosen, without a preset (`ndflow.study.presets`).
    preset : what the preset decided, and why.
    """

    folder: Path
    scans: Sequence[Scan]
    averaging: Averaging = field(default_factory=Averaging)
    fitting: Fitting = field(default_factory=Fitting)
    matching: Matching = field(default_factory=Matching)
    reading: Reading = field(default_factory=Reading)
    writing: Writing = field(default_factory=Writing)
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
        object.__setattr__(self, "matching", with_scale(self.matching, has_units=False))

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that was chosen and may change a result."""
        return flat(self.averaging, self.fitting, self.matching, self.writing)

    @property
    def mode(self) -> Mode:
        """How the maps of scans are composed."""
        return MODES[self.averaging.mode]

    @property
    def method(self) -> Method:
        """The method that finds maps."""
        return method_of(self.matching)

    @property
    def target_rule(self) -> TargetRule:
        """What each scan is matched to."""
        return target_rule(self.matching)

    @property
    def target_is_open(self) -> bool:
        """Whether a preset decides about the target by what the scans have."""
        return (
            self.choices is not None
            and self.preset is not None
            and self.preset.name == "auto"
            and self.choices.matching.target is None
            and self.mode.per_scan
        )

    @property
    def site_counts(self) -> dict[str, int]:
        """How many scans each site has."""
        return count_by_site(self.scans)

    def paths(self, scan: Scan) -> ResultPaths:
        """Return where the results of a scan go."""
        return ResultPaths(
            self.folder / "models" / f"{scan.name}.json",
            self.folder / scan.output,
            self.folder / scan.sidecar,
            self.folder / "figures" / f"{scan.name}.png",
        )
