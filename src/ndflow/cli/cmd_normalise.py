"""``ndflow normalise``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import (
    DryRun,
    Excludes,
    FittingOptions,
    Images,
    Jobs,
    Masks,
    MatchingOptions,
    Output,
    ReadingOptions,
    TissueFiles,
    Verbosity,
    VerbosityOptions,
    WritingOptions,
)
from ndflow.settings import Fitting, Matching, Reading, Writing

__all__ = ["normalise"]


def normalise(
    images: Images,
    /,
    *,
    to: Annotated[str, Parameter(metavar="TARGET")],
    output: Output,
    mask: Masks = (),
    to_mask: Annotated[str | None, Parameter(metavar="FILE|auto")] = None,
    exclude: Excludes = (),
    csf: TissueFiles = (),
    gm: TissueFiles = (),
    wm: TissueFiles = (),
    matching: MatchingOptions = Matching(),
    fitting: FittingOptions = Fitting(),
    writing: WritingOptions = Writing(),
    reading: ReadingOptions = Reading(),
    jobs: Jobs = 1,
    dry_run: DryRun = False,
    talk: VerbosityOptions = Verbosity(),
) -> int:
    """Bring scans to a reference, or to another scan.

    The density of each scan is estimated inside its mask, moved onto the target's, and the voxels
    go along. Beside each result a record is written, OUT.json for OUT.nii.gz; it holds the map,
    for `ndflow apply`.

    Example: `ndflow normalise scan.nii.gz --mask brain.nii.gz --to reference.json -o out.nii.gz`

    Parameters
    ----------
    images
        The scans: .nii, .nii.gz, .hdr/.img, .mgz or .mgh.
    to
        A reference or a mixture (.json), or an image.
    output
        A file; or a folder, for several scans.
    mask
        The mask of each scan, in order; or `auto`, to find the foreground. Default: all voxels
        but 0.
    to_mask
        The same for a target image.
    exclude
        For each scan, voxels that the estimate does not see, such as a lesion. They are mapped
        like the others.
    csf
        For each scan, a map of the probability of fluid; for --target tissue, with the two below.
    gm
        The same of grey matter.
    wm
        The same of white matter.
    """
    from ndflow.cli.run_scans import command_line, dry_run_scans, run_scans, scan_files
    from ndflow.scan.model_files import is_model
    from ndflow.scan.normalise import normalise_scan
    from ndflow.scan.outputs import outputs_for
    from ndflow.scan.results import check_result
    from ndflow.scan.target import (
        in_units,
        read_target,
        refuse_coarse,
        refuse_image,
        refuse_other_units,
    )
    from ndflow.scan.tissue_maps import check_maps, maps_each
    from ndflow.transport import check_rules

    refuse_other_units(matching)
    refuse_image(to, matching)
    check_rules(matching.freeze)
    outputs = outputs_for(images, output, lambda image: Path(image).name)
    maps = maps_each(csf, gm, wm, images)
    check_maps(maps[0] if maps else None, matching)
    scans = scan_files(images, outputs.files, mask, exclude, maps)
    if dry_run:
        if is_model(to):
            target = read_target(to, to_mask, matching=matching)
            refuse_coarse(in_units(target, matching).mixture, writing)
        new = outputs.folder is not None
        plan = [((*scan.inputs, to, to_mask), scan.output) for scan in scans]
        check = partial(check_result, writing=writing)
        return dry_run_scans(plan, check=check, talk=talk, new_folder=new)
    target = read_target(to, to_mask, reading, fitting, matching)
    refuse_coarse(in_units(target, matching).mixture, writing)  # once, for all
    shared = {
        "target": target,
        "reading": reading,
        "fitting": fitting,
        "matching": matching,
        "writing": writing,
        "command": command_line(),
    }
    tasks = [scan.task(**shared) for scan in scans]
    code, _ = run_scans(
        "normalise", normalise_scan, tasks, talk=talk, jobs=jobs, folder=outputs.folder
    )
    return code
