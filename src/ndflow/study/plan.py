"""Study: what is to be done with many scans, and how; where each result goes.

OUT/images/<name>.nii.gz   the normalised images
OUT/maps/<name>.json       their sidecars: their intensity maps, and how they were made
OUT/models/<name>.json     the densities of scans
OUT/masks/<name>.nii.gz    their brain masks, where the study has found them (--mask brain)
OUT/figures/<name>.png     previews of the images for the report: slices before and after
OUT/reference.json         the common reference; reference_<site>.json for each site, and
                           map_<site>.json its map to the common one, where there is one
OUT/scans.tsv              the images, and where they came from
OUT/failures.tsv           the scans that failed, and why
OUT/provenance.json        what was run
OUT/report.html            the report, see `ndflow.reporting.build`
OUT/evaluation/            what was measured, see `ndflow.evaluation.save`
OUT/prepared/              raw scans that were prepared first: a study of its own, see
                           `ndflow.study.prepare_step`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ndflow.files.outputs import safe_name
from ndflow.image.mask import to_be_found
from ndflow.image.subject import ANY_CHANNEL, Subject, count_by_site
from ndflow.methods.base import Method, method_of
from ndflow.methods.modes import MODES, Mode
from ndflow.methods.ndflow import TargetRule, target_rule
from ndflow.options import Options, Preparing
from ndflow.study.table import kept_mask
from ndflow.subject.presets import Choices, PresetRecord
from ndflow.subject.target import with_scale

PROVENANCE = "provenance.json"
REPORT = "report.html"
SCANS = "scans.tsv"
FIGURES = "figures"
PREPARED = "prepared"
EVALUATION = "evaluation"
EVALUATION_RECORD = "evaluation.json"


class ResultPaths(NamedTuple):
    """Where the results of one channel of a scan go."""

    model: Path
    image: Path
    sidecar: Path
    preview: Path


def reference_name(site: str | None, kind: str = "reference") -> str:
    """Return the file name of the reference of a site, or of the common one."""
    return f"{kind}.json" if site is None else f"{kind}_{safe_name(site)}.json"


@dataclass(frozen=True)
class Study:
    """What is to be done, and how.

    Attributes
    ----------
    folder : for the results.
    scans : with names of their own; several channels of a scan are normalised together.
    options : what the user chose, or a preset.
    given : the reference that was given, if any.
    jobs, scheduler : how many scans at a time, and where; see `ndflow.study.tasks.run_tasks`.
    table : the file that lists the scans or the participants, if there is one.
    within : the folder of several studies that this is one of.
    root : the folder that scans come from.
    dataset : whether that is a BIDS dataset, and the results are a derivative of it.
    derivatives : folders that masks come from, by name.
    partial : whether these are some participants of a dataset only; others may be at work in the
        same folder.
    preparing : how scans are prepared, if that is all that is to be done.
    raw : the preparation that comes first, if the scans are raw.
    choices, preset : what the user chose and a preset decided, and why; None for a method without
        presets.
    """

    folder: Path
    scans: Sequence[Subject]
    options: Options = field(default_factory=Options)
    given: str | None = None
    jobs: int = 1
    scheduler: str | None = None
    table: str | None = None
    within: Path | None = None
    root: Path = field(default_factory=Path)
    dataset: bool = False
    derivatives: Mapping[str, Path] = field(default_factory=dict)
    partial: bool = False
    preparing: Preparing | None = None
    raw: Study | None = None
    choices: Choices | None = None
    preset: PresetRecord | None = None

    def __post_init__(self) -> None:
        """Name the scale of the results, which are brought to a reference."""
        object.__setattr__(self, "options", with_scale(self.options, has_units=False))

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that was chosen and may change a result."""
        if self.preparing is not None:
            return asdict(self.preparing)
        chosen = self.options.of("average", "fit", "match", "write")
        return {name: part for name, part in chosen.items() if name != "force"}

    @property
    def described(self) -> bool:
        """Whether its folder is a BIDS derivative."""
        return self.dataset or self.preparing is not None

    @property
    def unmasked(self) -> str | None:
        """The mask of scans that came without one; None where all have one."""
        masks = (scan.mask for scan in self.scans)
        found = (mask or "nonzero" for mask in masks if mask is None or to_be_found(mask))
        return next(found, None)

    @property
    def channels(self) -> tuple[str, ...]:
        """What the images show."""
        return self.scans[0].channels if self.scans else (ANY_CHANNEL,)

    @property
    def channel(self) -> str:
        """The same, in a word."""
        return "+".join(self.channels)

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
            and len(self.channels) == 1
            and "proportions" not in self.choices.options
            and self.mode.per_scan
        )

    @property
    def only_fits(self) -> bool:
        """Whether images are left to a run with all participants, which depend on them."""
        return self.partial and (self.given is None or self.mode.by_site)

    @property
    def site_counts(self) -> dict[str, int]:
        """How many scans each site has."""
        return count_by_site(self.scans)

    def model(self, scan: Subject) -> Path:
        """Return where the density of a scan goes."""
        return self.folder / "models" / f"{scan.name}.json"

    def mask(self, scan: Subject) -> Path:
        """Return where the brain mask of a scan goes, if the study finds it."""
        return self.folder / kept_mask(scan.name)

    def paths(self, scan: Subject, channel: str | None = None) -> ResultPaths:
        """Return where the results of a channel of a scan go; by default, of the first."""
        output = scan.outputs[channel or scan.channels[0]]
        files = output.image, output.sidecar, f"{FIGURES}/{output.name}.png"
        return ResultPaths(self.model(scan), *(self.folder / file for file in files))
