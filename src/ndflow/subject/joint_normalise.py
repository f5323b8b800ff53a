"""The channels of a subject, brought to a target together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from ndflow.density import GaussianMixture, Histogram
from ndflow.files.atomic import AnyPath
from ndflow.methods.solution import MatchRecord
from ndflow.options import Options
from ndflow.population.plausibility import unlike_reference
from ndflow.subject.channels import Subject
from ndflow.subject.doubts import joint_doubts
from ndflow.subject.fit import fit_jointly
from ndflow.subject.map_voxels import mapped_jointly
from ndflow.subject.records import JointMapRecord, TargetRecord
from ndflow.subject.results import SubjectResults, all_files, check_result, deliver, names_of
from ndflow.subject.voxels import EVIDENCE, Channels, selection
from ndflow.transport import IntensityMap
from ndflow.transport.joint import JointFigures, joint_map
from ndflow.values import FloatArray, plural

if TYPE_CHECKING:
    from ndflow.subject.joint_target import JointTarget


# ── the match ─────────────────────────────────────────────────────────────────────────────────────


class JointSolution(NamedTuple):
    """A joint map, and how it was found.

    Attributes
    ----------
    imap : from the intensities of all channels to those of the result.
    match, figures : how it was found, for the record.
    """

    imap: IntensityMap
    match: MatchRecord
    figures: JointFigures

    def warnings(self, path: str) -> list[str]:
        """Return what the user should know about the match of the subject at `path`."""
        if self.figures.kept:
            return []
        return [
            f"{path}: a joint flow would not bring the channels closer to the target, so each was "
            f"mapped by itself"
        ]


def match_jointly(
    rows: FloatArray,
    marginals: Sequence[GaussianMixture],
    target: GaussianMixture,
    *,
    options: Options,
) -> JointSolution:
    """Return the joint map from the voxels of a subject to a density.

    Parameters
    ----------
    rows : the voxels that count, (n, d).
    marginals : the density of each channel by itself.
    target : the joint density of the target, in the units of the result.
    options : what the user chose.
    """
    found = joint_map(
        rows,
        marginals,
        target,
        regularisation=options.regularisation,
        effective_count=EVIDENCE * options.effective_count,
    )
    message = "maps of each channel by itself"
    if found.figures.kept:
        message = f"{message}, then a joint flow of {plural(found.figures.components, 'component')}"
    return JointSolution(found.map, MatchRecord(message), found.figures)


# ── the subject ───────────────────────────────────────────────────────────────────────────────────


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
    command: Sequence[str] | None = None,
) -> SubjectResults:
    """Bring the channels of a subject to a joint target.

    Parameters
    ----------
    subject : the channels.
    target : what they are brought to.
    outputs : where to write each image; None to return them.
    command : what the user typed, for the record.
    """
    inputs = subject.files() | names_of(target.files)
    for output in (outputs or {}).values():
        check_result(output, all_files(inputs), options=target.options)
    made = map_jointly(subject, target, command=command)
    results = {
        name: deliver(
            subject.scan(name),
            made.channels.volumes[place],
            made.chunks[place],
            record,
            output=None if outputs is None else outputs[name],
            inputs=inputs,
            options=target.options,
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
    command: Sequence[str] | None = None,
) -> JointImages:
    """Find the joint map of a subject; the voxels are mapped, but nothing is written.

    Parameters
    ----------
    subject, target, command : as for `normalise_jointly`.
    """
    options = target.options
    fitted = fit_jointly(subject, options=options)
    voxels, channels = fitted.voxels, fitted.voxels.channels
    solution = match_jointly(
        voxels.rows,
        [one.model.mixture for one in fitted.scans.values()],
        target.goal,
        options=options,
    )
    shared = [*target.warnings, *fitted.warnings, *solution.warnings(subject.path)]
    settings = {
        **selection(subject.scan(subject.mask_channel)),
        **options.of("read", "fit", "match", "write"),
        "joint": True,
    }
    chunks = mapped_jointly(channels, solution.imap, options.outside)
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
