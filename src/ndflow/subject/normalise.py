"""One scan, brought to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Unpack, overload

from ndflow.errors import InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.image.read import Source
from ndflow.image.subject import Scan, TissueMaps
from ndflow.methods.base import method_of
from ndflow.methods.matching import (
    Matching,
    MatchingChoices,
    MethodName,
    Objective,
    Scale,
    Solver,
    TargetKind,
)
from ndflow.methods.modes import Goal
from ndflow.population.plausibility import unlike_reference
from ndflow.subject.channels import Subject, check_grids
from ndflow.subject.doubts import VoxelQuantiles, match_doubts
from ndflow.subject.fit import fit_voxels
from ndflow.subject.joint_normalise import normalise_jointly
from ndflow.subject.joint_target import AnyChannelTarget, read_joint_target, separate_matches
from ndflow.subject.map_voxels import mapped
from ndflow.subject.outputs import channel_outputs, make_folder
from ndflow.subject.parameters import NormaliseOptions, documented
from ndflow.subject.presets import PresetRecord, TargetFacts, settled_match
from ndflow.subject.records import MapRecord, TargetRecord
from ndflow.subject.results import Result, all_files, check_result, deliver, names_of
from ndflow.subject.settings import DType, Fitting, Outside, PresetName, Reading, Writing, flat
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


@overload
def normalise(image: Source, to: AnyTarget, **options: Unpack[NormaliseOptions]) -> Result: ...


@overload
def normalise(
    image: Mapping[str, Source], to: AnyChannelTarget, **options: Unpack[NormaliseOptions]
) -> dict[str, Result]: ...


@documented(MatchingChoices, Writing, Fitting, Reading)
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
    method: MethodName = Matching.method,
    target: TargetKind | None = None,
    freeze: tuple[str, ...] = Matching.freeze,
    objective: Objective | None = None,
    regularisation: float | None = None,
    solver: Solver = Matching.solver,
    landmarks: int = Matching.landmarks,
    scale: Scale | None = Matching.scale,
    range: tuple[float, float] | None = Matching.range,
    outside: Outside | None = Writing.outside,
    dtype: DType = Writing.dtype,
    force: bool = Writing.force,
    effective_count: float = Fitting.effective_count,
    max_bytes: int = Reading.max_bytes,
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
        foreground, or ``"brain"``, the brain in a T1w image. Default: all voxels but 0. Several
        channels share one mask.
    exclude : a mask of voxels that the density does not see, such as a lesion; they are mapped.
    csf, gm, wm : tissue probability maps, for ``target="tissue"``.
    output : where to write the image, with its sidecar beside it; for several channels, a folder.
        Default: it is returned.
    preset : what decides the settings below that are None: ``"auto"``, by what the target knows; or
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
    choices = MatchingChoices(
        method, target, freeze, objective, regularisation, solver, landmarks, scale, range
    )
    reading, fitting = Reading(max_bytes), Fitting(effective_count)
    writing = Writing(outside, dtype, force)
    if isinstance(image, Mapping):
        if to_mask is not None:
            raise InvalidValueError("to_mask: a target of several channels is not an image")
        subject = Subject(image, mask, exclude, TissueMaps(csf, gm, wm))
        chosen = _Chosen(preset, choices, reading, fitting, writing)
        return _normalise_channels(subject, to, output, chosen, joint=joint)
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
    _, matching, why = settled_match(preset, choices, facts, maps=scan.tissues.complete)
    method_of(matching)  # before the target is read, which takes longer than a wrong option should
    check_found_mask(scan)
    check_maps(scan, matching)
    if output is not None:
        path_like(output, "output")
    return normalise_scan(
        scan,
        read_target(known or to, to_mask, reading=reading, fitting=fitting, matching=matching),
        output=output,
        reading=reading,
        fitting=fitting,
        matching=matching,
        writing=writing,
        preset=why,
    )


normalize = normalise  # the American spelling


class _Chosen(NamedTuple):
    """What the user chose."""

    preset: PresetName
    choices: MatchingChoices
    reading: Reading
    fitting: Fitting
    writing: Writing


def _normalise_channels(
    subject: Subject, to: AnyChannelTarget, output: AnyPath | None, chosen: _Chosen, *, joint: bool
) -> dict[str, Result]:
    """Bring several channels to a target, together or each by itself."""
    preset, choices, reading, fitting, writing = chosen
    outputs = None
    if output is not None:
        folder, files = channel_outputs(subject, output)
        make_folder(folder)
        outputs = dict(zip(subject.names, files, strict=True))
    if joint:
        target = read_joint_target(subject, to, preset=preset, choices=choices, writing=writing)
        return normalise_jointly(
            subject, target, outputs=outputs, reading=reading, fitting=fitting, writing=writing
        ).results
    matches = separate_matches(
        subject, to, preset=preset, choices=choices, reading=reading, fitting=fitting
    )
    check_grids(subject)
    return {
        one.name: normalise_scan(
            one.scan,
            one.target,
            output=None if outputs is None else outputs[one.name],
            reading=reading,
            fitting=fitting,
            matching=one.matching,
            writing=writing,
            preset=one.preset,
        )
        for one in matches
    }


def normalise_scan(
    scan: Scan,
    target: Target,
    *,
    output: AnyPath | None,
    reading: Reading,
    fitting: Fitting,
    matching: Matching,
    writing: Writing,
    command: Sequence[str] | None = None,
    preset: PresetRecord | None = None,
) -> Result:
    """Bring a scan to a target that was read before.

    Parameters
    ----------
    scan : the scan.
    target : what it is brought to.
    output : where to write the image; None to return it.
    reading, fitting, matching, writing : what the user chose.
    command : what the user typed, for the record.
    preset : what a preset decided, for the record.
    """
    method = method_of(matching)
    matching = with_scale(matching, has_units=target.has_units)
    goal = in_units(target, matching)
    check_units(matching, writing, name=target.name, has_units=target.has_units, model=goal)
    check_maps(scan, matching)
    tissues = scan.tissues.complete
    inputs = scan.files(tissues=tissues) | names_of(target.files)
    if output is not None:
        check_result(output, all_files(inputs), writing=writing)
    voxels = read_scan(scan, reading)
    fitted = fit_voxels(
        scan, voxels, reading=reading, fitting=fitting, matching=matching, tissues=tissues
    )
    solution = method.solve(fitted.model, goal, matching)
    record = MapRecord(
        solution.imap,
        command=None if command is None else tuple(command),
        settings=selection(scan) | flat(reading, fitting, matching, writing),
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
                VoxelQuantiles.of_histogram(voxels.histogram), solution, Goal(goal, matching)
            ),
        ),
        preset=preset,
    )
    return deliver(
        scan,
        voxels.volume,
        mapped(voxels.volume, solution.imap, voxels.inside, writing.outside, writing.dtype),
        record,
        output=output,
        inputs=inputs,
        writing=writing,
        histogram=voxels.histogram,
        target=goal.mixture,
    )
