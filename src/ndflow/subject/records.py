"""What the files of ndflow hold, as typed records: the only place that writes and reads them.

| kind         | file                                      | record             |
|--------------|-------------------------------------------|--------------------|
| `mixture`    | the density of a scan                     | `ScanModel`        |
| `mixtures`   | those of its channels, each by itself     | `ScanModels`       |
| `reference`  | the average of many                       | `ReferenceModel`   |
| `references` | one for each of several channels          | `ReferenceModels`  |
| `map`        | an intensity map; the sidecar of a result | `MapRecord`        |
| `study`      | ``provenance.json``                       | `StudyRecord`      |
| `evaluation` | ``evaluation.json``                       | `EvaluationRecord` |

Each file carries a checksum of its content, so damage is noticed. Records hold mixtures and maps,
so they live here and not in `ndflow.files`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

import numpy as np

from ndflow.density import Fit, GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS, TAIL_LEVELS
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath, new_file
from ndflow.files.model_files import ModelFile, check_model, model_bytes, read_model
from ndflow.files.stream import FileHash
from ndflow.image.mask_doubts import MaskFigures
from ndflow.image.read import IMAGE_KINDS, kind_of
from ndflow.methods.base import DensityModel, MatchRecord
from ndflow.population import Landmarks, Reference, TissueModel, Tissues
from ndflow.population.balancing import SiteBalance
from ndflow.population.proportions import Trust
from ndflow.subject.presets import PresetRecord
from ndflow.subject.voxels import VoxelCounts
from ndflow.transport import IntensityMap
from ndflow.transport.joint import JointFigures
from ndflow.values import JSON, Doubt, FloatArray, Record, real_array, short


class FileRecord(Record):
    """The content of a file of its own.

    Attributes
    ----------
    kind : what the file says that it is.
    """

    kind: ClassVar[str]

    def content(self, metadata: Mapping[str, JSON] | None = None) -> bytes:
        """Return what the file of the record holds; `metadata` is what else it should say."""
        return model_bytes(self.kind, {**(metadata or {}), **self.to_dict()})

    def write(self, path: AnyPath, *, force: bool = False, inputs: Sequence[AnyPath] = ()) -> None:
        """Write the record to a file.

        Parameters
        ----------
        path : where to.
        force : whether another file may be replaced.
        inputs : files that must not be replaced, not even then.
        """
        content = self.content()
        with new_file(path, force=force, inputs=inputs) as file:
            file.write(content)

    @classmethod
    def read(cls, path: AnyPath) -> Self:
        """Read a record that ndflow wrote from its file.

        Raises
        ------
        FileError
            Where the file cannot be read, is not what it should be, or has no checksum.
        """
        return cls.of_payload(path, read_model(path, cls.kind, sealed=True).payload)

    @classmethod
    def of_payload(cls, path: AnyPath, payload: Mapping[str, JSON]) -> Self:
        """Return the record in a file that was read already."""
        try:
            return cls.from_dict(payload)
        except InvalidValueError as error:
            cause = f"not a valid {cls.kind}: {error}"
            raise FileError(path, cause, "the file is damaged") from None


@dataclass(frozen=True)
class ScanModel(FileRecord):
    """The density of a scan, and how it was estimated.

    Attributes
    ----------
    mixture, landmarks, tissues : what is known about its intensities.
    sha256 : the hashes of the files it was made from, by what they are. Their names are left out:
        the file may go where the scan may not.
    settings : what the user chose.
    voxels : how many were used.
    fit : how the fit ended.
    misfit : the largest difference between the distribution functions of histogram and mixture.
    quantiles : of the histogram, at `ndflow.density.binning.QUANTILE_LEVELS`.
    tails : of the histogram with its outliers, at `ndflow.density.binning.TAIL_LEVELS`.
    mask : what was measured about its mask.
    warnings, doubts : for the user; and what to check by eye.
    fingerprint : of everything that the model depends on.
    outputs : a brain mask that was found and written with it, see `files.model_files`.
    channel_names, marginals : of several channels, their names and the density of each.
    """

    kind: ClassVar[str] = "mixture"

    mixture: GaussianMixture
    landmarks: Landmarks | None = None
    tissues: Tissues | None = None
    sha256: dict[str, tuple[str, ...]] | None = None
    settings: dict[str, JSON] | None = None
    voxels: VoxelCounts | None = None
    fit: str | None = None
    misfit: float | None = None
    quantiles: FloatArray | None = None
    tails: FloatArray | None = None
    mask: MaskFigures | None = None
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    fingerprint: str | None = None
    outputs: dict[str, str] | None = None
    channel_names: tuple[str, ...] | None = None
    marginals: tuple[GaussianMixture, ...] | None = None

    def __post_init__(self) -> None:
        """Check quantiles, and that each channel of a joint mixture has a name and a density."""
        for name, levels in (("quantiles", QUANTILE_LEVELS), ("tails", TAIL_LEVELS)):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, real_array(given, name, levels.size))
        names, d = self.channel_names, self.mixture.channels
        if names and len({*names}) != d:
            raise InvalidValueError(f"channel_names must be {d} different names")
        if self.marginals and [one.channels for one in self.marginals] != [1] * d:
            raise InvalidValueError(f"marginals must be {d} densities of one channel each")

    @property
    def model(self) -> DensityModel:
        """What a method knows about the scan."""
        quantiles = None if self.quantiles is None else np.array(self.quantiles)
        own = self.marginals or ()
        return DensityModel(self.mixture, self.landmarks, self.tissues, quantiles, marginals=own)


@dataclass(frozen=True)
class InputRecord(Record):
    """A scan that went into a reference: its name, its hashes and how it was fitted."""

    name: str
    sha256: tuple[str, ...]
    settings: dict[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True)
class ReferenceModel(FileRecord):
    """A reference, and what it was made from."""

    kind: ClassVar[str] = "reference"

    reference: Reference
    inputs: tuple[InputRecord, ...] | None = None


@dataclass(frozen=True)
class TargetRecord(Record):
    """What a scan was brought to, in the units of the result; and what is doubtful about it."""

    name: str
    mixture: GaussianMixture
    landmarks: Landmarks | None = None
    tissues: TissueModel | None = None
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True)
class MapRecord(FileRecord):
    """An intensity map, and how the image beside it was made.

    Attributes
    ----------
    map : from the intensities of the scan to those of the result.
    command : what the user typed.
    settings, preset : what was chosen; what a preset decided, and why: for a study, see its record.
    inputs : the files that were read, by what they are.
    outputs : the files that were written, see `files.model_files`.
    site : where the scan was made.
    target : what it was brought to; in a study, see the study's reference.
    mixture, voxels, fit : its density, how many voxels that saw, and how the fit ended.
    mask : what was measured about its mask.
    match : how the map was found.
    clipped : how many voxels did not fit the data type of the result.
    warnings, doubts : for the user; and what to check by eye, about its mask and its match.
    fingerprint : of everything that the result depends on.
    channel, channel_names, joint : of a map of several channels, which of them the image shows, all
        of their names, and what was measured on the way.
    """

    kind: ClassVar[str] = "map"

    map: IntensityMap
    command: tuple[str, ...] | None = None
    settings: dict[str, JSON] | None = None
    inputs: dict[str, tuple[FileHash, ...]] | None = None
    outputs: dict[str, str] | None = None
    site: str | None = None
    target: TargetRecord | None = None
    mixture: GaussianMixture | None = None
    voxels: VoxelCounts | None = None
    fit: str | None = None
    mask: MaskFigures | None = None
    match: MatchRecord | None = None
    clipped: int | None = None
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    fingerprint: str | None = None
    preset: PresetRecord | None = None
    channel: str | None = None
    channel_names: tuple[str, ...] | None = None
    joint: JointFigures | None = None

    @property
    def image(self) -> tuple[str, ...]:
        """The SHA-256 of the files of the image that was written; empty if none was."""
        made = (self.outputs or {}).items()
        return tuple(sha256 for name, sha256 in made if kind_of(name) in IMAGE_KINDS)

    def setting(self, name: str) -> JSON:
        """Return what the user chose, if the record says so."""
        return (self.settings or {}).get(name)


@dataclass(frozen=True)
class Agreement(Record):
    """How far the median intensities of tissues lie apart between scans.

    Attributes
    ----------
    scans : how many have tissue probability maps.
    own_maps : whether these maps also made what scans were brought to.
    normalised, zscored, nyul : the standard deviation over scans of the median of each tissue, in
        units of the gap between GM and WM: normalised, z-scored, and after Nyúl's method.
    failure : why they lie so far apart that the study has failed; None of one that works.
    """

    scans: int
    own_maps: bool
    normalised: dict[str, float]
    zscored: dict[str, float]
    nyul: dict[str, float]
    failure: Doubt | None = field(default=None, kw_only=True)

    @property
    def means(self) -> tuple[str, ...]:
        """The mean over tissues, in words: normalised, z-scored, and after Nyúl's method."""
        parts = (self.normalised, self.zscored, self.nyul)
        return tuple(percent(sum(one.values()) / len(one)) for one in parts)


