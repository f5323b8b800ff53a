"""``ndflow apply``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import (
    DryRun,
    Output,
    ReadingOptions,
    Verbosity,
    VerbosityOptions,
    WritingOptions,
)
from ndflow.settings import Reading, Writing

__all__ = ["apply"]


def apply(
    image: Annotated[str, Parameter(metavar="IMAGE")],
    /,
    *,
    map: Annotated[str, Parameter(metavar="FILE")],
    output: Output,
    inverse: bool = False,
    mask: Annotated[str | None, Parameter(metavar="FILE|auto")] = None,
    writing: WritingOptions = Writing(),
    reading: ReadingOptions = Reading(),
    dry_run: DryRun = False,
    talk: VerbosityOptions = Verbosity(),
) -> int:
    """Apply a saved map to an image, or undo it.

    Example: `ndflow apply out.nii.gz --map out.json --inverse -o back.nii.gz`

    Parameters
    ----------
    image
        The image: .nii, .nii.gz, .hdr/.img, .mgz or .mgh.
    map
        The map (.json), such as the record beside a normalised image.
    output
        The new image.
    inverse
        Undo the map.
    mask
        What counts as inside, see --outside; or `auto`, to find the foreground. Default: all
        voxels but 0.
    """
    from ndflow.cli.run_scans import command_line, dry_run_scans, run_scans
    from ndflow.scan.apply import apply_map
    from ndflow.scan.model_files import load_map
    from ndflow.scan.outputs import outputs_for
    from ndflow.scan.results import check_result
    from ndflow.study.parallel.tasks import Task

    outputs = outputs_for([image], output, lambda image: Path(image).name)
    (file,) = outputs.files
    if dry_run:
        load_map(map)
        new = outputs.folder is not None
        plan = [((image, map, mask), file)]
        check = partial(check_result, writing=writing)
        return dry_run_scans(plan, check=check, talk=talk, new_folder=new)
    arguments = {
        "image": image,
        "imap": map,
        "inverse": inverse,
        "mask": mask,
        "output": file,
        "reading": reading,
        "writing": writing,
        "command": command_line(),
    }
    code, _ = run_scans(
        "apply", apply_map, [Task(image, arguments)], talk=talk, folder=outputs.folder
    )
    return code
