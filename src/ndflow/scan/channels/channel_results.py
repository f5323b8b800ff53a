"""Results of several channels."""

from __future__ import annotations

from typing import NamedTuple

from ndflow.scan.channels.channel_subject import Subject, said
from ndflow.scan.results import Result

__all__ = ["SubjectResults"]


class SubjectResults(NamedTuple):
    """What became of the channels of a subject, and what to tell the user.

    Attributes
    ----------
    results : by channel.
    warnings : about all of them, with their doubts.
    """

    results: dict[str, Result]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, subject: Subject, results: dict[str, Result]) -> SubjectResults:
        """Return the results with what is to be said about them."""
        paths = {name: subject.scan(name).path for name in results}
        told = ((paths[name], one.warnings, one.doubts) for name, one in results.items())
        return cls(results, said(told))
