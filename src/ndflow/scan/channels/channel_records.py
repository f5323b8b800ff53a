"""What the files of several channels hold, as typed records; see `ndflow.scan.records`.

| kind         | file                                                    | record            |
|--------------|---------------------------------------------------------|-------------------|
| `mixture`    | the joint density of the channels of a subject          | `JointModel`      |
| `mixtures`   | the densities of the channels, each by itself           | `ScanModels`      |
| `reference`  | the average of many joint densities                     | `ReferenceModel`  |
| `references` | for each channel, the average of many densities         | `ReferenceModels` |
| `map`        | a joint intensity map; the sidecar of one channel       | `JointMapRecord`  |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.scan.records import FileRecord, MapRecord, ReferenceModel, ScanModel
from ndflow.transport.joint import JointFigures

__all__ = ["JointMapRecord", "JointModel", "ReferenceModels", "ScanModels"]


@dataclass(frozen=True)
class JointModel(ScanModel):
    """The joint density of the channels of a subject, and how it was estimated.

    Attributes
    ----------
    channel_names : what each channel shows, in the order of the mixture's channels.
    marginals : the density of each channel by itself, in the same order.
    """

    channel_names: tuple[str, ...] = ()
    marginals: tuple[GaussianMixture, ...] = ()

    def __post_init__(self) -> None:
        """Check that there is a name for each channel of the mixture."""
        names, d = self.channel_names, self.mixture.channels
        if names and len({*names}) != d:
            raise InvalidValueError(f"channel_names must be {d} different names")
        if self.marginals and [one.channels for one in self.marginals] != [1] * d:
            raise InvalidValueError(f"marginals must be {d} densities of one channel each")


@dataclass(frozen=True)
class ScanModels(FileRecord):
    """The densities of the channels of a subject, each by itself.

    Attributes
    ----------
    channel_names : what each channel shows, in order.
    mixtures : what is known about each of them, as in a file of its own.
    """

    kind: ClassVar[str] = "mixtures"

    channel_names: tuple[str, ...]
    mixtures: dict[str, ScanModel]

    def __post_init__(self) -> None:
        """Check that there is one for each channel."""
        _check_names(self.channel_names, self.mixtures)
        _check_single([one.mixture for one in self.mixtures.values()])


@dataclass(frozen=True)
class ReferenceModels(FileRecord):
    """A reference for each of several channels.

    Attributes
    ----------
    channel_names : what each channel shows, in order.
    references : the reference of each, as in a file of its own.
    """

    kind: ClassVar[str] = "references"

    channel_names: tuple[str, ...]
    references: dict[str, ReferenceModel]

    def __post_init__(self) -> None:
        """Check that there is one for each channel."""
        _check_names(self.channel_names, self.references)
        _check_single([one.reference.mixture for one in self.references.values()])


def _check_names(names: Sequence[str], models: Iterable[str]) -> None:
    if len({*names}) != len(names) or {*names} != {*models}:
        raise InvalidValueError("channel_names must name each channel once, and no other")


def _check_single(mixtures: Iterable[GaussianMixture]) -> None:
    if any(mixture.channels != 1 for mixture in mixtures):
        raise InvalidValueError("each must be a density of one channel")


@dataclass(frozen=True)
class JointMapRecord(MapRecord):
    """A joint intensity map, and how the image of one of its channels was made.

    Attributes
    ----------
    channel : the channel that the image beside it shows.
    channel_names : what each channel of the map shows, in order.
    joint : what was measured while it was found.
    """

    channel: str | None = None
    channel_names: tuple[str, ...] = ()
    joint: JointFigures | None = None
