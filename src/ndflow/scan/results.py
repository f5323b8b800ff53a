"""Results: an image, and the record beside it of how it was made.

The record of ``out.nii.gz`` is ``out.json``. It is a model file of the kind ``map``, so the map
that made an image can be applied again, or undone, from it. Both files take their names when both
are complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from nibabel.spatialimages import SpatialImage
from numpy.typing import NDArray

from ndflow.density import GaussianMixture
from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import with_checksum
from ndflow.files.json_model import check_new_model, write_model
from ndflow.files.stream import sha256_of
from ndflow.image.memory import make_array, make_image
from ndflow.image.read import Source
from ndflow.image.volume import Volume
from ndflow.image.write import check_output, write_volume
from ndflow.settings import Writing
from ndflow.transport import IntensityMap
from ndflow.values import FloatArray

__all__ = [
    "Hashes",
    "Result",
    "all_files",
    "check_result",
    "deliver",
    "hashes",
    "record_name",
    "safe_name",
    "stem",
]

Files = Mapping[str, Sequence[str]]
_UNSAFE = '%/\\:*?"<>|'

Hashes = dict[str, list[dict[str, str]]]


@dataclass(frozen=True)
class Result:
    """What became of an image.

    Attributes
    ----------
    image : the new image, an array where one was given and otherwise a nibabel image; or None
        where it was written to a file instead.
    imap : the map that made it.
    mixture : the density of the image that went in, where it was estimated.
    record : how it was made, as it stands in the JSON beside a written image.
    warnings : what the user should know.
    """

    image: NDArray[Any] | SpatialImage | None
    imap: IntensityMap
    mixture: GaussianMixture | None
    record: dict[str, Any]
    warnings: tuple[str, ...]


def stem(path: AnyPath) -> str:
    """Return the name of a file without folder and extension."""
    name = Path(path).name
    for end in (".gz", ".nii", ".hdr", ".img", ".mgh", ".mgz", ".json"):
        if name.lower().endswith(end) and len(name) > len(end):
            name = name[: -len(end)]
    return name


def safe_name(text: str) -> str:
    """Return a text that can be part of the name of a file, and that no other text gives."""
    return "".join(
        c if c.isprintable() and c not in _UNSAFE else quote(os.fsencode(c), safe="") for c in text
    )


def record_name(output: AnyPath) -> Path:
    """Return where the record of an image goes."""
    return Path(output).with_name(f"{stem(output)}.json")


def check_result(output: AnyPath, given: Sequence[str], *, writing: Writing) -> None:
    """Say now what `deliver` would say at the end, for the files that went in."""
    check_output(output, dtype=writing.dtype, force=writing.force, inputs=given)
    try:
        check_new_model(record_name(output), force=writing.force, inputs=given)
    except FileError as error:
        hint = f"it would be the record of {Path(output).name}: {error.hint}"
        raise FileError(error.path, error.cause, hint) from None


def deliver(
    given: Source,
    like: Volume,
    chunks: Iterable[FloatArray],
    imap: IntensityMap,
    record: Mapping[str, Any],
    *,
    output: AnyPath | None,
    inputs: Files,
    writing: Writing,
    mixture: GaussianMixture | None = None,
    warnings: Iterable[str] = (),
    record_file: AnyPath | None = None,
) -> Result:
    """Write an image with its record, or hand it over in memory.

    Parameters
    ----------
    given : the image as the user gave it.
    like : the same, read.
    chunks : the new voxels, see `write_volume`.
    imap, mixture, record, warnings : see `Result`.
    output : where to; None for memory.
    inputs : files that must not be replaced.
    writing : how.
    record_file : where the record goes, if not beside the image.
    """
    place = record_file or (record_name(output) if output else None)
    image: NDArray[Any] | SpatialImage | None = None
    full = dict(record)
    notes = list(warnings)
    protected = all_files(inputs)

    def complete(clipped: int, outputs: Sequence[str] = ()) -> None:
        if clipped:
            notes.append(
                f"{output or like.path}: {clipped:,} voxels did not fit the type {writing.dtype} "
                f"and became the nearest that does"
            )
        full.update(outputs=outputs, clipped=clipped, warnings=notes, map=imap.to_dict())
        if place is not None:
            write_model(place, "map", with_checksum(full), force=writing.force, inputs=protected)

    if output is None:
        make = make_array if isinstance(given, np.ndarray) else make_image
        image, clipped = make(like, chunks, dtype=writing.dtype)
        complete(clipped)
    else:
        write_volume(
            output,
            like,
            chunks,
            dtype=writing.dtype,
            force=writing.force,
            inputs=protected,
            then=lambda written: complete(written.clipped, written.sha256),
        )
    return Result(image, imap, mixture, full, tuple(notes))


def hashes(inputs: Files) -> Hashes:
    """Return the name and the SHA-256 of every file that went in."""
    return {
        what: [{"file": name, "sha256": sha256_of(name)} for name in names]
        for what, names in inputs.items()
        if names
    }


def all_files(inputs: Files) -> list[str]:
    """Return the files that went in, whatever they are."""
    return [name for names in inputs.values() for name in names]
