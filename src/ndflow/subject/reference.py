"""A reference from mixtures, from images, or from both."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density import Fit, GaussianMixture
from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import FileHash
from ndflow.files.model_files import check_model, is_model, kind_in, read_model
from ndflow.image.read import Source
from ndflow.image.subject import Scan
from ndflow.methods.base import DensityModel, build_reference, method_called, method_of
from ndflow.options import Average, MethodName, Options
from ndflow.population import Reference, TissueModel, Tissues, tissue_model
from ndflow.subject.channels import check_channels
from ndflow.subject.fit import fit_scan
from ndflow.subject.outputs import stem
from ndflow.subject.records import (
    InputRecord,
    JointModel,
    ReferenceModel,
    ReferenceModels,
    ScanModel,
    ScanModels,
)
from ndflow.subject.voxels import error_about
from ndflow.values import JSON, short


class SourceModel(NamedTuple):
    """What is known about a scan that goes into a reference.

    Attributes
    ----------
    model : its density and the other parts.
    settings : how it was estimated, if it was not read from a file.
    sha256 : the hashes of what was read: of its image, or of the file with its model.
    warnings : for the user.
    image : the SHA-256 of the image that a model was made from, if it says so.
    doubts : what to check by eye.
    channel_names : what the channels of a joint model show.
    """

    model: DensityModel
    settings: dict[str, JSON]
    sha256: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    channel_names: tuple[str, ...] = ()


def reference(
    sources: Sequence[GaussianMixture | Fit | Source],
    *,
    mask: Sequence[Source | None] | None = None,
    weights: ArrayLike | None = None,
    average: Average = "density",
    names: Sequence[str] | None = None,
    channel: Sequence[str] | str | None = None,
    method: MethodName = Options.method,
    landmarks: int = Options.landmarks,
    truncation: int = 20,
    effective_count: float = 3e4,
    output: AnyPath | None = None,
    force: bool = False,
) -> Reference:
    """Average the densities of scans, as ``ndflow reference`` does.

    Parameters
    ----------
    sources : one per scan: a mixture or a fit, the path of a mixture (.json), or an image.
    mask : of the images, in the order of the sources, like an image, or ``"auto"`` or ``"brain"``;
        None for sources without one. Default: all voxels but 0.
    weights : how much each scan counts. Default: all the same.
    average : the mean of the densities, as in the paper and by default here; or of the quantiles,
        which keeps peaks sharp (one channel), and is the default of the command.
    names : what the scans are called, for the record. Default: the names of their files, if all
        are files.
    channel : what the images show, for example ``"T1w"``. Default: what the files of joint
        mixtures say.
    method : what the reference is for: some methods look at landmarks besides the density.
    landmarks : how many percentiles nyul matches.
    truncation : the largest possible number of components.
    effective_count : how many independent voxels the average is worth, see `fit`.
    output : where to write the reference (.json). Default: it is only returned.
    force : replace a file that exists already.

    Returns
    -------
    Reference
        The average density, with zero mean and unit variance.

    Raises
    ------
    FileError
        Where a file cannot be read or written.
    InvalidValueError
        Where sources, weights or names do not fit together.

    Examples
    --------
    >>> import ndflow
    >>> one = ndflow.GaussianMixture([0.3, 0.7], [1.0, 5.0], [4.0, 4.0])
    >>> two = ndflow.GaussianMixture([0.4, 0.6], [20.0, 90.0], [0.02, 0.02])
    >>> ndflow.reference([one, two], channel="T1w").scans
    2
    """
    if isinstance(sources, str | os.PathLike) or not isinstance(sources, Sequence):
        raise InvalidValueError(f"sources must be a list of scans, not {short(sources)}")
    files = [source for source in sources if isinstance(source, str | os.PathLike)]
    if output is not None:
        check_model(output, files, force=force)
    inside = [None] * len(sources) if mask is None else mask
    if len(inside) != len(sources):
        raise InvalidValueError(f"mask must be {len(sources)}, one per source, not {len(inside)}")
    options = Options(method=method, landmarks=landmarks)
    models = [_model_of(source, one, options) for source, one in zip(sources, inside, strict=True)]
    if channel is None and len({one.channel_names for one in models}) == 1:
        channel = models[0].channel_names or None
    if names is None and len(files) == len(sources):
        names = [stem(file) for file in files]
    made = average_models(
        [one.model for one in models],
        options,
        names=names,
        weights=None if weights is None else [float(w) for w in np.asarray(weights).ravel()],
        average=average,
        channel_names=channel,
        truncation=truncation,
        effective_count=effective_count,
    )
    if output is not None:
        ReferenceModel(made).write(output, force=force, inputs=files)
    return made


def read_source(
    scan: Scan,
    *,
    options: Options,
) -> SourceModel:
    """Return the model in a file, or that of an image.

    Parameters
    ----------
    scan : a scan, or the path of a mixture in place of its image.
    options : what the user chose.
    """
    if not is_model(scan.image):
        scan.tissues.check_complete()
        made = fit_scan(scan, options=options, tissues=scan.tissues.complete)
        image = (made.sha256 or {}).get("image", ())
        return SourceModel(
            made.model, made.settings or {}, image, made.warnings, image, made.doubts
        )
    if kind_in(scan.image) in ("mixtures", "references"):
        cause = "of several channels, which cannot be averaged with scans of one"
        raise FileError(scan.image, cause, "give files of the same channels only")
    kind, payload, file = read_model(scan.image, "mixture", "reference")
    if kind == "reference":
        hint = "give the mixtures that it was made of, from 'ndflow fit'"
        raise FileError(scan.image, "a reference, which cannot be averaged with scans", hint)
    record = JointModel.of_payload(scan.image, payload)
    return saved_source(file, record, options)._replace(channel_names=record.channel_names)


def saved_source(file: FileHash, record: ScanModel, options: Options) -> SourceModel:
    """Return what goes into a reference from the model of a scan in a file.

    Parameters
    ----------
    file : the file.
    record : the model in it.
    options : what the reference is for.
    """
    saved = record.model
    with error_about(file.file):
        landmarks = method_of(options).target_landmarks(
            saved.landmarks, saved.mixture, options, averaged=False
        )
    image = (record.sha256 or {}).get("image", ())
    known = DensityModel(saved.mixture, landmarks, saved.tissues)
    return SourceModel(known, {}, (file.sha256,), image=image, doubts=record.doubts)


def average_models(
    models: Sequence[DensityModel],
    options: Options,
    *,
    names: Sequence[str] | None = None,
    weights: Sequence[float] | None = None,
    average: Average = "density",
    channel_names: Sequence[str] | str | None = None,
    truncation: int = 20,
    effective_count: float = 3e4,
) -> Reference:
    """Average the models of some scans, in any order with the same result.

    The reference knows tissues if those of all scans are known. Parameters as for `reference`.
    """
    heavy = [1.0] * len(models) if weights is None else list(weights)
    if len(heavy) != len(models):
        raise InvalidValueError(f"weights must be {len(models)}, one per scan, not {len(heavy)}")
    if names is not None and len(names) != len(models):
        raise InvalidValueError(f"names must be {len(models)}, one per scan, not {len(names)}")
    order = list(range(len(models)))
    if all(model.landmarks is not None for model in models):
        order.sort(key=lambda i: (models[i].landmarks.values.tolist(), heavy[i]))  # type: ignore[union-attr]
    return build_reference(
        [models[i] for i in order],
        method_of(options),
        names=None if names is None else [names[i] for i in order],
        channel_names=channel_names,
        average=average,
        weights=None if weights is None else [heavy[i] for i in order],
        tissues=_tissues(models, heavy),
        truncation=truncation,
        effective_count=effective_count,
    )


def write_reference(
    output: AnyPath,
    sources: Sequence[str],
    models: Sequence[SourceModel],
    options: Options,
    *,
    weights: Sequence[float] | None,
    average: Average,
    channel: str,
    force: bool,
) -> Reference:
    """Average the models of some sources and write the reference to a file.

    Parameters
    ----------
    output : where to.
    sources, models : the files, and what was in them.
    options : what the reference is for.
    weights, average : as for `reference`.
    channel : what the images show, for example ``"T1w"``.
    force : whether another file may be replaced.
    """
    for source, one in zip(sources, models, strict=True):
        if one.model.mixture.channels != 1:
            cause = f"a joint density of {one.model.mixture.channels} channels, not of one"
            raise FileError(source, cause, "give joint densities only, or none")
    names = [stem(source) for source in sources]
    inputs = tuple(
        InputRecord(name, one.sha256, one.settings) for name, one in zip(names, models, strict=True)
    )
    refuse_same_content(sources, models, inputs)
    made = average_models(
        [one.model for one in models],
        options,
        names=names,
        weights=weights,
        average=average,
        channel_names=channel,
    )
    ReferenceModel(made, inputs).write(output, force=force, inputs=sources)
    return made


def refuse_same_content(
    sources: Sequence[str], models: Sequence[SourceModel], inputs: Sequence[InputRecord]
) -> None:
    """Refuse a scan that would count twice: the same content, or models of the same image."""
    seen: dict[tuple[str, ...], int] = {}
    for place, (one, file) in enumerate(zip(models, inputs, strict=True)):
        for content in {file.sha256, one.image} - {()}:
            first = seen.setdefault(content, place)
            if first != place:
                cause = f"the same scan as {sources[first]}"
                where = f"(arguments {first + 1} and {place + 1})"
                hint = "give it once; --weights makes a scan count more"
                raise FileError(sources[place], f"{cause} {where}", hint)


def lacking_tissues(sources: Sequence[str], models: Sequence[SourceModel]) -> str | None:
    """Return a source whose tissues are not known, where those of others are."""
    lacking = [s for s, one in zip(sources, models, strict=True) if one.model.tissues is None]
    return lacking[0] if 0 < len(lacking) < len(models) else None


def _model_of(
    source: GaussianMixture | Fit | Source, mask: Source | None, options: Options
) -> SourceModel:
    if mask is not None and (isinstance(source, GaussianMixture | Fit) or is_model(source)):
        raise InvalidValueError("a mixture has no voxels left to mask; give None in its place")
    if isinstance(source, GaussianMixture | Fit):
        mixture = source if isinstance(source, GaussianMixture) else source.mixture
        found = method_of(options).target_landmarks(None, mixture, options, averaged=False)
        return SourceModel(DensityModel(mixture, found), {})
    scan = Scan(source, mask)
    return read_source(scan, options=options)


def _tissues(models: Sequence[DensityModel], weights: Sequence[float]) -> TissueModel | None:
    """Return the tissues of the population, if those of all scans are known."""
    parts = [
        (model.tissues, weight)
        for model, weight in zip(models, weights, strict=True)
        if isinstance(model.tissues, Tissues)
    ]
    if len(parts) < len(models):
        return None
    parts.sort(key=lambda one: json.dumps(one[0].to_dict()))  # in any order, the same
    return tissue_model([one for one, _ in parts], weights=[weight for _, weight in parts])


# ── several channels ──────────────────────────────────────────────────────────────────────────────


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


def read_channel_sources(sources: Sequence[str], options: Options) -> ChannelSources:
    """Read the densities of several subjects, all with the same channels.

    Parameters
    ----------
    sources : the files.
    options : what the reference is for.

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
        own, found = _in_file(source, kind, payload, file, options)
        if names:
            check_channels(own, names, sources[0])
        names = own
        models.append(found)
    return ChannelSources(names, bool(joint), tuple(sources), tuple(models))


