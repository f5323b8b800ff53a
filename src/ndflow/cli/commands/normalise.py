"""``ndflow normalise``."""

from __future__ import annotations

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
    from ndflow.cli.arguments import typed_subjects
    from ndflow.cli.console import print_warning
    from ndflow.cli.run import command_line, print_written, run_scans
    from ndflow.files.outputs import refuse_images_of_others
    from ndflow.study.tasks import Task
    from ndflow.subject.normalise import find_matches, normalise_subject, outputs_of
    from ndflow.subject.presets import Choices

    choices = Choices(preset, chosen(options, expert, "match", "fit", "write", "read"))
    subjects = typed_subjects(
        images, mask=mask, exclude=exclude, tissue_maps=tissue_maps, joint=joint
    )
    matches = find_matches(subjects, to, to_mask, choices, joint=joint)
    folder, files = outputs_of([one.subject for one in matches], output)
    outputs = [file for own in files for file in own.values()]
    if choices.options.get("force") and folder is not None:
        refuse_images_of_others(outputs)
    doubts = [f"{one.target.name}: {doubt}" for one in matches for doubt in one.target.doubts]
    for doubt in () if verbosity.quiet else dict.fromkeys(doubts):
        print_warning(doubt)
    typed = command_line()
    tasks = [
        Task(one.subject.path, {**one._asdict(), "outputs": own, "command": typed})
        for one, own in zip(matches, files, strict=True)
    ]
    code, outcomes = run_scans(
        "normalise", normalise_subject, tasks, verbosity=verbosity, jobs=jobs, folder=folder
    )
    print_written(outputs, folder, outcomes, verbosity)
    return code
