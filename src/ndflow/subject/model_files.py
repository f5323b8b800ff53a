"""Mixtures, references and intensity maps in files, and back."""

from __future__ import annotations

from collections.abc import Mapping

from ndflow.density import Fit, GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.model_files import check_model, read_model
from ndflow.population import Reference
from ndflow.subject.records import (
    FileRecord,
    MapRecord,
    ReferenceModel,
    ReferenceModels,
    ScanModel,
    ScanModels,
)
from ndflow.transport import IntensityMap
from ndflow.values import path_like, short

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
    path_like(path, "path")
    kinds = (ScanModel, ScanModels, ReferenceModel, ReferenceModels, MapRecord)
    kind, payload, _ = read_model(path, *(one.kind for one in kinds))
    if kind == "mixtures":
        models = ScanModels.of_payload(path, payload)
        return {name: models.mixtures[name].mixture for name in models.channel_names}
    if kind == "references":
        references = ReferenceModels.of_payload(path, payload)
        return {name: references.references[name].reference for name in references.channel_names}
    if kind == "mixture":
        return ScanModel.of_payload(path, payload).mixture
    if kind == "reference":
        return ReferenceModel.of_payload(path, payload).reference
    return MapRecord.of_payload(path, payload).map


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
    path_like(path, "path")
    check_model(path, force=force)
    _record_of(model).write(path, force=force)


def _record_of(model: Model | Fit | Models) -> FileRecord:
    if isinstance(model, Mapping):
        return _channel_record({name: _record_of(one) for name, one in model.items()})
    if isinstance(model, Fit):
        return ScanModel(model.mixture)
    if isinstance(model, GaussianMixture):
        return ScanModel(model)
    if isinstance(model, Reference):
        return ReferenceModel(model)
    if isinstance(model, IntensityMap):
        return MapRecord(model)
    raise InvalidValueError(f"model must be a mixture, a reference or a map, not {short(model)}")


def _channel_record(records: dict[str, FileRecord]) -> FileRecord:
    names = tuple(map(str, records))
    models = {name: one for name, one in records.items() if isinstance(one, ScanModel)}
    references = {name: one for name, one in records.items() if isinstance(one, ReferenceModel)}
    if names and len(models) == len(names):
        return ScanModels(names, models)
    if names and len(references) == len(names):
        return ReferenceModels(names, references)
    raise InvalidValueError("model must be mixtures or references by channel, not both, nor others")
