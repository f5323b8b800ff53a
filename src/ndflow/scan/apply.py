"""A saved map on any image, or its inverse."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.image.read import Source
from ndflow.scan.map_voxels import mapped
from ndflow.scan.model_files import load_map, outside_of
from ndflow.scan.reading import input_files, read_masked, selection
from ndflow.scan.results import Result, all_files, check_result, deliver, hashes
from ndflow.settings import Reading, Writing, flat, settings_from
from ndflow.transport import IntensityMap

__all__ = ["apply", "apply_map"]


def apply(
    image: Source,
    imap: IntensityMap | AnyPath,
    *,
    inverse: bool = False,
    mask: Source | None = None,
    output: AnyPath | None = None,
    **settings: Any,
) -> Result:
    """Apply a map to an image, as ``ndflow apply`` does.

    Parameters
    ----------
    image : a path, a nibabel image, or an array.
    imap : a map, or the path of one; the JSON beside a normalised image is one.
    inverse : undo the map.
    mask : of the image, like `image`; or ``"auto"``. It only tells what is outside. Default: all
        voxels but 0.
    output : where to write the image, with its record beside it. Default: it is returned.
    **settings : outside, dtype, force, max_bytes; see ``ndflow apply --help``.
    """
    reading, writing = settings_from(settings, Reading, Writing)
    return apply_map(
        image, imap, inverse=inverse, mask=mask, output=output, reading=reading, writing=writing
    )


def apply_map(
    image: Source,
    imap: IntensityMap | AnyPath,
    *,
    inverse: bool,
    mask: Source | None,
    output: AnyPath | None,
    reading: Reading,
    writing: Writing,
    command: Sequence[str] | None = None,
) -> Result:
    """Apply a map; otherwise like `apply`.

    Parameters
    ----------
    command : what the user typed, for the record.
    """
    inputs = input_files(image=image, mask=mask)
    doubts = []
    if isinstance(imap, IntensityMap):
        name = "the map"
    else:
        name = os.fspath(imap)
        if inverse and mask is None and outside_of(imap) == "keep":
            doubts.append(
                f"{name}: was made with --outside keep, so what is outside its mask was not "
                f"mapped; to undo it, give the same --mask and --outside"
            )
        inputs["map"], imap = (name,), load_map(imap)
    if imap.channels != 1:
        cause = f"a map of {imap.channels} channels, but an image has one"
        raise FileError(name, cause, "use a map of one channel")
    kind = selection(mask, None)["mask"]
    chosen = imap.inverse() if inverse else imap
    if output is not None:
        check_result(output, all_files(inputs), writing=writing)
    volume, inside, warnings = read_masked(image, mask, max_bytes=reading.max_bytes)
    if inverse and mask is None and writing.outside is None and volume.stored.dtype.kind in "ui":
        doubts.append(
            f"{volume.path}: whole numbers, of which 0 is taken for background and stays 0; where "
            f"voxels of a brain may have become 0, give its --mask to undo them too"
        )
    return deliver(
        image,
        volume,
        mapped(volume, chosen, inside, writing.outside, writing.dtype),
        chosen,
        {
            "command": None if command is None else list(command),
            "settings": {"inverse": inverse, "mask": kind, **flat(reading, writing)},
            "inputs": hashes(inputs),
        },
        output=output,
        inputs=inputs,
        writing=writing,
        warnings=doubts + warnings,
    )
