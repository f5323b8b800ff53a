"""``ndflow fit``."""

from __future__ import annotations

from functools import partial

from ndflow.cli.options import (
    DryRun,
    Excludes,
    FittingOptions,
    Force,
    Images,
    Jobs,
    Masks,
    Output,
    ReadingOptions,
    TissueFiles,
    Verbosity,
    VerbosityOptions,
)
from ndflow.settings import Fitting, Reading

__all__ = ["fit"]


def fit(
    images: Images,
    /,
    *,
    output: Output,
    mask: Masks = (),
    exclude: Excludes = (),
    csf: TissueFiles = (),
    gm: TissueFiles = (),
    wm: TissueFiles = (),
    fitting: FittingOptions = Fitting(),
    force: Force = False,
    reading: ReadingOptions = Reading(),
    jobs: Jobs = 1,
    dry_run: DryRun = False,
    talk: VerbosityOptions = Verbosity(),
) -> int:
    """Estimate the density of scans, as a Gaussian mixture.

    A mixture is about a kilobyte of JSON. It names no file, and no voxel can be read from it, so
    it can go where the scan may not: `ndflow reference` averages mixtures of several hospitals.

    Example: `ndflow fit scan1.nii.gz scan2.nii.gz --mask brain1.nii.gz brain2.nii.gz -o mixtures`

    Parameters
    ----------
    images
        The scans: .nii, .nii.gz, .hdr/.img, .mgz or .mgh.
    output
        A file (.json); or a folder, for several scans.
    mask
        The mask of each scan, in order; or `auto`, to find the foreground. Default: all voxels
        but 0.
    exclude
        For each scan, voxels that the estimate does not see, such as a lesion.
    csf
        For each scan, a map of the probability of fluid. With the two below, the densities and
        proportions of tissues are written too, for references that know them.
    gm
        The same of grey matter.
    wm
        The same of white matter.
    """
    from ndflow.cli.run_scans import dry_run_scans, run_scans, scan_files
    from ndflow.scan.fit import fit_to_file
    from ndflow.scan.model_files import check_model
    from ndflow.scan.outputs import outputs_for
    from ndflow.scan.results import stem
    from ndflow.scan.tissue_maps import maps_each

    outputs = outputs_for(images, output, lambda image: f"{stem(image)}.json")
    maps = maps_each(csf, gm, wm, images)
    scans = scan_files(images, outputs.files, mask, exclude, maps)
    if dry_run:
        check = partial(check_model, force=force)
        new = outputs.folder is not None
        plan = [(scan.inputs, scan.output) for scan in scans]
        return dry_run_scans(plan, check=check, talk=talk, new_folder=new)
    tasks = [scan.task(force=force, reading=reading, fitting=fitting) for scan in scans]
    code, _ = run_scans("fit", fit_to_file, tasks, talk=talk, jobs=jobs, folder=outputs.folder)
    return code