def _in_file(
    source: str, kind: str, payload: dict[str, object], file: FileHash, options: Options
) -> tuple[tuple[str, ...], tuple[SourceModel, ...]]:
    """Return the names of the channels in a file, and what is known about them."""
    if kind == ScanModels.kind:
        several = ScanModels.of_payload(source, payload)
        parts = (several.mixtures[name] for name in several.channel_names)
        found = tuple(saved_source(file, one, options) for one in parts)
        return several.channel_names, found
    model = JointModel.of_payload(source, payload)
    if not model.channel_names:
        number = model.mixture.channels
        cause = "of one channel" if number == 1 else f"of {number} channels without names"
        hint = "give the joint densities of ndflow fit NAME=FILE NAME=FILE --joint"
        raise FileError(source, f"a density {cause}", hint)
    known = model.sha256 or {}
    images = tuple(part for name in model.channel_names for part in known.get(name, ()))
    return model.channel_names, (saved_source(file, model, Options())._replace(image=images),)


def write_channel_reference(
    output: AnyPath,
    sources: ChannelSources,
    options: Options,
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
    options : what the reference is for.
    weights : as for `ndflow.reference`.
    average : the same; by default, joint densities are averaged, and the quantiles of others.
    force : whether another file may be replaced.
    """
    if sources.joint:
        _refuse_for_joint(options, average)
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
            options,
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


def _refuse_for_joint(options: Options, average: Average | None) -> None:
    if average == "quantile":
        raise InvalidValueError(
            "--set average=quantile is for one channel, but these densities are joint; leave it out"
        )
    if not method_called(options.method).maps_jointly:
        raise InvalidValueError(
            f"--method {options.method} looks at one channel at a time, but these densities are "
            f"joint; leave it out, or fit the channels without --joint"
        )
