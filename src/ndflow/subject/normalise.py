"""Subjects, brought to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack, overload

from ndflow.density.mixture import marginal
from ndflow.errors import InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.outputs import make_folder, outputs_for, stem
from ndflow.image.read import Source, files_of, kind_of
from ndflow.image.subject import Subject, TissueMaps
from ndflow.methods.base import Solution, method_of
from ndflow.methods.modes import Goal
from ndflow.methods.ndflow import target_rule
from ndflow.options import Keywords, Options, PresetName, Step, chosen_options, documented
from ndflow.population.plausibility import unlike_reference
from ndflow.subject.doubts import match_doubts
from ndflow.subject.fit import check_fit, fit_voxels
from ndflow.subject.presets import (
    Choices,
    PresetRecord,
    TargetFacts,
    settled_match,
    settled_together,
)
from ndflow.subject.records import MapRecord, ScanModel, TargetRecord
from ndflow.subject.results import Result, check_results, deliver, names_of
from ndflow.subject.target import (
    AnyTarget,
    Target,
    check_units,
    in_units,
    known_target,
    known_targets,
    read_target,
    with_scale,
)
from ndflow.subject.voxels import (
    Pieces,
    Voxels,
    check_found_mask,
    map_voxels,
    read_voxels,
    selection,
)
from ndflow.values import Doubt, path_like

AnyChannelTarget = AnyTarget | Mapping[str, AnyTarget]

_STEPS: tuple[Step, ...] = ("match", "fit", "write", "read")


class NormaliseOptions(Keywords, total=False):
    """The keywords of `normalise`, for type checkers."""

    joint: bool
    mask: Source | None
    to_mask: Source | None
    exclude: Source | None
    csf: Source | None
    gm: Source | None
    wm: Source | None
    output: AnyPath | None
    preset: PresetName


@overload
def normalise(image: Source, to: AnyTarget, **options: Unpack[NormaliseOptions]) -> Result: ...


@overload
def normalise(
    image: Mapping[str, Source], to: AnyChannelTarget, **options: Unpack[NormaliseOptions]
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
    **options: Unpack[Keywords],
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
    outputs: Mapping[str, Path | None] = dict.fromkeys(subject.channels)
    if output is not None:
        folder, (outputs,) = outputs_of([subject], output)
        make_folder(folder)
    for one, target, chosen, decided in matches:
        results |= normalise_subject(one, target, outputs=outputs, options=chosen, preset=decided)
    return results if isinstance(image, Mapping) else next(iter(results.values()))


normalize = normalise  # the American spelling


def _result_name(image: str) -> str:
    """Return what the result of an image is called; a pair of header and data becomes one file."""
    return Path(image).name if kind_of(image) in (".nii", ".mgh") else f"{stem(image)}.nii.gz"


def outputs_of(
    subjects: Sequence[Subject], output: AnyPath
) -> tuple[Path | None, list[dict[str, Path]]]:
    """Return the folder for results, if there is one, and the file of each channel."""
    path_like(output, "output")
    images = []
    for subject in subjects:
        for name, image in subject.images.items():
            if len(subjects) > 1:  # an image in memory has no name for its result in a folder
                path_like(image, "with an output, each image")
            images.append(next(iter(files_of(image)), f"{name}.nii.gz"))
    folder, files = outputs_for(images, output, _result_name)
    left = iter(files)
    return folder, [{name: next(left) for name in subject.channels} for subject in subjects]


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
        raise InvalidValueError(
            "joint: there is one image only; give several channels by their names, for example "
            "T1w and FLAIR"
        )
    if not named:
        if isinstance(to, Mapping):
            raise InvalidValueError("to: targets of several channels, but there is one image only")
        return _match(subjects, to, to_mask, choices)
    if to_mask is not None:
        raise InvalidValueError("--to-mask: a target of several channels is not an image")
    targets = known_targets(to, first.channels, joint=joint)
    check_fit(first, joint=joint)
    parts = [first] if joint else [first.alone(name) for name in targets]
    return [
        match
        for part, target in zip(parts, targets.values(), strict=True)
        for match in _match([part], target, None, choices)
    ]


def _match(
    subjects: Sequence[Subject], to: AnyTarget, to_mask: Source | None, choices: Choices
) -> list[Match]:
    """Return how some subjects, or channels, are brought to one target, each by itself."""
    known = known_target(to)
    if len(subjects[0].images) > 1:
        options, preset = settled_together(choices)
    else:
        facts = TargetFacts() if known is None else known.facts
        maps = all(subject.tissues.complete for subject in subjects)
        options, preset = settled_match(choices, facts, maps=maps)
    method_of(options)  # before the target is read, which takes longer than a wrong option should
    for subject in subjects:
        check_found_mask(subject)
        check_maps(subject, options)
    target = read_target(known or to, to_mask, options=options)
    options = with_scale(options, has_units=target.has_units)
    model = in_units(target, options)
    check_units(options, name=target.name, has_units=target.has_units, model=model)
    return [Match(subject, target, options, preset) for subject in subjects]


def check_maps(scan: Subject, options: Options) -> None:
    """Refuse maps that would be ignored, and a target that lacks them."""
    rule = target_rule(options)
    scan.tissues.check_complete()
    if rule.needs_tissue_maps and not scan.tissues.complete:
        raise InvalidValueError(
            f"--proportions {options.proportions} needs tissue probability maps: --tissue-maps"
        )
    if scan.tissues.complete and not rule.needs_tissue_maps:
        raise InvalidValueError(
            "--tissue-maps are for --proportions tissue only, and that is for a reference of "
            "scans with such maps; leave them out, or give such a reference"
        )


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


def normalise_subject(
    subject: Subject,
    target: Target,
    *,
    outputs: Mapping[str, AnyPath | None],
    options: Options,
    command: Sequence[str] | None = None,
    preset: PresetRecord | None = None,
) -> dict[str, Result]:
    """Bring a subject to a target that was read before.

    Parameters
    ----------
    subject, target : as read by `find_matches`.
    outputs : where to write the image of each channel; None for memory.
    options : what was chosen, with nothing left open.
    command : what the user typed, for the record.
    preset : what the preset decided, and why.
    """
    goal = in_units(target, options)
    tissues = subject.tissues.complete
    inputs = subject.files(tissues=tissues) | names_of(target.files)
    check_results(outputs.values(), inputs, options=options)
    voxels = read_voxels(subject, max_bytes=options.max_bytes)
    model, histogram, files = fit_voxels(subject, voxels, options=options, tissues=tissues)
    solution, pieces, doubts = map_subject(voxels, model, Goal(goal, options), options)
    several = len(subject.images) > 1
    results = {}
    for place, (name, image) in enumerate(subject.images.items()):
        own = model.marginals[place] if model.marginals else model.mixture
        wanted = marginal(goal.mixture, place) if several else goal.mixture
        record = MapRecord(
            solution.imap,
            command=None if command is None else tuple(command),
            settings={
                **selection(subject),
                **options.of(*_STEPS),
                **({"joint": True} if several else {}),
            },
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
            doubts=(
                *model.doubts,
                *(() if target.has_units else unlike_reference(own, wanted)),
                *doubts[place],
            ),
            preset=preset,
            channel=name if several else None,
            channel_names=subject.channels if several else None,
            joint=solution.joint,
        )
        results[name] = deliver(
            image,
            voxels.volumes[place],
            pieces[place],
            record,
            output=outputs[name],
            inputs=inputs,
            options=options,
            histogram=histogram,
            target=wanted,
        )
    return results
