"""``ndflow apply``."""

from __future__ import annotations

from pathlib import Path
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
    from ndflow.cli.arguments import are_channels, typed_subject
    from ndflow.cli.run import command_line, print_written, run_scans
    from ndflow.errors import InvalidValueError
    from ndflow.image.subject import Scan
    from ndflow.options import Options
    from ndflow.study.tasks import Task
    from ndflow.subject.apply import apply_map
    from ndflow.subject.outputs import outputs_for

    if other_image and not inverse:
        raise InvalidValueError("--other-image is for --inverse; a map may be applied to any image")
    settled = Options(**chosen(options, expert, "write", "read"))
    if are_channels(image):
        from ndflow.cli.channel_runs import apply_channels

        return apply_channels(
            typed_subject(image, mask=() if mask is None else (mask,)),
            map,
            output,
            inverse=inverse,
            other_image=other_image,
            options=settled,
            verbosity=verbosity,
        )
    if len(image) != 1:
        raise InvalidValueError(
            f"{len(image)} images: a map is applied to one at a time, or to the channels of one "
            f"subject, each as NAME=IMAGE"
        )
    outputs = outputs_for(image, output, lambda image: Path(image).name)
    (file,) = outputs.files
    arguments = {
        "scan": Scan(image[0], mask),
        "imap": map,
        "inverse": inverse,
        "other_image": other_image,
        "output": file,
        "options": settled,
        "command": command_line(),
    }
    code, outcomes = run_scans(
        "apply", apply_map, [Task(image[0], arguments)], verbosity=verbosity, folder=outputs.folder
    )

    print_written(outputs, outcomes, verbosity)
    return code