def percent(share: float) -> str:
    """Return a share in percent, with two digits."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


@dataclass(frozen=True)
class StudyRecord(FileRecord):
    """What was run in a folder, and how it ended.

    Attributes
    ----------
    settings, preset : what was chosen; what the preset decided, and why, for methods with presets.
    command : what the user typed.
    versions : of ndflow and what it depends on.
    reference : the reference that was given, if any.
    mask : of scans without one, where there are any.
    inputs : the files that belong to no single scan and were read: references that were given.
    outputs : the files at the top of the folder, see `files.model_files`; those that a run has
        only begun to write have no hash yet.
    channels : what the images show; several are normalised together.
    scans, sites : how many scans there are, and how many each site has.
    finished : whether the run reached its end.
    done, failed : how many scans of each step, by its name; and how many failed.
    doubts, of_study : what to check by eye, by the name of the scan; and about the whole study.
    balance : what the weights of each site achieve, if scans are weighted.
    agreement : how far tissues lie apart between scans, where tissue maps were used.
    made_from : the hash of all that the references were made from; None in older studies.
    table : the list of scans that the user gave, or of participants, if there was one.
    trust : how far the proportions of tissue are known at each site, or of ``all scans``, where
        they were estimated.
    """

    kind: ClassVar[str] = "study"

    settings: dict[str, JSON]
    command: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    reference: str | None = None
    mask: str | None = None
    inputs: tuple[FileHash, ...] = ()
    outputs: dict[str, str] = field(default_factory=dict)
    channels: tuple[str, ...] = ()
    scans: int = 0
    sites: dict[str, int] = field(default_factory=dict)
    finished: bool = False
    done: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    doubts: dict[str, tuple[Doubt, ...]] = field(default_factory=dict)
    of_study: tuple[Doubt, ...] = ()
    preset: PresetRecord | None = None
    balance: dict[str, SiteBalance] = field(default_factory=dict)
    agreement: Agreement | None = None
    made_from: str | None = None
    table: FileHash | None = None
    trust: dict[str, Trust] = field(default_factory=dict)

    @property
    def is_preparation(self) -> bool:
        """Whether scans were prepared, and nothing else."""
        return not self.channels


@dataclass(frozen=True)
class StudiesRecord(FileRecord):
    """What lies at the top of a folder with a study of each of several channels.

    Attributes
    ----------
    channels : whose studies are in folders of these names.
    outputs : the files beside these folders, see `files.model_files`.
    """

    kind: ClassVar[str] = "studies"

    channels: tuple[str, ...]
    outputs: dict[str, str]


@dataclass(frozen=True)
class EvaluationRecord(FileRecord):
    """What was compared, and how.

    Attributes
    ----------
    results : the fingerprint of the results of each study, by its name.
    outputs : the files that were written, see `files.model_files`; those that have only begun
        to be written have no hash yet.
    command, settings : what the user typed and chose.
    runs : the folder of each study.
    """

    kind: ClassVar[str] = "evaluation"

    results: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    settings: dict[str, JSON] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)


# ── several channels ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ScanModels(FileRecord):
    """The densities of the channels of a subject, each by itself.

    Attributes
    ----------
    mixtures : what is known about each of them, by name, as in a file of its own.
    """

    kind: ClassVar[str] = "mixtures"

    mixtures: dict[str, ScanModel]

    def __post_init__(self) -> None:
        """Check that each is of one channel."""
        _check_alone(one.mixture for one in self.mixtures.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about any of them."""
        return tuple(dict.fromkeys(line for o in self.mixtures.values() for line in o.warnings))

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What to check by eye about any of them."""
        return tuple(dict.fromkeys(doubt for o in self.mixtures.values() for doubt in o.doubts))


@dataclass(frozen=True)
class ReferenceModels(FileRecord):
    """A reference for each of several channels.

    Attributes
    ----------
    references : the reference of each, by name, as in a file of its own.
    """

    kind: ClassVar[str] = "references"

    references: dict[str, ReferenceModel]

    def __post_init__(self) -> None:
        """Check that each is of one channel."""
        _check_alone(one.reference.mixture for one in self.references.values())


def _check_alone(mixtures: Iterable[GaussianMixture]) -> None:
    if any(mixture.channels != 1 for mixture in mixtures):
        raise InvalidValueError("each must be a density of one channel")


def densities_in(read: ModelFile) -> dict[str, ScanModel] | dict[str, ReferenceModel]:
    """Return what a file knows about each channel by itself, or about all together under ``""``."""
    path = read.file.file
    if read.kind == ScanModels.kind:
        return ScanModels.of_payload(path, read.payload).mixtures
    if read.kind == ReferenceModels.kind:
        return ReferenceModels.of_payload(path, read.payload).references
    if read.kind == ReferenceModel.kind:
        return {"": ReferenceModel.of_payload(path, read.payload)}
    scan = ScanModel.of_payload(path, read.payload)
    if scan.mixture.channels > 1 and not scan.channel_names:
        cause = f"a density of {scan.mixture.channels} channels without names"
        hint = "make it with names: ndflow fit NAME=FILE NAME=FILE --joint -o FILE"
        raise FileError(path, cause, hint)
    return {"": scan}


# ── from Python ───────────────────────────────────────────────────────────────────────────────────

Model = GaussianMixture | Reference | IntensityMap
Models = Mapping[str, GaussianMixture | Fit] | Mapping[str, Reference]


def load(path: AnyPath) -> Model | dict[str, GaussianMixture] | dict[str, Reference]:
    """Read a mixture, a reference or an intensity map from its file.

    Parameters
    ----------
    path : written by `save` or by a command; the sidecar of a normalised image is a map.

    Returns
    -------
    GaussianMixture, Reference or IntensityMap
        A reference has its landmarks and tissues, if the file holds them. Of several
        channels, each by itself, a dictionary of mixtures or references by the name of the channel.

    Raises
    ------
    FileError
        Where the file cannot be read, or holds something else.

    Examples
    --------
    >>> import tempfile
    >>> import ndflow
    >>> mixture = ndflow.GaussianMixture([0.5, 0.5], [0.0, 3.0], [1.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ndflow.save(f"{folder}/mixture.json", mixture)
    ...     ndflow.load(f"{folder}/mixture.json") == mixture
    True
    """
    read = read_model(path, "mixture", "mixtures", "reference", "references", "map")
    if read.kind == "map":
        return MapRecord.of_payload(path, read.payload).map
    if read.kind == "mixture":
        return ScanModel.of_payload(path, read.payload).mixture
    found: dict[str, Any] = {
        name: one.mixture if isinstance(one, ScanModel) else one.reference
        for name, one in densities_in(read).items()
    }
    return cast("Model", found.get("", found))


def save(path: AnyPath, model: Model | Fit | Models, *, force: bool = False) -> None:
    """Write a mixture, a reference or an intensity map to a file.

    Parameters
    ----------
    path : where to; a name that ends with ``.json``.
    model : what to write; of a fit, its mixture. A dictionary holds the mixtures or the references
        of several channels, by their names.
    force : whether another file may be replaced.

    Raises
    ------
    FileError
        Where the file exists, or cannot be written.

    Examples
    --------
    See `load`.
    """
    check_model(path, force=force)
    _record_of(model).write(path, force=force)


def _record_of(model: Model | Fit | Models) -> FileRecord:
    if isinstance(model, Mapping):
        parts: dict[str, Any] = {str(name): _record_of(one) for name, one in model.items()}
        kinds = {type(one) for one in parts.values()}
        if kinds == {ScanModel}:
            return ScanModels(parts)
        if kinds == {ReferenceModel}:
            return ReferenceModels(parts)
        raise InvalidValueError("model must be all mixtures or all references, by channel")
    if isinstance(model, GaussianMixture | Fit):
        return ScanModel(model.mixture if isinstance(model, Fit) else model)
    if isinstance(model, Reference):
        return ReferenceModel(model)
    if isinstance(model, IntensityMap):
        return MapRecord(model)
    raise InvalidValueError(f"model must be a mixture, a reference or a map, not {short(model)}")
