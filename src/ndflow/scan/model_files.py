"""Mixtures, references and maps in files, and back.

A file of the kind ``map``, say, holds the map under that very name; whatever else stands beside it
is a record of how it was made, for people.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from ndflow.density import Fit, GaussianMixture
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import with_checksum
from ndflow.files.json_model import check_new_model, read_model, write_model
from ndflow.methods.landmarks import Landmarks
from ndflow.population import HealthyCeiling, Reference, TissueModel, Tissues
from ndflow.transport import IntensityMap
from ndflow.values import Value, instance, short

__all__ = [
    "Described",
    "Model",
    "check_model",
    "is_model",
    "load",
    "load_described",
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

    What else stands in the file stays there: of a reference its landmarks, its tissues and what it
    knows of lesions. To use those, give the path itself, for example to `normalise`.

    Parameters
    ----------
    path : written by `save` or by a command; the JSON beside a normalised image is a map.
    """
    return _loaded(path, *_KINDS)


class Described(NamedTuple):
    """A density, and what stands beside it in its file, where there is anything."""

    density: GaussianMixture | Reference
    landmarks: Landmarks | None
    tissues: Tissues | TissueModel | None
    alarm: HealthyCeiling | None


def load_described(path: AnyPath) -> Described:
    """Read a mixture or a reference with what stands beside it."""
    kind, payload = read_model(path, "mixture", "reference")
    tissues: type[Tissues] | type[TissueModel] = Tissues if kind == "mixture" else TissueModel
    return Described(
        _part(path, payload, kind, _KINDS[kind]),
        _part(path, payload, "landmarks", Landmarks) if "landmarks" in payload else None,
        _part(path, payload, "tissues", tissues) if "tissues" in payload else None,
        _part(path, payload, "alarm", HealthyCeiling) if "alarm" in payload else None,
    )


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
    instance(path, "path", str | os.PathLike)
    check_model(path, inputs, force=force)
    value = model.mixture if isinstance(model, Fit) else model
    for kind, made in _KINDS.items():
        if isinstance(value, made):
            payload = with_checksum({**(record or {}), kind: value.to_dict()})
            return write_model(path, kind, payload, force=force, inputs=inputs)
    raise InvalidValueError(f"model must be a mixture, a reference or a map, not {short(model)}")


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
    model: Model = _part(path, payload, kind, _KINDS[kind])
    return model


def _part(path: AnyPath, payload: Mapping[str, Any], name: str, wanted: type[Value]) -> Any:
    if name not in payload:
        raise FileError(path, f"a {name} file without a {name}", "the file is damaged")
    try:
        return wanted.from_dict(payload[name])
    except InvalidValueError as error:
        what = f"a valid {name}" if name in _KINDS else f"valid {name}"
        raise FileError(path, f"not {what}: {error}", "the file is damaged") from None
