"""One scan, brought to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, overload

from ndflow.errors import InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.image.mask import to_be_found
from ndflow.image.read import Source
from ndflow.image.subject import Scan, TissueMaps
from ndflow.methods.base import method_of
from ndflow.methods.modes import Goal
from ndflow.options import Keywords, Options, PresetName, Step, chosen_options, documented
from ndflow.population.plausibility import unlike_reference
from ndflow.subject.channels import Subject, check_grids
from ndflow.subject.doubts import VoxelQuantiles, match_doubts
from ndflow.subject.fit import fit_voxels
from ndflow.subject.joint_normalise import normalise_jointly
from ndflow.subject.joint_target import AnyChannelTarget, read_joint_target, separate_matches
from ndflow.subject.map_voxels import mapped
from ndflow.subject.outputs import channel_outputs, make_folder, outputs_for
from ndflow.subject.presets import Choices, PresetRecord, TargetFacts, settled_match
from ndflow.subject.records import MapRecord, TargetRecord
from ndflow.subject.results import Result, all_files, check_result, deliver, names_of
from ndflow.subject.target import (
    AnyTarget,
    Target,
    check_units,
    in_units,
    known_target,
    read_target,
    with_scale,
)
from ndflow.subject.tissue_maps import check_maps
from ndflow.subject.voxels import check_found_mask, read_scan, selection
from ndflow.values import path_like

_STEPS: tuple[Step, ...] = ("match", "fit", "write", "read")


class NormaliseOptions(Keywords, total=False):
    """The keywords of `normalise`, for type checkers."""

    joint: bool
    mask: Source | list[Source] | None
    to_mask: Source | None
    exclude: Source | list[Source] | None
    csf: Source | list[Source] | None
    gm: Source | list[Source] | None
    wm: Source | list[Source] | None
    output: AnyPath | None
    preset: PresetName


@overload
def normalise(image: Source, to: AnyTarget, **options: Unpack[NormaliseOptions]) -> Result: ...


@overload
def normalise(
    image: list[Source], to: AnyTarget, **options: Unpack[NormaliseOptions]
) -> list[Result]: ...


@overload
def normalise(
    image: Mapping[str, Source], to: AnyChannelTarget, **options: Unpack[NormaliseOptions]
) -> dict[str, Result]: ...


@documented(*_STEPS)
def normalise(
    image: Source | list[Source] | Mapping[str, Source],
    to: AnyChannelTarget,
    *,
    joint: bool = False,
    mask: Any = None,  # like `image`
    to_mask: Source | None = None,
    exclude: Any = None,
    csf: Any = None,
    gm: Any = None,
    wm: Any = None,
    output: AnyPath | None = None,
    preset: PresetName = "auto",
    **options: Unpack[Keywords],
) -> Result | list[Result] | dict[str, Result]:
    """Bring an image to a target, as ``ndflow normalise`` does.

    Parameters
    ----------
    image : a path, a nibabel image, or an array; or a list of them, with lists of masks; or
        several channels of one subject: a dictionary of them by name, such as ``{"T1w": …,
        "FLAIR": …}``.
    to : the target: a reference or a mixture, or the path of one; ``"builtin:T1w"``, a reference
        that comes with the package; or an image, like `image`. For several channels: a dictionary
        of targets by name, or a file that holds one for each; with `joint`, a joint one.
    joint : bring several channels to the target together, not each by itself.
    mask, to_mask : of the image and of the target, like `image`; or what to find: ``"auto"``, the
        foreground, or ``"brain"``, the brain in a T1w image. Default: all voxels but 0. Several
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
        The new image, the intensity map that made it, and how it was found. Of several images, a
        list of results; of several channels, a dictionary with the result of each.

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
    if isinstance(image, list):
        given = {"mask": mask, "exclude": exclude, "csf": csf, "gm": gm, "wm": wm}
        more: dict[str, Any] = {"to_mask": to_mask, "joint": joint, "preset": preset, **options}
        return _normalise_each(image, to, given, output, more)
    choices = Choices(preset, chosen_options(options, *_STEPS))
    if isinstance(image, Mapping):
        if to_mask is not None:
            raise InvalidValueError("to_mask: a target of several channels is not an image")
        subject = Subject(image, mask, exclude, TissueMaps(csf, gm, wm))
        return _normalise_channels(subject, to, output, choices, joint=joint)
    if joint:
        raise InvalidValueError(
            "joint: there is one image only; give several channels by their names, for example "
            "{'T1w': 'a.nii.gz', 'FLAIR': 'b.nii.gz'}"
        )
    if isinstance(to, Mapping):
        raise InvalidValueError("to: targets of several channels, but there is one image only")
    scan = Scan(image, mask, exclude, TissueMaps(csf, gm, wm))
    known = None if isinstance(to, Target) else known_target(to)
    facts = TargetFacts() if known is None else known.facts
    settled, why = settled_match(choices, facts, maps=scan.tissues.complete)
    method_of(settled)  # before the target is read, which takes longer than a wrong option should
    check_found_mask(scan)
    check_maps(scan, settled)
    if output is not None:
        path_like(output, "output")
    return normalise_scan(
        scan,
        read_target(known or to, to_mask, options=settled),
        output=output,
        options=settled,
        preset=why,
    )


