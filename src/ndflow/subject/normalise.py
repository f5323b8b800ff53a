"""Images brought to a target, or through a saved intensity map, and what becomes of them.

A result is a normalised image, and the sidecar that says how it was made. The sidecar of
``out.nii.gz`` is ``out.json``. It is a model file of the kind ``map``, so the map that made an
image can be applied again, or undone, from it. Both files get their names when both are complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from nibabel.spatialimages import SpatialImage
from numpy.typing import NDArray

from ndflow.density import GaussianMixture, Histogram
from ndflow.density.mixture import marginal
from ndflow.errors import FileError, InvalidValueError
from ndflow.files import model_files
from ndflow.files.atomic import AnyPath
from ndflow.files.outputs import make_folder, outputs_for, sidecar_of, stem
from ndflow.files.stream import Files, Hashes, all_files, names_of
from ndflow.image.preview import Preview, preview_of
from ndflow.image.read import Source, files_of, kind_of, read_volume
from ndflow.image.subject import Subject, TissueMaps
from ndflow.image.volume import Volume
from ndflow.image.write import check_output, make_array, make_image, write_volume
from ndflow.methods.base import DensityModel, Solution, method_of
from ndflow.methods.modes import Goal
from ndflow.methods.ndflow import chosen_density, target_rule
from ndflow.options import Options, PresetName, Step, chosen_options, documented
from ndflow.subject import presets
from ndflow.subject import target as targets
from ndflow.subject.doubts import expected, image_doubts, match_doubts, range_doubts
from ndflow.subject.fit import check_fit, fit_voxels
from ndflow.subject.presets import Choices, PresetRecord
from ndflow.subject.records import MapRecord, ScanModel, TargetRecord
from ndflow.subject.target import AnyTarget, Target
from ndflow.subject.voxels import Pieces, Voxels, map_voxels, read_voxels, selection
from ndflow.transport import IntensityMap
from ndflow.values import JSON, Doubt, plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AnyChannelTarget = AnyTarget | Mapping[str, AnyTarget]

_STEPS: tuple[Step, ...] = ("match", "fit", "write", "read")


# ── results ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, repr=False)
class Result:
    """What became of an image.

    Attributes
    ----------
    image : the new image, an array where one was given and otherwise a nibabel image; None if it
        was written to a file instead.
    record : how it was made, as its sidecar says.
    histogram : of the voxels that counted in the image that went in; None where none was made.
    output : the file that was written, if any.
    seen : what a report shows besides, its density and slices; None where none was asked for.
    """

    image: NDArray[Any] | SpatialImage | None
    record: MapRecord
    histogram: Histogram | None = None
    output: AnyPath | None = None
    seen: tuple[ScanModel, Preview] | None = None

    @property
    def imap(self) -> IntensityMap:
        """The map that made it."""
        return self.record.map

    @property
    def mixture(self) -> GaussianMixture | None:
        """The density of the image that went in, where it was estimated."""
        return self.record.mixture

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know."""
        return self.record.warnings

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What to check by eye."""
        return self.record.doubts

    def __repr__(self) -> str:
        """Return one line: what there is, and how the match ended."""
        what = f"written to {self.output}" if self.output is not None else "in memory"
        match = f", {self.record.match.message}" if self.record.match else ""
        doubts = f", {len(self.doubts)} to inspect" if self.doubts else ""
        return f"<ndflow Result {what}{match}, {plural(len(self.warnings), 'warning')}{doubts}>"

    def _repr_html_(self) -> str:
        """Return the figure of `plot` for notebooks; without matplotlib, the one line."""
        line = f"<p>{escape(repr(self))}</p>"
        if find_spec("matplotlib") is None or self.histogram is None:
            return line
        from ndflow.figures.style import svg

        return line + svg(self.plot()).decode()

    def save(self, path: AnyPath, *, force: bool = False) -> Result:
        """Write the image to a file, with its sidecar beside it.

        Parameters
        ----------
        path : the file.
        force : whether a result that exists already may be replaced.

        Returns
        -------
        Result
            The same, but for the image, which is in the file.
        """
        if self.image is None or isinstance(self.image, np.ndarray):
            why = "an array has no geometry; normalise an image"
            raise InvalidValueError(why if self.output is None else f"it is in {self.output}")
        volume = read_volume(self.image)
        options = Options(dtype=volume.stored.dtype.name, force=force)  # type: ignore[arg-type]
        inputs = names_of(self.record.inputs or {})
        check_results([path], inputs, options=options)
        made = [volume.values(volume.flat)]
        result = deliver(
            self.image, volume, made, self.record, output=path, inputs=inputs, options=options
        )
        return replace(result, histogram=self.histogram)

    def plot(self) -> Figure:
        """Draw the histogram before and after, and the map between them.

        Of channels that were mapped together, draw the joint density of each pair.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InvalidValueError
            Where matplotlib is not installed, or no density was estimated.
        """
        from ndflow.subject.plot import plot_channels, plot_result

        record, mixture = self.record, self.mixture
        if self.histogram is None or mixture is None or record.target is None:
            raise InvalidValueError("there is no histogram to draw: no density was estimated")
        goal, tissues = record.target.mixture, record.target.tissues
        if record.channel_names:
            return plot_channels(mixture, self.imap, goal, record.channel_names)
        choice = record.match.target if record.match else None
        matched = chosen_density(choice, DensityModel(goal, tissues=tissues))
        bands = choice.bands(tissues) if choice else {}
        return plot_result(self.histogram, mixture, self.imap, matched, bands)


def check_results(outputs: Iterable[AnyPath | None], inputs: Files, *, options: Options) -> None:
    """Say now what `deliver` would say at the end, for the files that were read.

    Not even by force is an image replaced that we did not write, unless it is empty.
    """
    given, force = all_files(inputs), options.force
    for output in (one for one in outputs if one is not None):
        check_output(output, force=force, inputs=given)
        sidecar = sidecar_of(output)
        image = Path(output)
        if image.exists() and image.stat().st_size and model_files.not_ours(sidecar, [image]):
            cause = "exists, and was not written by ndflow"
            raise FileError(output, cause, "choose another name for the output, or move it")
        model_files.check_model(sidecar, given, force=force)


def deliver(
    image: Source,
    like: Volume,
    chunks: Iterable[NDArray[Any]],
    record: MapRecord,
    *,
    output: AnyPath | None,
    inputs: Files,
    options: Options,
    sidecar: AnyPath | None = None,
    metadata: Mapping[str, JSON] | None = None,
    also: Mapping[Path, bytes] | None = None,
) -> Result:
    """Write an image with its sidecar, or return it in memory.

    Parameters
    ----------
    image : as the user gave it.
    like : the same, read.
    chunks : the new voxels, see `write_volume`.
    record : how it was made, but for what only shows when it is written.
    output : where to; None for memory.
    inputs : files that must not be replaced.
    options : how.
    sidecar : where the sidecar goes, if not beside the image.
    metadata : what else the sidecar says, for BIDS.
    also : other files that appear with the image, and their content.
    """
    if output is None:
        make = make_array if isinstance(image, np.ndarray) else make_image
        made, clipped = make(like, chunks, dtype=options.dtype)
        full = _completed(record, clipped, like.path, options)
        return Result(made, full)
    place = Path(sidecar or sidecar_of(output))
    keep, dtype, force = all_files(inputs), options.dtype, options.force
    with ExitStack() as pending:
        written = write_volume(
            output, like, chunks, dtype=dtype, force=force, inputs=keep, pending=pending
        )
        outputs = {**written.sha256}
        for path, content in (also or {}).items():
            outputs[path] = model_files.write_pending(pending, path, content, inputs=keep)
        full = _completed(record, written.clipped, os.fspath(output), options)
        full = replace(full, outputs=model_files.relative_outputs(place, outputs))
        model_files.list_outputs(pending, place, full.content(metadata), outputs, force=force)
    return Result(None, full, output=output)


def deliver_channels(
    subject: Subject,
    voxels: Voxels,
    pieces: Sequence[Pieces],
    records: Sequence[MapRecord],
    *,
    outputs: Mapping[str, AnyPath | None],
    **how: Any,
) -> dict[str, Result]:
    """Deliver the image of each channel of a subject; parameters as for `deliver`, one for each."""
    several = len(subject.images) > 1
    results = {}
    for place, (name, image) in enumerate(subject.images.items()):
        record = records[place]
        if several:
            record = replace(record, channel=name, channel_names=subject.channels)
        parts = voxels.volumes[place], pieces[place], record
        results[name] = deliver(image, *parts, output=outputs[name], **how)
    return results


def _completed(record: MapRecord, clipped: int, path: str, options: Options) -> MapRecord:
    """Return a record with what only shows when an image is made."""
    warnings = list(record.warnings)
    if clipped:
        warnings.append(f"{path}: {clipped:,} voxels did not fit {options.dtype}, and were clipped")
    total = clipped + (record.clipped or 0)  # those of a result that is saved later
    return replace(record, outputs=None, clipped=total, warnings=tuple(warnings))


# ── to a target ───────────────────────────────────────────────────────────────────────────────────


@overload
def normalise(image: Source, to: AnyTarget, **options: Any) -> Result: ...


@overload
def normalise(
    image: Mapping[str, Source], to: AnyChannelTarget, **options: Any
) -> dict[str, Result]: ...


@documented(*_STEPS)
def normalise(
    image: Source | Mapping[str, Source],
    to: AnyChannelTarget,
    *,
    joint: bool = False,
    mask: Source | None = None,
    to_mask: Source | None = None,
    exclude: Source | None = None,
    csf: Source | None = None,
    gm: Source | None = None,
    wm: Source | None = None,
    output: AnyPath | None = None,
    preset: PresetName = "auto",
    **options: Any,
) -> Result | dict[str, Result]:
    """Bring an image to a target, as ``ndflow normalise`` does.

    Parameters
    ----------
    image : a path, a nibabel image, or an array; or several channels of one subject: a dictionary
        of them by name, such as ``{"T1w": …, "FLAIR": …}``.
    to : the target: a reference or a mixture, or the path of one; ``"builtin:T1w"``, a reference
        that comes with the package; or an image, like `image`. For several channels: a dictionary
        of targets by name, or a file that holds one for each; with `joint`, a joint one.
    joint : bring several channels to the target together, not each by itself.
    mask, to_mask : of the image and of the target, like `image`; or what to find: ``"auto"``, the
        foreground, or ``"brain"``, the brain in a T1w image. Default: all non-zero voxels. Several
        channels share one mask.
    exclude : a mask of voxels that the density does not see, such as a lesion; they are mapped.
    csf, gm, wm : tissue probability maps, for ``proportions="tissue"``.
    output : where to write the image, with its sidecar beside it; for several channels, a folder.
        Default: it is returned.
    preset : what decides the options below that are None: ``"auto"``, by what the target knows; or
        ``"paper"``, as in the paper. The record of the result says what it decided, and why.

    Returns
    -------
    Result
        The new image, the intensity map that made it, and how it was found. Of several channels, a
        dictionary with the result of each.

    Raises
    ------
    FileError
        Where a file cannot be read or written, or the image has too few distinct voxels.
    InvalidValueError
        Where an option makes no sense.

    Examples
    --------
    >>> import numpy as np
    >>> import ndflow
    >>> generator = np.random.default_rng(0)
    >>> scan = generator.normal(300, 40, size=(20, 20, 20)).round()
    >>> other = generator.normal(100, 10, size=(20, 20, 20)).round()
    >>> result = ndflow.normalise(scan, to=other)
    >>> float(result.image.mean().round())
    100.0
    """
    choices = Choices(preset, chosen_options(options, *_STEPS))
    subject = Subject(image, mask, exclude, TissueMaps(csf, gm, wm))  # type: ignore[arg-type]  # it takes a single image, too
    results: dict[str, Result] = {}
    matches = find_matches([subject], to, to_mask, choices, joint=joint)
    outputs = _made_outputs(subject, output)
    for one in matches:
        results |= normalise_subject(one, outputs=outputs)
    return results if isinstance(image, Mapping) else next(iter(results.values()))


normalize = normalise  # the American spelling


def _result_name(image: str) -> str:
    """Return what the result of an image is called; what is not one NIfTI file becomes one."""
    return Path(image).name if kind_of(image) == ".nii" else f"{stem(image)}.nii.gz"


def outputs_of(
    subjects: Sequence[Subject], output: AnyPath
) -> tuple[Path | None, list[dict[str, Path]]]:
    """Return the folder for results, if there is one, and the file of each channel."""
    images = [
        next(iter(files_of(image)), f"{name}.nii.gz")
        for subject in subjects
        for name, image in subject.images.items()
    ]
    folder, files = outputs_for(images, output, _result_name)
    left = iter(files)
    return folder, [{name: next(left) for name in subject.channels} for subject in subjects]


def _made_outputs(subject: Subject, output: AnyPath | None) -> Mapping[str, Path | None]:
    """Return the file of each channel, in a folder that is made; None for memory."""
    if output is None:
        return dict.fromkeys(subject.channels)
    folder, (files,) = outputs_of([subject], output)
    make_folder(folder)
    return files


class Match(NamedTuple):
    """What a subject is brought to, and how; one channel of it, unless all go together."""

    subject: Subject
    target: Target
    options: Options
    preset: PresetRecord | None


def find_matches(
    subjects: Sequence[Subject],
    to: AnyChannelTarget,
    to_mask: Source | None,
    choices: Choices,
    *,
    joint: bool,
) -> list[Match]:
    """Return what subjects are brought to, and how; refuse what cannot be done, before any work.

    Parameters
    ----------
    subjects : all single images; or one with named channels.
    to, to_mask : what the user gave as the target, and its mask if it is an image.
    choices : what the user chose about the match.
    joint : whether all channels are brought to one target together.
    """
    first = subjects[0]
    named = len(first.images) > 1
    if joint and not named:
        raise InvalidValueError("joint: there is one image only; name several: T1w, FLAIR")
    if not named:
        return _match(subjects, to, to_mask, choices)  # type: ignore[arg-type]
    known = targets.known_targets(to, first.channels, joint=joint)
    check_fit(first, joint=joint)
    parts = [first] if joint else [first.alone(name) for name in known]
    return [
        match
        for part, target in zip(parts, known.values(), strict=True)
        for match in _match([part], target, to_mask, choices)
    ]


def _match(
    subjects: Sequence[Subject], to: AnyTarget, to_mask: Source | None, choices: Choices
) -> list[Match]:
    """Return how some subjects, or channels, are brought to one target, each by itself."""
    known = targets.known_target(to)
    if len(subjects[0].images) > 1:
        options, preset = presets.settled_together(choices)
    else:
        facts = presets.TargetFacts() if known is None else known.facts
        maps = all(subject.tissues.complete for subject in subjects)
        options, preset = presets.settled_match(choices, facts, maps=maps)
    method_of(options)  # before the target is read, which takes longer than a wrong option should
    for subject in subjects:
        check_maps(subject, options)
    target, options = targets.read_target(known or to, to_mask, options=options)
    if len(target.channels) == 1:
        for subject in subjects:
            targets.check_contrast([subject], target.channels, target.name)
    return [Match(subject, target, options, preset) for subject in subjects]


def check_maps(scan: Subject, options: Options) -> None:
    """Refuse maps that would be ignored, and a target that lacks them."""
    rule = target_rule(options)
    scan.tissues.check_complete()
    if rule.needs_tissue_maps and not scan.tissues.complete:
        raise InvalidValueError(f"--proportions {options.proportions} needs --tissue-maps")
    if scan.tissues.complete and not rule.needs_tissue_maps:
        raise InvalidValueError("--tissue-maps are for --proportions tissue only; leave them out")


class Mapped(NamedTuple):
    """The voxels of a subject on their way to files.

    Attributes
    ----------
    solution : the map, and how it was found.
    pieces : the mapped voxels of each channel.
    doubts : about the map, for each channel.
    """

    solution: Solution
    pieces: list[Pieces]
    doubts: list[tuple[Doubt, ...]]


def map_subject(voxels: Voxels, model: ScanModel, goal: Goal, options: Options) -> Mapped:
    """Find the map of a subject, and map its voxels."""
    rows = voxels.rows() if len(voxels.volumes) > 1 else None
    solution = goal.solve(model.model, rows)
    doubts = match_doubts(model, solution, goal, rows)
    return Mapped(solution, map_voxels(voxels, solution.imap, options), doubts)


def target_doubts(
    voxels: Voxels, model: ScanModel, target: Target, goal: DensityModel, channels: Sequence[str]
) -> list[tuple[Doubt, ...]]:
    """Return, for each channel, a doubt whether an image is one for its target.

    Parameters
    ----------
    voxels, model : of the subject.
    target, goal : what it is brought to, and the same in the units of the result.
    channels : what the user calls its channels.
    """
    own = model.marginals or (model.mixture,)
    wanted = [marginal(goal.mixture, place) for place in range(len(own))]
    images = [volume.path for volume in voxels.volumes]
    likes = [None if target.has_units else one for one in wanted]
    shown = expected(channels, target.channels)
    return [*map(image_doubts, images, shown, own, likes, [model.mask] * len(own))]


def normalise_subject(
    match: Match,
    *,
    outputs: Mapping[str, AnyPath | None],
    command: tuple[str, ...] | None = None,
    report: bool = False,
) -> dict[str, Result]:
    """Bring a subject to a target that was read before.

    Parameters
    ----------
    match : the subject, its target, and how, from `find_matches`.
    outputs : where to write the image of each channel; None for memory.
    command : what the user typed, for the record.
    report : whether there is to be one.
    """
    subject, target, options, preset = match
    goal = targets.in_units(target, options)
    tissues = subject.tissues.complete
    inputs = subject.files(tissues=tissues) | names_of(target.files)
    check_results(outputs.values(), inputs, options=options)
    voxels = read_voxels(subject, max_bytes=options.max_bytes)
    model, histogram, files = fit_voxels(subject, voxels, options=options, tissues=tissues)
    solution, pieces, doubts = map_subject(voxels, model, Goal(goal, options), options)
    about = target_doubts(voxels, model, target, goal, subject.channels)
    doubts = [(*one, *found) for one, found in zip(about, doubts, strict=True)]
    several = {"joint": True} if len(voxels.volumes) > 1 else {}
    record = MapRecord(
        solution.imap,
        command=command,
        settings={**selection(subject), **options.of(*_STEPS), **several},
        inputs=files | target.files,
        target=TargetRecord(
            target.name,
            goal.mixture,
            goal.landmarks,
            goal.tissues,  # type: ignore[arg-type]
            target.doubts,
        ),
        mixture=model.mixture,
        voxels=model.voxels,
        fit=model.fit,
        mask=model.mask,
        match=solution.record(model.mixture),
        warnings=(*target.warnings, *model.warnings, *solution.warnings(subject.path)),
        preset=preset,
        joint=solution.joint,
    )
    records = [replace(record, doubts=(*model.doubts, *found)) for found in doubts]
    made = deliver_channels(
        subject, voxels, pieces, records, outputs=outputs, inputs=inputs, options=options
    )
    results = {name: replace(one, histogram=histogram) for name, one in made.items()}
    for name, volume in zip(results, voxels.volumes, strict=True) if report else ():
        slices = preview_of(volume, voxels.inside, solution.imap, voxels.lesion)
        results[name] = replace(results[name], seen=(model, slices))
    return results


# ── through a saved map ───────────────────────────────────────────────────────────────────────────


@overload
def apply(image: Source, imap: IntensityMap | AnyPath, **options: Any) -> Result: ...


@overload
def apply(
    image: Mapping[str, Source], imap: IntensityMap | AnyPath, **options: Any
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
    **options: Any,
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
    subject = Subject(image, mask)  # type: ignore[arg-type]  # it takes a single image, too
    outputs = _made_outputs(subject, output)
    results = apply_map(
        subject, imap, inverse=inverse, other_image=other_image, outputs=outputs, options=chosen
    )
    return results if isinstance(image, Mapping) else results[subject.channels[0]]


def _read_map(
    imap: IntensityMap | AnyPath, channels: Sequence[str]
) -> tuple[MapRecord, str, Hashes]:
    """Return the record of the map that a user means, what messages call it, and its file.

    A map of other channels than these is refused.
    """
    files: Hashes = {}
    record, name = MapRecord(imap), "the map"  # type: ignore[arg-type]
    if not isinstance(imap, IntensityMap):
        _, payload, file = model_files.read_model(imap, MapRecord.kind)
        record, name, files = MapRecord.of_payload(imap, payload), file.file, {"map": (file,)}
    if (d := record.map.channels) != len(channels):
        cause = f"a map of {plural(d, 'channel')}, not of {len(channels)}"
        hint = "give all channels that it was made for, T1w=FILE FLAIR=FILE, or its image alone"
        raise FileError(name, cause, hint)
    if d > 1 and record.channel_names:
        targets.check_channels(channels, record.channel_names, name)
    return record, name, files


def apply_map(
    subject: Subject,
    imap: IntensityMap | AnyPath,
    *,
    inverse: bool,
    other_image: bool = False,
    outputs: Mapping[str, AnyPath | None],
    options: Options,
    command: tuple[str, ...] | None = None,
) -> dict[str, Result]:
    """Apply an intensity map to all channels of a subject; see `apply`.

    Parameters
    ----------
    subject, imap, inverse, other_image : as for `apply`.
    outputs : where to write the image of each channel; None for memory.
    options : what the user chose.
    command : what the user typed, for the record.
    """
    saved, name, files = _read_map(imap, subject.channels)
    inputs = subject.files() | names_of(files)
    check_results(outputs.values(), inputs, options=options)
    voxels = read_voxels(subject, max_bytes=options.max_bytes)
    warnings = voxels.warnings
    if inverse and not other_image:
        _refuse_other_image(saved, name, subject, voxels)
    if inverse and subject.mask is None and saved.setting("outside") == "keep":
        warnings += (
            f"{name}: was made with --set outside=keep, so voxels outside its mask were not "
            f"mapped; to undo it, give the same --mask and --set outside",
        )
    chosen = saved.map.inverse() if inverse else saved.map
    mask = selection(subject)["mask"]
    settings = {"inverse": inverse, "mask": mask, **options.of("read", "write")}
    inputs_read = voxels.files | files
    record = MapRecord(chosen, command, settings, inputs_read, warnings=warnings)
    doubts: Iterable[tuple[Doubt, ...]] = [()] * len(voxels.volumes)
    if not inverse:
        masked = subject.has_brain_mask or mask == saved.setting("mask")
        about = zip(voxels.volumes, range_doubts(saved, voxels, masked=masked), strict=True)
        doubts = [(*image_doubts(volume.path), *odd) for volume, odd in about]
    pieces = map_voxels(voxels, chosen, options)
    records = [replace(record, doubts=own) for own in doubts]
    return deliver_channels(
        subject, voxels, pieces, records, outputs=outputs, inputs=inputs, options=options
    )


def _refuse_other_image(saved: MapRecord, name: str, subject: Subject, voxels: Voxels) -> None:
    """Refuse to undo a map in an image that it did not make, as far as its file tells."""
    by_channel = dict(zip(subject.channels, voxels.volumes, strict=True))
    volume = by_channel.get(saved.channel or "", voxels.volume)
    read = tuple(one.sha256 for one in volume.files)
    if read and saved.image and read != saved.image:
        cause = f"not the image that {name} made: its content is another"
        hint = "give the map of this image; for an edited copy, add --other-image"
        raise FileError(volume.path, cause, hint)
