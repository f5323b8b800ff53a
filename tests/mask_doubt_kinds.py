"""The kinds of doubts that are about masks: tests of masks leave aside what other checks find."""

from typing import Any

MASKS = {
    "whole head",
    "mask too wide",
    "mask too small",
    "mask touches the border",
    "zeros inside the mask",
    "mask in pieces",
    "unlike the reference",
    "unlike the others",
}


def kinds(record: dict[str, Any]) -> list[str]:
    """Return the kinds of doubts about the mask of a scan, from its record."""
    found = [doubt["kind"] for doubt in record.get("doubts", [])]
    return [kind for kind in found if kind in MASKS]
