"""What of a scan is kept out of its match, because no healthy scan of the reference has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ndflow.errors import InvalidValueError
from ndflow.methods.model import Portrait
from ndflow.population import find_lesions
from ndflow.settings import Matching

__all__ = ["KeptOut", "lesions_in_words", "lesions_of"]


class KeptOut(NamedTuple):
    """What was found.

    Attributes
    ----------
    components : of the scan's density; often none.
    intensities : their means, in the units of the scan.
    mass : the share of the voxels in them.
    excess : the largest of any component, and the threshold that it was held against.
    unlike : whether so much is strange that nothing was taken for a lesion.
    """

    components: tuple[int, ...]
    intensities: tuple[float, ...]
    mass: float
    excess: tuple[float, float]
    unlike: bool

    def record(self) -> dict[str, Any]:
        """Return it for the record."""
        return {
            "components": list(self.components),
            "intensities": list(self.intensities),
            "share": self.mass,
            "excess": self.excess[0],
            "threshold": self.excess[1],
            "unlike": self.unlike,
        }


def lesions_of(source: Portrait, target: Portrait, matching: Matching) -> KeptOut | None:
    """Look for lesions in a scan, if that was asked for."""
    if matching.lesions is None:
        return None
    if target.alarm is None:
        raise InvalidValueError("lesions are found beside a reference of healthy scans only")
    found = find_lesions(source.mixture, target.mixture, target.alarm)
    means = source.mixture.means[list(found.indices), 0].tolist()
    excess = float(found.excesses.max()), target.alarm.threshold
    return KeptOut(found.indices, tuple(means), found.mass, excess, found.unlike)


def lesions_in_words(record: Mapping[str, Any]) -> str:
    """Say what the record of a scan tells about lesions."""
    if record["unlike"]:
        return "Unlike all healthy scans of the reference: nothing of it was taken for a lesion."
    if not record["components"]:
        return "No lesion was found."
    where = ", ".join(f"{mean:.4g}" for mean in record["intensities"])
    return (
        f"Kept out of the match as a lesion: {record['share']:.1%} of its voxels, around "
        f"intensity {where}. They go along with the map."
    )
