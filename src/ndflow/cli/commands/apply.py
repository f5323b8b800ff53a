"""``ndflow apply``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import (
    INPUT,
    ApplyOptions,
    Expert,
    Output,
    Verbosity,
    VerbosityOptions,
    chosen,
)


def apply(
    image: Annotated[tuple[str, ...], Parameter(metavar="IMAGE|NAME=IMAGE...")],
    /,
    *,
    map: Annotated[str, Parameter(metavar="FILE", group=INPUT)],
    inverse: Annotated[bool, Parameter(group=INPUT)] = False,
    other_image: Annotated[bool, Parameter(group=INPUT)] = False,
    mask: Annotated[str | None, Parameter(metavar="FILE|auto|brain", group=INPUT)] = None,
    output: Output,
    options: ApplyOptions = None,
    expert: Expert = (),
    verbosity: VerbosityOptions = Verbosity(),
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
    from ndflow.cli.arguments import typed_subjects
    from ndflow.cli.run import command_line, print_written, run_scans
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
        "options": Options(**chosen(options, expert, "write", "read")),
        "command": command_line(),
    }
    code, outcomes = run_scans(
        "apply", apply_map, [Task(subject.path, arguments)], verbosity=verbosity, folder=folder
    )
    print_written([*files.values()], folder, outcomes, verbosity)
    return code
