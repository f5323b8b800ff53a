"""A saved intensity map on any image, or its inverse."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.image.read import Source
from ndflow.image.scans import Scan
from ndflow.scan.map_voxels import mapped
from ndflow.scan.parameters import documented
from ndflow.scan.reading import read_masked, selection
from ndflow.scan.records import MapRecord
from ndflow.scan.results import Result, all_files, check_result, deliver, hashes
from ndflow.scan.settings import DType, Outside, Reading, Writing, flat
from ndflow.transport import IntensityMap

__all__ = ["apply", "apply_map"]


@documented(Writing, Reading)
def apply(
    image: Source,
    imap: IntensityMap | AnyPath,
    *,
    inverse: bool = False,
    mask: Source | None = None,
    output: AnyPath | None = None,
    outside: Outside | None = Writing.outside,
    dtype: DType = Writing.dtype,
    force: bool = Writing.force,
    max_bytes: int = Reading.max_bytes,
) -> Result:
    """Apply an intensity map to an image, as ``ndflow apply`` does.

    Parameters
    ----------
    image : a path, a nibabel image, or an array.
    imap : a map, or the path of one; the sidecar of a normalised image is one.
    inverse : undo the map.
    mask : of the image, like `image`, or ``"auto"``. It only says what is outside. Default: all
        voxels but 0.
    output : where to write the image, with its sidecar beside it. Default: it is returned.

    Returns
    -------
    Result
        The new image, and the map that made it.

    Raises
    ------
    FileError
        Where a file cannot be read or written.

    Examples
    --------
    >>> import numpy as np
    >>> import ndflow
    >>> double = ndflow.Affine([[2.0]], [0.0])
    >>> scan = np.arange(1.0, 9.0).reshape(2, 2, 2)
    >>> float(ndflow.apply(scan, double).image.max())
    16.0
    >>> float(ndflow.apply(scan, double, inverse=True).image.max())
    4.0
    """
    return apply_map(
        Scan(image, mask),
        imap,
        inverse=inverse,
        output=output,
        reading=Reading(max_bytes),
        writing=Writing(outside, dtype, force),
    )


def apply_map(
    scan: Scan,
    imap: IntensityMap | AnyPath,
    *,
    inverse: bool,
    output: AnyPath | None,
    reading: Reading,
    writing: Writing,
    command: Sequence[str] | None = None,
) -> Result:
    """Apply an intensity map to a scan; see `apply`.

    Parameters
    ----------
    scan : the image, and its mask.
    imap, inverse, output : as for `apply`.
    reading, writing : what the user chose.
    command : what the user typed, for the record.
    """
    inputs = scan.files()
    warnings: list[str] = []
    if isinstance(imap, IntensityMap):
        name = "the map"
    else:
        name = os.fspath(imap)
        saved = MapRecord.read(name)
        if inverse and scan.mask is None and saved.setting("outside") == "keep":
            warnings.append(
                f"{name}: was made with --outside keep, so voxels outside its mask were not "
                f"mapped; to undo it, give the same --mask and --outside"
            )
        inputs["map"], imap = (name,), saved.map
    if imap.channels != 1:
        cause = f"a map of {imap.channels} channels, but an image has one"
        raise FileError(name, cause, "use a map of one channel")
    chosen = imap.inverse() if inverse else imap
    if output is not None:
        check_result(output, all_files(inputs), writing=writing)
    volume, inside, found = read_masked(scan.image, scan.mask, max_bytes=reading.max_bytes)
    integers = volume.stored.dtype.kind in "ui"
    if inverse and scan.mask is None and writing.outside is None and integers:
        warnings.append(
            f"{volume.path}: holds integers, of which 0 is taken for background and stays 0; where "
            f"voxels of the brain may have become 0, give its --mask to undo them too"
        )
    record = MapRecord(
        chosen,
        command=None if command is None else tuple(command),
        settings={"inverse": inverse, "mask": selection(scan)["mask"], **flat(reading, writing)},
        inputs=hashes(inputs),
        warnings=(*warnings, *found),
    )
    return deliver(
        scan,
        volume,
        mapped(volume, chosen, inside, writing.outside, writing.dtype),
        record,
        output=output,
        inputs=inputs,
        writing=writing,
    )
