"""Mixtures, references and maps in files, and back.

A file of the kind ``map``, say, holds the map under that very name; whatever else stands beside it
is a record of how it was made, for people.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from ndflow.baselines import Landmarks
from ndflow.density import Fit, GaussianMixture
from ndflow.errors import FileError, InvalidValueError
from ndflow.io import AnyPath, check_new_model, read_model, write_model
from ndflow.population import Reference
from ndflow.transport import IntensityMap
from ndflow.workflow.stamps import sealed

__all__ = [
    "Model",
    "check_model",
    "is_model",
    "load",
    "load_density",
    "load_landmarks",
    "load_map",
    "outside_of",
    "save",
]

Model = GaussianMixture | Reference | IntensityMap

_KINDS: dict[str, Any] = {
    "mixture": GaussianMixture,
    "reference": Reference,
    "map": IntensityMap,
}


def load(path: AnyPath) -> Model:
    """Read a mixture, a reference or a map from its file.

    Parameters
    ----------
    path : written by `save` or by a command; the JSON beside a normalised image is a map.
    """
    return _loaded(path, *_KINDS)


def load_density(path: AnyPath) -> GaussianMixture | Reference:
    """Read a mixture or a reference."""
    return _loaded(path, "mixture", "reference")  # type: ignore[return-value]


def load_landmarks(path: AnyPath) -> Landmarks | None:
    """Read the landmarks that stand beside a mixture or a reference, if there are any."""
    _, payload = read_model(path, "mixture", "reference")
    if "landmarks" not in payload:
        return None
    try:
        return Landmarks.from_dict(payload["landmarks"])
    except InvalidValueError as error:
        raise FileError(path, f"not valid landmarks: {error}", "the file is damaged") from None


def load_map(path: AnyPath) -> IntensityMap:
    """Read a map."""
    return _loaded(path, "map")  # type: ignore[return-value]


def outside_of(path: AnyPath) -> object:
    """Return what the record of a map says about voxels outside the mask."""
    settings = read_model(path, "map")[1].get("settings")
    return settings.get("outside") if isinstance(settings, Mapping) else None


def save(
    path: AnyPath,
    model: Model | Fit,
    *,
    record: Mapping[str, Any] | None = None,
    force: bool = False,
    inputs: Sequence[AnyPath] = (),
) -> None:
    """Write a mixture, a reference or a map to a file.

    Parameters
    ----------
    path : where to, a name that ends with .json.
    model : what; of a fit, its mixture.
    record : how it was made, as JSON can hold it.
    force : whether another file may be replaced.
    inputs : files that must not be replaced, not even then.
    """
    check_model(path, inputs, force=force)
    value = model.mixture if isinstance(model, Fit) else model
    for kind, made in _KINDS.items():
        if isinstance(value, made):
            payload = sealed({**(record or {}), kind: value.to_dict()})
            return write_model(path, kind, payload, force=force, inputs=inputs)
    raise InvalidValueError(f"model must be a mixture, a reference or a map, not {model!r}")


def check_model(path: AnyPath, inputs: Sequence[AnyPath] = (), *, force: bool = False) -> None:
    """Say now what `save` would say at the end, for the files that went in."""
    if not is_model(path):
        raise FileError(path, "a model is written as JSON", "let its name end with .json")
    check_new_model(path, force=force, inputs=inputs)


def is_model(source: object) -> TypeGuard[AnyPath]:
    """Tell whether something is the path of a model, by its name."""
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".json"


def _loaded(path: AnyPath, *kinds: str) -> Model:
    kind, payload = read_model(path, *kinds)
    if kind not in payload:
        raise FileError(path, f"a {kind} file without a {kind}", "the file is damaged")
    try:
        model: Model = _KINDS[kind].from_dict(payload[kind])
    except InvalidValueError as error:
        raise FileError(path, f"not a valid {kind}: {error}", "the file is damaged") from None
    return model
