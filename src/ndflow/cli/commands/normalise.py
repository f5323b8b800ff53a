"""``ndflow normalise`` and ``ndflow apply``, from scans to images."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli import options as shared
from ndflow.cli.options import INPUT, MATCHING


def normalise(
    images: shared.Images,
    /,
    *,
    to: Annotated[str, Parameter(metavar="TARGET", group=MATCHING)],
    to_mask: Annotated[str | None, Parameter(metavar="FILE|auto|brain", group=MATCHING)] = None,
    mask: shared.Masks = (),
    exclude: shared.Excludes = (),
    tissue_maps: shared.TissueMapFiles = (),
    joint: shared.Joint = False,
    preset: shared.Preset = "auto",
    output: shared.Output,
    options: shared.MatchOptions = None,
    jobs: shared.Jobs = 1,
    verbosity: shared.VerbosityOptions = shared.Verbosity(),
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
        (requires the extra `prepare`), or `auto` to find the foreground. Default:
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
    from ndflow.cli.scans import command_line, run_scans, typed_subjects
    from ndflow.study.tasks import Task
    from ndflow.subject.normalise import find_matches, normalise_subject, outputs_of
    from ndflow.subject.presets import Choices

    choices = Choices(preset, shared.chosen(options, "match", "fit", "write", "read"))
    subjects = typed_subjects(
        images, mask=mask, exclude=exclude, tissue_maps=tissue_maps, joint=joint
    )
    matches = find_matches(subjects, to, to_mask, choices, joint=joint)
    folder, files = outputs_of([one.subject for one in matches], output)
    outputs = [file for own in files for file in own.values()]
    doubts = [f"{one.target.name}: {doubt}" for one in matches for doubt in one.target.doubts]
    for doubt in dict.fromkeys(doubts):
        verbosity.warn(doubt)
    typed = command_line()
    tasks = [
        Task(one.subject.path, {**one._asdict(), "outputs": own, "command": typed})
        for one, own in zip(matches, files, strict=True)
    ]
    code, _ = run_scans(
        "normalise", normalise_subject, tasks, verbosity, jobs=jobs, folder=folder, files=outputs
    )
    return code


def apply(
    image: Annotated[tuple[str, ...], Parameter(metavar="IMAGE|NAME=IMAGE...")],
    /,
    *,
    map: Annotated[str, Parameter(metavar="FILE", group=INPUT)],
    inverse: Annotated[bool, Parameter(group=INPUT)] = False,
    other_image: Annotated[bool, Parameter(group=INPUT)] = False,
    mask: Annotated[str | None, Parameter(metavar="FILE|auto|brain", group=INPUT)] = None,
    output: shared.Output,
    options: shared.ApplyOptions = None,
    verbosity: shared.VerbosityOptions = shared.Verbosity(),
) -> int:
    """Apply a saved intensity map to an image, or undo it.

    Example: `ndflow apply out.nii.gz --map out.json --inverse -o back.nii.gz`

    A joint map: `ndflow apply T1w=a.nii.gz FLAIR=b.nii.gz --map OUT/a.json --inverse -o BACK/`

    Parameters
    ----------
    image
        The image: .nii, .nii.gz, .hdr/.img, .mgz or .mgh; or, for a joint map, all its channels,
        each as NAME=IMAGE.
    map
        The intensity map (.json), such as the sidecar of a normalised image.
    output
        The image to write; or a folder, for channels.
    inverse
        Undo the map. Default: apply it.
    other_image
        With --inverse: undo the map even in an image that it did not make, such as an edited copy.
    mask
        The brain mask that --set outside refers to; or `brain` or `auto` to find it. Default: all
        nonzero voxels.
    """
    from ndflow.cli.scans import command_line, run_scans, typed_subjects
    from ndflow.errors import InvalidValueError
    from ndflow.options import Options
    from ndflow.study.tasks import Task
    from ndflow.subject.apply import apply_map, read_map
    from ndflow.subject.normalise import outputs_of

    if other_image and not inverse:
        raise InvalidValueError("--other-image is for --inverse; a map may be applied to any image")
    subjects = typed_subjects(image, mask=() if mask is None else (mask,))
    if len(subjects) != 1:
        raise InvalidValueError(
            f"{len(image)} images: a map is applied to one at a time, or to the channels of one "
            f"subject, each as NAME=IMAGE"
        )
    (subject,) = subjects
    folder, (files,) = outputs_of(subjects, output)
    read_map(map, subject.channels)  # refuses the wrong one before any work
    arguments = {
        "subject": subject,
        "imap": map,
        "inverse": inverse,
        "other_image": other_image,
        "outputs": files,
        "options": Options(**shared.chosen(options, "write", "read")),
        "command": command_line(),
    }
    tasks, outputs = [Task(subject.path, arguments)], [*files.values()]
    code, _ = run_scans("apply", apply_map, tasks, verbosity, folder=folder, files=outputs)
    return code
