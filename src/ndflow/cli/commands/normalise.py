"""``ndflow normalise``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import (
    MATCHING,
    Excludes,
    Expert,
    Images,
    Jobs,
    Joint,
    Masks,
    MatchOptions,
    Output,
    Preset,
    TissueMapFiles,
    Verbosity,
    VerbosityOptions,
    chosen,
)


def normalise(
    images: Images,
    /,
    *,
    to: Annotated[str, Parameter(metavar="TARGET", group=MATCHING)],
    to_mask: Annotated[str | None, Parameter(metavar="FILE|auto|brain", group=MATCHING)] = None,
    mask: Masks = (),
    exclude: Excludes = (),
    tissue_maps: TissueMapFiles = (),
    joint: Joint = False,
    preset: Preset = "auto",
    output: Output,
    options: MatchOptions = None,
    expert: Expert = (),
    jobs: Jobs = 1,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Normalise scans to a reference, or to another scan.

    The density of each scan is estimated inside its mask and matched to that of the target, and
    the resulting intensity map is applied to the image. The sidecar of the result (out.json next
    to out.nii.gz) records how it was made, and holds the intensity map for `ndflow apply`.

    Example: `ndflow normalise scan.nii.gz --mask brain.nii.gz --to reference.json -o out.nii.gz`

    Several channels of one subject: `ndflow normalise T1w=a.nii.gz FLAIR=b.nii.gz --joint --to
    reference.json -o OUT/`

    Parameters
    ----------
    images
        The scans: .nii, .nii.gz, .hdr/.img, .mgz or .mgh; or two to four channels of one subject,
        each as NAME=IMAGE, which share a grid and one --mask.
    to
        The target: a reference or a mixture (.json), or an image; or `builtin:T1w`, a reference of
        35 healthy adults that comes with ndflow (docs/reference/builtin.md says what it is not
        for). For channels, a reference or mixtures of the same channels.
    output
        The file to write; or a folder, for several scans or channels.
    mask
        The brain mask of each scan, in the same order; or `brain` to find the brains in T1w images
        (requires pip install 'ndflow[prepare]'), or `auto` to find the foreground. Default:
        `nonzero`, all nonzero voxels.
    to_mask
        The brain mask of a target that is an image; or `brain` or `auto`. Default: all nonzero
        voxels.
    exclude
        For each scan, a mask of voxels to leave out of the estimate, such as a lesion; `none` for
        a scan without one. They are mapped like the others. Default: none.
    joint
        Bring all channels to a joint reference together, so that their dependence on each other
        becomes that of the reference too. Default: each channel by itself.
    """
    from ndflow.cli.arguments import are_channels, typed_scans, typed_subject
    from ndflow.cli.console import print_warning
    from ndflow.cli.run import command_line, print_written, run_scans
    from ndflow.errors import InvalidValueError
    from ndflow.methods.base import method_of
    from ndflow.study.tasks import Task
    from ndflow.subject.normalise import normalise_scan
    from ndflow.subject.outputs import outputs_for, refuse_images_of_others
    from ndflow.subject.presets import Choices, TargetFacts, settled_match
    from ndflow.subject.target import check_units, in_units, known_target, read_target, refuse_image
    from ndflow.subject.tissue_maps import check_maps

    typed = chosen(options, expert, "match", "fit", "write", "read")
    choices = Choices(preset, typed)
    if are_channels(images, joint=joint):
        from ndflow.cli.channel_runs import normalise_channels

        if to_mask is not None:
            raise InvalidValueError("--to-mask: a target of several channels is not an image")
        return normalise_channels(
            typed_subject(images, mask=mask, exclude=exclude, tissue_maps=tissue_maps),
            to,
            output,
            choices,
            joint=joint,
            jobs=jobs,
            verbosity=verbosity,
        )
    scans = typed_scans(images, mask=mask, exclude=exclude, tissue_maps=tissue_maps)
    known = known_target(to)
    settled, decided = settled_match(
        choices,
        TargetFacts() if known is None else known.facts,
        maps=all(scan.tissues.complete for scan in scans),
    )
    method_of(settled)
    refuse_image(to, settled)
    outputs = outputs_for(images, output, lambda image: Path(image).name)
    if settled.force:
        refuse_images_of_others(outputs)
    for scan in scans[:1]:
        check_maps(scan, settled)
    target = read_target(known or to, to_mask, options=settled)
    goal = in_units(target, settled)  # checked once, for all scans
    check_units(settled, name=to, has_units=target.has_units, model=goal)
    files = list(zip(scans, outputs.files, strict=True))
    if not verbosity.quiet:
        for doubt in target.doubts:
            print_warning(f"{target.name}: {doubt}")
    shared = {
        "target": target,
        "options": settled,
        "command": command_line(),
        "preset": decided,
    }
    tasks = [Task(scan.path, {"scan": scan, "output": file, **shared}) for scan, file in files]
    code, outcomes = run_scans(
        "normalise",
        normalise_scan,
        tasks,
        verbosity=verbosity,
        jobs=jobs,
        folder=outputs.folder,
    )

    print_written(outputs, outcomes, verbosity)
    return code
