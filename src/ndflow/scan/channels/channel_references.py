"""A reference of several channels, from the files of `ndflow fit`: joint, or for each channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import FileHash
from ndflow.files.model_files import is_model, kind_in, read_model
from ndflow.methods.base import method_called
from ndflow.methods.matching import Matching
from ndflow.scan.channels.channel_records import JointModel, ReferenceModels, ScanModels
from ndflow.scan.channels.channel_subject import check_channels
from ndflow.scan.outputs import stem
from ndflow.scan.records import InputRecord, ReferenceModel, ScanModel
from ndflow.scan.reference_sources import (
    SourceModel,
    average_models,
    refuse_same_content,
    saved_source,
)
from ndflow.scan.settings import Average

__all__ = ["ChannelSources", "holds_channels", "read_channel_sources", "write_channel_reference"]


class ChannelSources(NamedTuple):
    """The files that a reference of several channels is made of.

    Attributes
    ----------
    channel_names : what the channels show, in order: the same in all files.
    joint : whether they hold joint densities.
    paths : the files.
    models : what is in each of them: one joint density, or one for each channel.
    """

    channel_names: tuple[str, ...]
    joint: bool
    paths: tuple[str, ...]
    models: tuple[tuple[SourceModel, ...], ...]


def holds_channels(path: AnyPath) -> bool:
    """Tell whether a file holds the densities of several channels, joint or not."""
    kind = kind_in(path) if is_model(path) else None
    if kind != ScanModel.kind:
        return kind == ScanModels.kind
    return ScanModel.read(path).mixture.channels > 1


def read_channel_sources(sources: Sequence[str], matching: Matching) -> ChannelSources:
    """Read the densities of several subjects, all with the same channels.

    Parameters
    ----------
    sources : the files.
    matching : what the reference is for.

    Raises
    ------
    FileError : for a file with other channels, or another kind of density, than the first.
    """
    joint: bool | None = None
    names: tuple[str, ...] = ()
    models = []
    for source in sources:
        if not is_model(source):
            cause = "an image, among files with the densities of several channels"
            raise FileError(source, cause, "fit its channels first, with ndflow fit")
        kind, payload, file = read_model(source, ScanModel.kind, ScanModels.kind)
        together = kind == ScanModel.kind
        if joint not in (None, together):
            words = ("the density of each channel by itself", "a joint density")
            cause = f"holds {words[together]}, but {sources[0]} holds {words[not together]}"
            raise FileError(source, cause, "give files of one kind")
        joint = together
        own, found = _in_file(source, kind, payload, file, matching)
        if names:
            check_channels(own, names, sources[0])
        names = own
        models.append(found)
    return ChannelSources(names, bool(joint), tuple(sources), tuple(models))


def _in_file(
    source: str, kind: str, payload: dict[str, object], file: FileHash, matching: Matching
) -> tuple[tuple[str, ...], tuple[SourceModel, ...]]:
    """Return the names of the channels in a file, and what is known about them."""
    if kind == ScanModels.kind:
        several = ScanModels.of_payload(source, payload)
        parts = (several.mixtures[name] for name in several.channel_names)
        found = tuple(saved_source(file, one, matching) for one in parts)
        return several.channel_names, found
    model = JointModel.of_payload(source, payload)
    if not model.channel_names:
        number = model.mixture.channels
        cause = "of one channel" if number == 1 else f"of {number} channels without names"
        hint = "give the joint densities of ndflow fit NAME=FILE NAME=FILE --joint"
        raise FileError(source, f"a density {cause}", hint)
    known = model.sha256 or {}
    images = tuple(part for name in model.channel_names for part in known.get(name, ()))
    return model.channel_names, (saved_source(file, model, Matching())._replace(image=images),)


def write_channel_reference(
    output: AnyPath,
    sources: ChannelSources,
    matching: Matching,
    *,
    weights: Sequence[float] | None,
    average: Average | None,
    force: bool,
) -> None:
    """Average the densities of several subjects and write the reference to a file.

    Parameters
    ----------
    output : where to.
    sources : the densities.
    matching : what the reference is for.
    weights : as for `ndflow.reference`.
    average : the same; by default, joint densities are averaged, and the quantiles of others.
    force : whether another file may be replaced.
    """
    if sources.joint:
        _refuse_for_joint(matching, average)
        average = "density"
    names = [stem(path) for path in sources.paths]
    made = []
    called = (sources.channel_names,) if sources.joint else [(n,) for n in sources.channel_names]
    for place, channel_names in enumerate(called):
        models = [own[place] for own in sources.models]
        inputs = tuple(
            InputRecord(name, one.sha256, one.settings)
            for name, one in zip(names, models, strict=True)
        )
        refuse_same_content(sources.paths, models, inputs)
        reference = average_models(
            [one.model for one in models],
            matching,
            names=names,
            weights=weights,
            average=average or "quantile",
            channel_names=channel_names,
        )
        made.append(ReferenceModel(reference, inputs))
    if sources.joint:
        made[0].write(output, force=force, inputs=sources.paths)
    else:
        known = dict(zip(sources.channel_names, made, strict=True))
        references = ReferenceModels(sources.channel_names, known)
        references.write(output, force=force, inputs=sources.paths)


def _refuse_for_joint(matching: Matching, average: Average | None) -> None:
    if average == "quantile":
        raise InvalidValueError(
            "--average quantile is for one channel, but these densities are joint; leave it out"
        )
    if not method_called(matching.method).maps_jointly:
        raise InvalidValueError(
            f"--method {matching.method} looks at one channel at a time, but these densities are "
            f"joint; leave it out, or fit the channels without --joint"
        )
