"""A reference from mixtures, from images, or from both."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density import Fit, GaussianMixture
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.model_files import check_model, is_model, read_model
from ndflow.files.outputs import stem
from ndflow.image.read import Source
from ndflow.image.subject import ANY_CHANNEL, Subject
from ndflow.methods.base import DensityModel, build_reference, method_of
from ndflow.options import Average, MethodName, Options
from ndflow.population import Reference, TissueModel, Tissues, tissue_model
from ndflow.subject import records
from ndflow.subject.fit import fit_subject
from ndflow.subject.records import ReferenceModel, ScanModel
from ndflow.subject.target import refuse_absurd
from ndflow.subject.voxels import error_about
from ndflow.values import JSON, Doubt, listed, short


class SourceModel(NamedTuple):
    """What is known about a subject that goes into a reference.

    Attributes
    ----------
    parts : the model of each channel by itself, or of all together under ``""``.
    settings : how the images were fitted, if they were.
    sha256 : of the file, or the image.
    warnings : for the user, about images that were fitted.
    """

    parts: Mapping[str, ScanModel]
    settings: dict[str, JSON] = {}  # noqa: RUF012  (never changed)
    sha256: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def channel_names(self) -> tuple[str, ...]:
        """The names of all its channels; empty where nobody named the only one."""
        return self.parts[""].channel_names or () if "" in self.parts else tuple(self.parts)

    @property
    def joint(self) -> bool:
        """Whether there is one density of several channels."""
        return len(self.channel_names) > len(self.parts)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What to check by eye."""
        return tuple(dict.fromkeys(doubt for part in self.parts.values() for doubt in part.doubts))

    @property
    def kind(self) -> str:
        """What its density is of, in words."""
        if not self.channel_names:
            return "one channel"
        names = listed(self.channel_names)
        return f"a joint density of {names}" if self.joint else f"{names} by themselves"


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
        None for sources without one. Default: all non-zero voxels.
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
    if any(len(one.parts) > 1 for one in models):
        raise InvalidValueError("sources must be of one channel, or of several together")
    if channel is None and len({one.channel_names for one in models}) == 1:
        channel = models[0].channel_names or None
    if names is None and len(files) == len(sources):
        names = [stem(file) for file in files]
    made = average_models(
        [part.model for one in models for part in one.parts.values()],
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


def read_source(subject: Subject, *, options: Options) -> SourceModel:
    """Return the models in a file, or that of an image.

    Parameters
    ----------
    subject : the image with its masks; or the file of a mixture.
    options : what the user chose.
    """
    if is_model(subject.image):
        read = read_model(subject.image, "mixture", "mixtures")
        parts: Mapping[str, ScanModel] = records.densities_in(read)  # type: ignore[assignment]
        for part in parts.values():
            refuse_absurd(read.file.file, part.model)
        made = SourceModel(parts, sha256=(read.file.sha256,))
    else:
        tissues = subject.tissues.check_complete().complete
        fitted = fit_subject(subject, options=options, tissues=tissues)
        made = SourceModel({"": fitted}, fitted.settings or {}, _image(fitted), fitted.warnings)
    with error_about(subject.path):
        parts = {name: _with_landmarks(part, options) for name, part in made.parts.items()}
    return made._replace(parts=parts)


def _image(part: ScanModel) -> tuple[str, ...]:
    """Return the hashes of the images of a density, if they are known."""
    known = part.sha256 or {}
    return tuple(one for what in part.channel_names or ("image",) for one in known.get(what, ()))


def _with_landmarks(part: ScanModel, options: Options) -> ScanModel:
    """Return the model of a scan with the landmarks that the method of a reference needs."""
    if part.mixture.channels > 1:
        return part
    found = method_of(options).target_landmarks(
        part.landmarks, part.mixture, options, averaged=False
    )
    return replace(part, landmarks=found)


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
    average: Average | None,
    channel: str | None,
    force: bool,
) -> None:
    """Average the models of some sources, channel by channel, and write them to a file.

    Parameters
    ----------
    output : the file.
    sources, models : the files, and what is known about each.
    options : what the user chose.
    weights : of the sources.
    average : how to average, if the user says.
    channel : what a single channel shows.
    force : whether a file that is there already may be replaced.
    """
    first, names = models[0], [stem(source) for source in sources]
    for source, one in zip(sources, models, strict=True):
        if one.kind != first.kind:
            cause = f"holds {one.kind}, but {sources[0]} holds {first.kind}"
            raise FileError(source, cause, "give files of the same channels, in the same order")
    if first.joint and not method_of(options).maps_jointly:
        raise InvalidValueError(
            f"--method {options.method} looks at one channel at a time, but these densities are "
            f"joint; leave it out, or fit the channels without --joint"
        )
    inputs = tuple(
        records.InputRecord(name, one.sha256, one.settings)
        for name, one in zip(names, models, strict=True)
    )
    made = {}
    for key in first.parts:
        parts = [one.parts[key] for one in models]
        _refuse_same_content(sources, [_image(part) for part in parts], inputs)
        own = first.channel_names if first.joint else key or channel or ANY_CHANNEL
        kind: Average = average or ("density" if first.joint else "quantile")  # as with auto
        alone = [part.model for part in parts]
        reference = average_models(
            alone, options, names=names, weights=weights, average=kind, channel_names=own
        )
        made[key] = ReferenceModel(reference, inputs)
    record = made[""] if "" in made else records.ReferenceModels(made)
    record.write(output, force=force, inputs=sources)


def _refuse_same_content(
    sources: Sequence[str], images: Sequence[tuple[str, ...]], inputs: Sequence[records.InputRecord]
) -> None:
    """Refuse a scan that would count twice: the same content, or models of the same image."""
    seen: dict[tuple[str, ...], int] = {}
    for place, (image, file) in enumerate(zip(images, inputs, strict=True)):
        for content in {file.sha256, image} - {()}:
            first = seen.setdefault(content, place)
            if first != place:
                cause = f"the same scan as {sources[first]}"
                where = f"(arguments {first + 1} and {place + 1})"
                hint = "give it once; --weights makes a scan count more"
                raise FileError(sources[place], f"{cause} {where}", hint)


def _model_of(
    source: GaussianMixture | Fit | Source, mask: Source | None, options: Options
) -> SourceModel:
    if mask is not None and (isinstance(source, GaussianMixture | Fit) or is_model(source)):
        raise InvalidValueError("a mixture has no voxels left to mask; give None in its place")
    if isinstance(source, GaussianMixture | Fit):
        mixture = source if isinstance(source, GaussianMixture) else source.mixture
        return SourceModel({"": _with_landmarks(ScanModel(mixture), options)})
    return read_source(Subject(source, mask), options=options)  # type: ignore[arg-type]


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
