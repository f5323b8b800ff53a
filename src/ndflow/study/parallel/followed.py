"""Progress: whoever follows how far a run has come."""

from __future__ import annotations

from typing import Protocol

from ndflow.study.parallel.tasks import Outcome

__all__ = ["Progress", "Silent"]


class Progress(Protocol):
    """Follows how far a run has come."""

    def begin(self, stage: str, total: int) -> None:
        """Note that a pass over `total` scans begins."""

    def step(self, stage: str, outcome: Outcome) -> None:
        """Note what became of a scan."""


class Silent:
    """Shows nothing."""

    def begin(self, stage: str, total: int) -> None:
        """Do nothing."""

    def step(self, stage: str, outcome: Outcome) -> None:
        """Do nothing."""
