"""A saved intensity map on any image, or its inverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack, overload

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import Hashes
from ndflow.files.model_files import read_model
from ndflow.files.outputs import make_folder
from ndflow.image.read import Source
from ndflow.image.subject import Subject
from ndflow.options import Keywords, Options, chosen_options, documented
from ndflow.subject.normalise import outputs_of
from ndflow.subject.records import MapRecord
from ndflow.subject.results import Result, check_results, deliver, names_of
from ndflow.subject.target import check_channels
from ndflow.subject.voxels import (
    Voxels,
    check_found_mask,
    map_voxels,
    read_voxels,
    selection,
)
from ndflow.transport import IntensityMap
from ndflow.values import path_like, plural


class ApplyOptions(Keywords, total=False):
    """The keywords of `apply`, for type checkers."""

    inverse: bool
    other_image: bool
    mask: Source | None
    output: AnyPath | None


@overload
def apply(
    image: Source, imap: IntensityMap | AnyPath, **options: Unpack[ApplyOptions]
) -> Result: ...


@overload
def apply(
    image: Mapping[str, Source], imap: IntensityMap | AnyPath, **options: Unpack[ApplyOptions]
) -> dict[str, Result]: ...


@documented("write", "read")
def apply(
    image: Source | Mapping[str, Source],
    imap: IntensityMap | AnyPath,
    *,
    inverse: bool = False,
    other_image: bool = False,
    mask: Source | None = None,
    output: AnyPath | None = None,
    **options: Unpack[Keywords],
) -> Result | dict[str, Result]:
    """Apply an intensity map to an image, as ``ndflow apply`` does.

    Parameters
    ----------
    image : a path, a nibabel image, or an array; or, for a joint map, a dictionary of the channels
        of one subject by name.
    imap : a map, or the path of one; the sidecar of a normalised image is one.
    inverse : undo the map.
    other_image : undo it in an image that it did not make, such as an edited copy. By default that
        is refused where the file of the map says which image it made.
    mask : of the image, like `image`, or ``"auto"`` or ``"brain"``. It only says what is outside.
        Default: all non-zero voxels.
    output : where to write the image, with its sidecar beside it; for several channels, a folder.
        Default: it is returned.

    Returns
    -------
    Result
        The new image, and the map that made it. Of several channels, a dictionary with the result
        of each.

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
    chosen = Options(**chosen_options(options, "write", "read"))
    if not isinstance(imap, IntensityMap):
        path_like(imap, "imap, where it is not a map,")
    subject = Subject(image, mask)  # type: ignore[arg-type]  # it takes a single image, too
    outputs: Mapping[str, Path | None] = dict.fromkeys(subject.channels)
    if output is not None:
        folder, (outputs,) = outputs_of([subject], output)
        make_folder(folder)
    results = apply_map(
        subject,
        imap,
        inverse=inverse,
        other_image=other_image,
        outputs=outputs,
        options=chosen,
    )
    return results if isinstance(image, Mapping) else results[subject.channels[0]]


class SavedMap(NamedTuple):
    """The record of a map that a user means, what messages call it, and its file, if it has one."""

    record: MapRecord
    name: str = "the map"
    files: Hashes = {}  # noqa: RUF012  (never changed)


def read_map(imap: IntensityMap | AnyPath, channels: Sequence[str]) -> SavedMap:
    """Return the map that a user means; refuse one of other channels than were given."""
    if isinstance(imap, IntensityMap):
        found = SavedMap(MapRecord(imap))
    else:
        _, payload, file = read_model(imap, MapRecord.kind)
        found = SavedMap(MapRecord.of_payload(imap, payload), file.file, {"map": (file,)})
    record, d = found.record, found.record.map.channels
    if d != len(channels):
        cause = f"a map of {plural(d, 'channel')}, not of {len(channels)}"
        hint = "give all channels that it was made for, T1w=FILE FLAIR=FILE, or its image alone"
        raise FileError(found.name, cause, hint)
    if d > 1 and record.channel_names:
        check_channels(channels, record.channel_names, found.name)
    return found


def apply_map(
    subject: Subject,
    imap: IntensityMap | AnyPath,
    *,
    inverse: bool,
    other_image: bool = False,
    outputs: Mapping[str, AnyPath | None],
    options: Options,
    command: Sequence[str] | None = None,
) -> dict[str, Result]:
    """Apply an intensity map to all channels of a subject; see `apply`.

    Parameters
    ----------
    subject, imap, inverse, other_image : as for `apply`.
    outputs : where to write the image of each channel; None for memory.
    options : what the user chose.
    command : what the user typed, for the record.
    """
    saved = read_map(imap, subject.channels)
    check_found_mask(subject)
    inputs = subject.files() | names_of(saved.files)
    check_results(outputs.values(), inputs, options=options)
    voxels = read_voxels(subject, max_bytes=options.max_bytes)
    warnings = [*voxels.warnings]
    if inverse:
        if not other_image:
            _refuse_other_image(saved, subject, voxels)
        warnings += _lossy(saved, subject, voxels, options)
    chosen = saved.record.map.inverse() if inverse else saved.record.map
    several = len(subject.images) > 1
    pieces = map_voxels(voxels, chosen, options)
    results = {}
    for place, (name, image) in enumerate(subject.images.items()):
        record = MapRecord(
            chosen,
            command=None if command is None else tuple(command),
            settings={
                "inverse": inverse,
                "mask": selection(subject)["mask"],
                **options.of("read", "write"),
            },
            inputs=voxels.files | saved.files,
            warnings=tuple(warnings),
            channel=name if several else None,
            channel_names=subject.channels if several else None,
        )
        results[name] = deliver(
            image,
            voxels.volumes[place],
            pieces[place],
            record,
            output=outputs[name],
            inputs=inputs,
            options=options,
        )
    return results


def _refuse_other_image(saved: SavedMap, subject: Subject, voxels: Voxels) -> None:
    """Refuse to undo a map in an image that it did not make, as far as its file tells."""
    record = saved.record
    if not record.image:
        return
    volume = voxels.volumes[subject.channels.index(record.channel) if record.channel else 0]
    read = tuple(one.sha256 for one in volume.files)
    if read and read != record.image:
        cause = f"not the image that {saved.name} made: its content is another"
        hint = "give the map of this image; for an edited copy, add --other-image"
        raise FileError(volume.path, cause, hint)


def _lossy(saved: SavedMap, subject: Subject, voxels: Voxels, options: Options) -> list[str]:
    """Return warnings about voxels that cannot be undone without the mask."""
    if subject.mask is not None:
        return []
    found = []
    if saved.record.setting("outside") == "keep":
        found.append(
            f"{saved.name}: was made with --set outside=keep, so voxels outside its mask were not "
            f"mapped; to undo it, give the same --mask and --set outside"
        )
    if options.outside is None and voxels.volume.stored.dtype.kind in "ui":
        found.append(
            f"{voxels.volume.path}: holds integers, of which 0 is taken for background and stays "
            f"0; where voxels of the brain may have become 0, give its --mask to undo them too"
        )
    return found