normalize = normalise  # the American spelling


def _normalise_each(
    images: list[Source],
    to: Any,
    given: Mapping[str, Any],
    output: AnyPath | None,
    more: dict[str, Any],
) -> list[Result]:
    """Bring several images to a target, one after the other."""
    columns: dict[str, list[Any]] = {}
    for name, one in given.items():
        for_all = one is None or (name == "mask" and to_be_found(one))
        columns[name] = [one] * len(images) if for_all else one
        if not isinstance(columns[name], list) or len(columns[name]) != len(images):
            raise InvalidValueError(f"{name}: give a list with one for each of the images")
    outputs: list[Path | None] = [None] * len(images)
    if output is not None:
        for image in images:
            path_like(image, "with an output, each image")
        names = [str(image) for image in images]
        folder, files = outputs_for(names, str(output), lambda name: Path(name).name)
        make_folder(folder)
        outputs = [*files]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [
        normalise(image, to, output=file, **row, **more)
        for image, file, row in zip(images, outputs, rows, strict=True)
    ]


def _normalise_channels(
    subject: Subject, to: AnyChannelTarget, output: AnyPath | None, choices: Choices, *, joint: bool
) -> dict[str, Result]:
    """Bring several channels to a target, together or each by itself."""
    outputs = None
    if output is not None:
        folder, files = channel_outputs(subject, output)
        make_folder(folder)
        outputs = dict(zip(subject.names, files, strict=True))
    if joint:
        target = read_joint_target(subject, to, choices)
        return normalise_jointly(subject, target, outputs=outputs).results
    matches = separate_matches(subject, to, choices)
    check_grids(subject)
    return {
        one.name: normalise_scan(
            one.scan,
            one.target,
            output=None if outputs is None else outputs[one.name],
            options=one.options,
            preset=one.preset,
        )
        for one in matches
    }


def normalise_scan(
    scan: Scan,
    target: Target,
    *,
    output: AnyPath | None,
    options: Options,
    command: Sequence[str] | None = None,
    preset: PresetRecord | None = None,
) -> Result:
    """Bring a scan to a target that was read before.

    Parameters
    ----------
    scan : the scan.
    target : what it is brought to.
    output : where to write the image; None to return it.
    options : what the user chose.
    command : what the user typed, for the record.
    preset : what a preset decided, for the record.
    """
    method = method_of(options)
    options = with_scale(options, has_units=target.has_units)
    goal = in_units(target, options)
    check_units(options, name=target.name, has_units=target.has_units, model=goal)
    check_maps(scan, options)
    tissues = scan.tissues.complete
    inputs = scan.files(tissues=tissues) | names_of(target.files)
    if output is not None:
        check_result(output, all_files(inputs), options=options)
    voxels = read_scan(scan, options)
    fitted = fit_voxels(scan, voxels, options=options, tissues=tissues)
    solution = method.solve(fitted.model, goal, options)
    record = MapRecord(
        solution.imap,
        command=None if command is None else tuple(command),
        settings=selection(scan) | options.of(*_STEPS),
        inputs=fitted.files | target.files,
        target=TargetRecord(
            target.name,
            goal.mixture,
            goal.landmarks,
            goal.tissues,  # type: ignore[arg-type]
            target.doubts,
        ),
        mixture=fitted.model.mixture,
        voxels=voxels.counts,
        fit=fitted.fit.status.message,
        mask=fitted.mask,
        match=solution.record(fitted.model.mixture),
        warnings=(
            *target.warnings,
            *fitted.warnings,
            *solution.warnings(voxels.volume.path),
        ),
        doubts=(
            *fitted.doubts,
            *(() if target.has_units else unlike_reference(fitted.model.mixture, goal.mixture)),
            *match_doubts(
                VoxelQuantiles.of_histogram(voxels.histogram), solution, Goal(goal, options)
            ),
        ),
        preset=preset,
    )
    return deliver(
        scan,
        voxels.volume,
        mapped(voxels.volume, solution.imap, voxels.inside, options.outside, options.dtype),
        record,
        output=output,
        inputs=inputs,
        options=options,
        histogram=voxels.histogram,
        target=goal.mixture,
    )
