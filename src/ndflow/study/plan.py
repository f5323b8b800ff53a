"""Study: what is to be done, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ndflow.image.scans import Scan
from ndflow.methods.base import Method, method_of
from ndflow.methods.modes import MODES, Mode
from ndflow.methods.targets import TargetRule, target_rule
from ndflow.scan.settings import Averaging, Fitting, Matching, Reading, Writing, flat
from ndflow.scan.target import with_scale

__all__ = ["ANY_CHANNEL", "ResultPaths", "Study"]

ANY_CHANNEL = "intensity"  # where it is not known what the images show


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


@dataclass(frozen=True)
class Study:
    """What is to be done, and how.

    Attributes
    ----------
    folder : for the results.
    scans : with names of their own, see `ndflow.study.listing.scan_table.named_scans`.
    averaging, fitting, matching, reading, writing : what the user chose.
    given : the path of a reference to use instead of one made from these scans.
    channel : what the images show.
    jobs, scheduler : how many workers, or where they are; see `run_tasks`.
    stop_early : whether the first failure ends the run.
    table : the table that lists the scans, if there is one.
    title : of the report, if the user gave one.
    within : the folder of several studies that this one is part of, if it is; made with them.
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
    stop_early: bool = False
    table: str | None = None
    title: str | None = None
    within: Path | None = None

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
    def site_counts(self) -> dict[str, int]:
        """How many scans each site has."""
        counts = Counter(scan.site for scan in self.scans if scan.site)
        return dict(sorted(counts.items()))

    def paths(self, scan: Scan) -> ResultPaths:
        """Return where the results of a scan go."""
        return ResultPaths(
            self.folder / "models" / f"{scan.name}.json",
            self.folder / scan.output,
            self.folder / scan.sidecar,
            self.folder / "figures" / f"{scan.name}.png",
        )
