"""What is to be done in a study, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ndflow.settings import Averaging, Fitting, Matching, Reading, Writing, flat
from ndflow.study.scan_jobs import Member

__all__ = ["ANY_CHANNEL", "Study"]

ANY_CHANNEL = "intensity"  # a channel of which nobody said what it shows


@dataclass(frozen=True)
class Study:
    """What is to be done, and how.

    Attributes
    ----------
    folder : where the references go.
    members : the scans.
    averaging, fitting, matching, reading, writing : what the user chose.
    given : the path of a reference to use, instead of one made from these scans.
    channel : what the images show.
    jobs, scheduler : how many workers, or where they are; see `run_tasks`.
    stop_early : whether the first failure ends the run.
    """

    folder: Path
    members: Sequence[Member]
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

    @property
    def settings(self) -> dict[str, Any]:
        """All that was chosen and may change a result."""
        return flat(self.averaging, self.fitting, self.matching, self.writing)
