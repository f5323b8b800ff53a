"""Doubts: what should be checked by eye about a scan or its result, although nothing failed."""

from __future__ import annotations

from dataclasses import dataclass

from ndflow.values import Record


@dataclass(frozen=True)
class Doubt(Record):
    """A reason to look at a scan.

    Attributes
    ----------
    kind : what is doubtful, in two or three words that are the same for all scans, such as "whole
        head"; a study counts its doubts by kind.
    text : what was seen in this scan, one sentence with its figures.
    hint : what to try, the same for all scans of a kind.

    Examples
    --------
    >>> str(Doubt("whole head", "It seems to show the skull.", "give a mask of the brain"))
    'whole head: it seems to show the skull; give a mask of the brain'
    """

    kind: str
    text: str
    hint: str

    def __str__(self) -> str:
        """Return kind, sentence and hint, for one line about one scan."""
        sentence = self.text[:1].lower() + self.text[1:].removesuffix(".")
        return f"{self.kind}: {sentence}; {self.hint}"
