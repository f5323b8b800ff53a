"""A saved joint map on the channels of a subject, or its inverse."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import Hashes
from ndflow.files.model_files import read_model
from ndflow.scan.channels.channel_records import JointMapRecord
from ndflow.scan.channels.channel_results import SubjectResults
from ndflow.scan.channels.channel_subject import Subject, check_channels, listed
from ndflow.scan.channels.channel_voxels import Channels, read_channels
from ndflow.scan.channels.joint_mapping import mapped_jointly
from ndflow.scan.reading import selection
from ndflow.scan.results import all_files, check_result, deliver, names_of
from ndflow.scan.settings import Reading, Writing, flat
from ndflow.transport import IntensityMap

__all__ = ["apply_jointly", "read_joint_map"]


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
    reading: Reading,
    writing: Writing,
    command: Sequence[str] | None = None,
) -> SubjectResults:
    """Apply a joint map to the channels of a subject, or undo it.

    Parameters
    ----------
    subject : the channels, and their mask.
    imap : a joint map, or the path of one.
    inverse, other_image : see `ndflow.apply`.
    outputs : where to write each image; None to return them.
    reading, writing : what the user chose.
    command : what the user typed, for the record.
    """
    saved = read_joint_map(imap, subject.names)
    inputs = subject.files() | names_of(saved.files)
    for output in (outputs or {}).values():
        check_result(output, all_files(inputs), writing=writing)
    channels = read_channels(subject, reading)
    warnings = list(channels.warnings)
    if inverse:
        if not other_image:
            _refuse_other_image(saved, subject, channels)
        if subject.mask is None and saved.outside == "keep":
            warnings.append(
                f"{saved.name}: was made with --outside keep, so voxels outside its mask were not "
                f"mapped; to undo it, give the same --mask and --outside"
            )
    chosen = saved.imap.inverse() if inverse else saved.imap
    mask = selection(subject.scan(subject.mask_channel))["mask"]
    chunks = mapped_jointly(channels, chosen, writing.outside)
    results = {}
    for place, name in enumerate(subject.names):
        record = JointMapRecord(
            chosen,
            command=None if command is None else tuple(command),
            settings={"inverse": inverse, "mask": mask, **flat(reading, writing)},
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
            writing=writing,
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
