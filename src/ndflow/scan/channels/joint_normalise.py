"""The channels of a subject, brought to a target together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from ndflow.density import Histogram
from ndflow.files.atomic import AnyPath
from ndflow.population.plausibility import unlike_reference
from ndflow.scan.channels.channel_records import JointMapRecord
from ndflow.scan.channels.channel_results import SubjectResults
from ndflow.scan.channels.channel_subject import Subject
from ndflow.scan.channels.channel_voxels import Channels
from ndflow.scan.channels.joint_doubts import joint_doubts
from ndflow.scan.channels.joint_fit import fit_jointly
from ndflow.scan.channels.joint_mapping import mapped_jointly
from ndflow.scan.channels.joint_match import match_jointly
from ndflow.scan.reading import selection
from ndflow.scan.records import TargetRecord
from ndflow.scan.results import all_files, check_result, deliver, names_of
from ndflow.scan.settings import Fitting, Reading, Writing, flat

if TYPE_CHECKING:
    from ndflow.scan.channels.channel_targets import JointTarget

__all__ = ["JointImages", "map_jointly", "normalise_jointly"]


class JointImages(NamedTuple):
    """The channels of a subject, mapped to a target, on their way to files.

    Attributes
    ----------
    channels : the images as they were read.
    cells : the joint histogram of the voxels that counted.
    chunks : the mapped voxels of each channel, in pieces; see `mapped_jointly`.
    records : how each image is made, by channel, but for what only shows when it is written.
    """

    channels: Channels
    cells: Histogram
    chunks: list[Iterator[NDArray[Any]]]
    records: dict[str, JointMapRecord]


def normalise_jointly(
    subject: Subject,
    target: JointTarget,
    *,
    outputs: Mapping[str, AnyPath] | None,
    reading: Reading,
    fitting: Fitting,
    writing: Writing,
    command: Sequence[str] | None = None,
) -> SubjectResults:
    """Bring the channels of a subject to a joint target.

    Parameters
    ----------
    subject : the channels.
    target : what they are brought to.
    outputs : where to write each image; None to return them.
    reading, fitting, writing : what the user chose.
    command : what the user typed, for the record.
    """
    inputs = subject.files() | names_of(target.files)
    for output in (outputs or {}).values():
        check_result(output, all_files(inputs), writing=writing)
    made = map_jointly(
        subject, target, reading=reading, fitting=fitting, writing=writing, command=command
    )
    results = {
        name: deliver(
            subject.scan(name),
            made.channels.volumes[place],
            made.chunks[place],
            record,
            output=None if outputs is None else outputs[name],
            inputs=inputs,
            writing=writing,
            histogram=made.cells,
            target=target.marginals[place],
        )
        for place, (name, record) in enumerate(made.records.items())
    }
    return SubjectResults.of(subject, results)


def map_jointly(
    subject: Subject,
    target: JointTarget,
    *,
    reading: Reading,
    fitting: Fitting,
    writing: Writing,
    command: Sequence[str] | None = None,
) -> JointImages:
    """Find the joint map of a subject; the voxels are mapped, but nothing is written.

    Parameters
    ----------
    subject, target, reading, fitting, writing, command : as for `normalise_jointly`.
    """
    fitted = fit_jointly(subject, reading=reading, fitting=fitting)
    voxels, channels = fitted.voxels, fitted.voxels.channels
    solution = match_jointly(
        voxels.rows,
        [one.model.mixture for one in fitted.scans.values()],
        target.goal,
        matching=target.matching,
        fitting=fitting,
    )
    shared = [*target.warnings, *fitted.warnings, *solution.warnings(subject.path)]
    settings = {
        **selection(subject.scan(subject.mask_channel)),
        **flat(reading, fitting, target.matching, writing),
        "joint": True,
    }
    chunks = mapped_jointly(channels, solution.imap, writing.outside)
    doubts = joint_doubts(voxels.rows, solution.imap, target.marginals)
    records = {}
    for place, (name, own) in enumerate(fitted.scans.items()):
        unlike = (
            () if target.has_units else unlike_reference(own.model.mixture, target.marginals[place])
        )
        records[name] = JointMapRecord(
            solution.imap,
            command=None if command is None else tuple(command),
            settings=settings,
            inputs=channels.files | target.files,
            target=TargetRecord(target.name, target.goal),
            mixture=fitted.fit.mixture,
            voxels=voxels.counts,
            fit=fitted.fit.status.message,
            mask=own.mask,
            match=solution.match,
            joint=solution.figures,
            warnings=(*shared, *own.warnings),
            doubts=(*own.doubts, *unlike, *doubts[place]),
            channel=name,
            channel_names=subject.names,
        )
    return JointImages(channels, voxels.cells, chunks, records)
