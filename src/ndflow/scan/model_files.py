"""Mixtures, references and intensity maps in files, and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

from ndflow.density import Fit, GaussianMixture
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.json_model import check_new_model, read_model
from ndflow.population import Reference
from ndflow.scan.records import FileRecord, MapRecord, ReferenceModel, ScanModel
from ndflow.transport import IntensityMap
from ndflow.values import path_like, short

__all__ = ["Model", "check_model", "is_model", "load", "save"]

Model = GaussianMixture | Reference | IntensityMap


def load(path: AnyPath) -> Model:
    """Read a mixture, a reference or an intensity map from its file.

    Parameters
    ----------
    path : written by `save` or by a command; the sidecar of a normalised image is a map.

    Returns
    -------
    GaussianMixture, Reference or IntensityMap
        A reference has its landmarks, tissues and ceiling, if the file holds them.

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
    kind, payload, _ = read_model(path, "mixture", "reference", "map")
    if kind == "mixture":
        return ScanModel.of_payload(path, payload).mixture
    if kind == "reference":
        return ReferenceModel.of_payload(path, payload).reference
    return MapRecord.of_payload(path, payload).map


def save(path: AnyPath, model: Model | Fit, *, force: bool = False) -> None:
    """Write a mixture, a reference or an intensity map to a file.

    Parameters
    ----------
    path : where to; a name that ends with ``.json``.
    model : what to write; of a fit, its mixture.
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


def check_model(path: AnyPath, inputs: Sequence[AnyPath] = (), *, force: bool = False) -> None:
    """Say now why a model may not be written, for the files that it is made from."""
    if not is_model(path):
        raise FileError(path, "a model is written as JSON", "let its name end with .json")
    check_new_model(path, force=force, inputs=inputs, may_be_damaged=False)


def is_model(source: object) -> TypeGuard[AnyPath]:
    """Tell whether something is the path of a model, by its name."""
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".json"


def _record_of(model: Model | Fit) -> FileRecord:
    if isinstance(model, Fit):
        return ScanModel(model.mixture)
    if isinstance(model, GaussianMixture):
        return ScanModel(model)
    if isinstance(model, Reference):
        return ReferenceModel(model)
    if isinstance(model, IntensityMap):
        return MapRecord(model)
    raise InvalidValueError(f"model must be a mixture, a reference or a map, not {short(model)}")
