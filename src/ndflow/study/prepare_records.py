"""What the files of a preparation say about how it was made.

| kind          | file                               | record              |
|---------------|------------------------------------|---------------------|
| `preparation` | the sidecar of a prepared image    | `PreparationRecord` |
| `aligned`     | the sidecar of an aligned copy     | `AlignedRecord`     |
| `prepared`    | ``provenance.json`` of the folder  | `PreparedRecord`    |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ndflow.doubt import Doubt
from ndflow.files.fingerprints import FileHash
from ndflow.preparation.volume import Measures
from ndflow.subject.records import FileRecord
from ndflow.values import JSON


@dataclass(frozen=True)
class PreparationRecord(FileRecord):
    """How a scan was prepared.

    Attributes
    ----------
    steps : what was done, by step: ``mask`` is "given", "brain" (found by deepbet) or "nonzero";
        ``bias field`` is "corrected" or "left"; ``tissues`` is "found", "given" or "none".
    settings : what the user chose.
    versions : of what made it.
    inputs : the files that were read, by what they are.
    outputs : the SHA-256 of the files that were written, by what they are.
    site : where the scan was made.
    measures : for quality control.
    seconds : how long each step took.
    warnings : for the user.
    doubts : what to check by eye.
    fingerprint : of everything that the results depend on.
    """

    kind: ClassVar[str] = "preparation"

    steps: dict[str, str]
    settings: dict[str, JSON]
    versions: dict[str, str]
    inputs: dict[str, tuple[FileHash, ...]]
    measures: Measures
    outputs: dict[str, str] = field(default_factory=dict)
    site: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    fingerprint: str | None = None


@dataclass(frozen=True)
class AlignedRecord(FileRecord):
    """How the copy of a prepared scan in the space of the template was made.

    Attributes
    ----------
    copy_of : the name of the prepared image, in the same folder.
    resolution : the size of the voxels, in mm.
    matrix : (4, 4), from millimetres of the template to millimetres of the scan.
    overlap : which share of the smaller of two brains, this and that of the template, lies inside
        the other.
    versions : of what made it.
    inputs, outputs : the SHA-256 of the files that were read and written, by what they are.
    seconds : how long it took.
    fingerprint : of everything that the copy depends on.
    """

    kind: ClassVar[str] = "aligned"

    copy_of: str
    resolution: float
    matrix: tuple[tuple[float, ...], ...]
    overlap: float
    versions: dict[str, str]
    inputs: dict[str, str]
    outputs: dict[str, str] = field(default_factory=dict)
    seconds: float | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class PreparedRecord(FileRecord):
    """What was prepared in a folder.

    Attributes
    ----------
    settings : what the user chose.
    command : what the user typed.
    versions : of what made it.
    files : the hashes of the tables that were written; sidecars have those of all else.
    channel : what the images show, if the user said so.
    outputs : the images that were to be made, whether they were or not.
    sites : how many prepared scans each has.
    finished : whether the run reached its end.
    prepared, failed : how many scans, with those of other runs to the same folder that the tables
        list; like all that follows, and the sites, known at the end.
    doubts : what to check by eye, by the name of the scan.
    """

    kind: ClassVar[str] = "prepared"

    settings: dict[str, JSON]
    command: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    channel: str | None = None
    outputs: tuple[str, ...] = ()
    sites: dict[str, int] = field(default_factory=dict)
    finished: bool = False
    prepared: int | None = None
    failed: int | None = None
    doubts: dict[str, tuple[Doubt, ...]] = field(default_factory=dict)
