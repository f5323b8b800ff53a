"""A saved intensity map on any image, or its inverse."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Unpack, overload

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import Hashes
from ndflow.files.model_files import read_model
from ndflow.image.read import Source
from ndflow.image.subject import Scan
from ndflow.options import Keywords, Options, chosen_options, documented
from ndflow.subject.channels import Subject, check_channels, listed
from ndflow.subject.map_voxels import mapped, mapped_jointly
from ndflow.subject.outputs import channel_outputs, make_folder
from ndflow.subject.records import JointMapRecord, MapRecord
from ndflow.subject.results import (
    Result,
    SubjectResults,
    all_files,
    check_result,
    deliver,
    names_of,
)
from ndflow.subject.voxels import Channels, read_channels, read_masked, selection
from ndflow.transport import IntensityMap
from ndflow.values import path_like

# ── several channels ──────────────────────────────────────────────────────────────────────────────


class JointMap(NamedTuple):
    """A joint map, and what its file says about it.

    Attributes
    ----------
    imap : the map.
    name : what messages call it.
    files : that it was read from, with their hashes.
    channel, made : the channel whose image the file describes, and the hashes of that image.
    outside : what became of voxels outside the mask.
    """

    imap: IntensityMap
    name: str
    files: Hashes
    channel: str | None = None
    made: tuple[str, ...] | None = None
    outside: str | None = None


def read_joint_map(imap: IntensityMap | AnyPath, names: Sequence[str]) -> JointMap:
    """Return the joint map that a user means.

    Parameters
    ----------
    imap : a map, or the path of one; the sidecar of any of the channels is one.
    names : the channels of the subject.
    """
    if isinstance(imap, IntensityMap):
        found = JointMap(imap, "the map", {})
    else:
        name = os.fspath(imap)
        file = read_model(name, JointMapRecord.kind)
        saved = JointMapRecord.of_payload(name, file.payload)
        if saved.channel_names:
            check_channels(names, saved.channel_names, name)
        outside = saved.setting("outside")
        files: Hashes = {"map": (file.file,)}
        found = JointMap(saved.map, name, files, saved.channel, saved.outputs, outside)
    d = found.imap.channels
    if d == 1:
        cause = f"a map of one channel, but {listed(names)} were given"
        raise FileError(found.name, cause, "apply it to its own image alone, without a name")
    if d != len(names):
        raise FileError(found.name, f"a map of {d} channels, but {listed(names)} were given")
    return found


def apply_jointly(
    subject: Subject,
    imap: IntensityMap | AnyPath,
    *,
    inverse: bool,
    other_image: bool = False,
    outputs: Mapping[str, AnyPath] | None,
    options: Options,
    command: Sequence[str] | None = None,
) -> SubjectResults:
    """Apply a joint map to the channels of a subject, or undo it.

    Parameters
    ----------
    subject : the channels, and their mask.
    imap : a joint map, or the path of one.
    inverse, other_image : see `ndflow.apply`.
    outputs : where to write each image; None to return them.
    options : what the user chose.
    command : what the user typed, for the record.
    """
    saved = read_joint_map(imap, subject.names)
    inputs = subject.files() | names_of(saved.files)
    for output in (outputs or {}).values():
        check_result(output, all_files(inputs), options=options)
    channels = read_channels(subject, options)
    warnings = list(channels.warnings)
    if inverse:
        if not other_image:
            _refuse_other_image(saved, subject, channels)
        if subject.mask is None and saved.outside == "keep":
            warnings.append(
                f"{saved.name}: was made with --set outside=keep, so voxels outside its mask were "
                f"not mapped; to undo it, give the same --mask and --set outside"
            )
    chosen = saved.imap.inverse() if inverse else saved.imap
    mask = selection(subject.scan(subject.mask_channel))["mask"]
    chunks = mapped_jointly(channels, chosen, options.outside)
    results = {}
    for place, name in enumerate(subject.names):
        record = JointMapRecord(
            chosen,
            command=None if command is None else tuple(command),
            settings={"inverse": inverse, "mask": mask, **options.of("read", "write")},
            inputs=channels.files | saved.files,
            warnings=tuple(warnings),
            channel=name,
            channel_names=subject.names,
        )
        results[name] = deliver(
            subject.scan(name),
            channels.volumes[place],
            chunks[place],
            record,
            output=None if outputs is None else outputs[name],
            inputs=inputs,
            options=options,
        )
    return SubjectResults.of(subject, results)


def _refuse_other_image(saved: JointMap, subject: Subject, channels: Channels) -> None:
    """Refuse to undo a map in an image that it did not make, as far as its file tells."""
    if saved.channel is None or not saved.made:
        return
    volume = channels.volumes[subject.names.index(saved.channel)]
    read = tuple(one.sha256 for one in volume.files)
    if read and read != saved.made:
        cause = f"not the image that {saved.name} made: its content is another"
        hint = "give the map of these images; for edited copies, add --other-image"
        raise FileError(volume.path, cause, hint)


# ── apply ─────────────────────────────────────────────────────────────────────────────────────────


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
        Default: all voxels but 0.
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
    if output is not None:
        path_like(output, "output")
    if isinstance(image, Mapping):
        subject, outputs = Subject(image, mask), None
        if output is not None:
            folder, files = channel_outputs(subject, output)
            make_folder(folder)
            outputs = dict(zip(subject.names, files, strict=True))
        return apply_jointly(
            subject,
            imap,
            inverse=inverse,
            other_image=other_image,
            outputs=outputs,
            options=chosen,
        ).results
    return apply_map(
        Scan(image, mask),
        imap,
        inverse=inverse,
        other_image=other_image,
        output=output,
        options=chosen,
    )


def apply_map(
    scan: Scan,
    imap: IntensityMap | AnyPath,
    *,
    inverse: bool,
    other_image: bool = False,
    output: AnyPath | None,
    options: Options,
    command: Sequence[str] | None = None,
) -> Result:
    """Apply an intensity map to a scan; see `apply`.

    Parameters
    ----------
    scan : the image, and its mask.
    imap, inverse, other_image, output : as for `apply`.
    options : what the user chose.
    command : what the user typed, for the record.
    """
    inputs = scan.files()
    map_file: Hashes = {}
    made: tuple[str, ...] | None = None
    warnings: list[str] = []
    if isinstance(imap, IntensityMap):
        name = "the map"
    else:
        name = os.fspath(imap)
        file = read_model(name, MapRecord.kind)
        saved = MapRecord.of_payload(name, file.payload)
        if inverse and scan.mask is None and saved.setting("outside") == "keep":
            warnings.append(
                f"{name}: was made with --set outside=keep, so voxels outside its mask were not "
                f"mapped; to undo it, give the same --mask and --set outside"
            )
        inputs["map"], imap, made = (name,), saved.map, saved.outputs
        map_file = {"map": (file.file,)}
    if imap.channels != 1:
        cause = f"a map of {imap.channels} channels, but an image has one"
        raise FileError(name, cause, "give all channels, for example T1w=FILE FLAIR=FILE")
    chosen = imap.inverse() if inverse else imap
    if output is not None:
        check_result(output, all_files(inputs), options=options)
    volume, inside, found, files, _ = read_masked(
        scan.image, scan.mask, max_bytes=options.max_bytes
    )
    read = tuple(one.sha256 for one in volume.files)
    if inverse and made and read and made != read and not other_image:
        cause = f"not the image that {name} made: its content is another"
        hint = "give the map of this image; for an edited copy, add --other-image"
        raise FileError(volume.path, cause, hint)
    integers = volume.stored.dtype.kind in "ui"
    if inverse and scan.mask is None and options.outside is None and integers:
        warnings.append(
            f"{volume.path}: holds integers, of which 0 is taken for background and stays 0; where "
            f"voxels of the brain may have become 0, give its --mask to undo them too"
        )
    record = MapRecord(
        chosen,
        command=None if command is None else tuple(command),
        settings={
            "inverse": inverse,
            "mask": selection(scan)["mask"],
            **options.of("read", "write"),
        },
        inputs=files | map_file,
        warnings=(*warnings, *found),
    )
    return deliver(
        scan,
        volume,
        mapped(volume, chosen, inside, options.outside, options.dtype),
        record,
        output=output,
        inputs=inputs,
        options=options,
    )
