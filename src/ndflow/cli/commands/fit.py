"""``ndflow fit``."""

from __future__ import annotations

from ndflow.cli.options import (
    Excludes,
    Expert,
    Force,
    Images,
    Jobs,
    Joint,
    Masks,
    Output,
    TissueMapFiles,
    Verbosity,
    VerbosityOptions,
    chosen,
)
from ndflow.options import Options


def fit(
    images: Images,
    /,
    *,
    output: Output,
    mask: Masks = (),
    exclude: Excludes = (),
    tissue_maps: TissueMapFiles = (),
    joint: Joint = False,
    force: Force = False,
    expert: Expert = (),
    jobs: Jobs = 1,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Estimate the densities of scans, as Gaussian mixtures.

    A mixture is about 5 kB of JSON. It contains neither file names nor voxels, so it can go where
    the scan may not: `ndflow reference` averages mixtures from several hospitals.

    Example: `ndflow fit scan1.nii.gz scan2.nii.gz --mask brain1.nii.gz brain2.nii.gz -o mixtures`

    Several channels of one subject: `ndflow fit T1w=a.nii.gz FLAIR=b.nii.gz -o subject.json`

    Parameters
    ----------
    images
        The scans: .nii, .nii.gz, .hdr/.img, .mgz or .mgh; or two to four channels of one subject,
        each as NAME=IMAGE, which share a grid and one --mask.
    output
        The file to write (.json); or a folder, for several scans. Channels go to one file.
    mask
        The brain mask of each scan, in the same order; or `brain` to find the brains in T1w images
        (requires pip install 'ndflow[prepare]'), or `auto` to find the foreground. Default:
        `nonzero`, all nonzero voxels.
    exclude
        For each scan, a mask of voxels to leave out of the estimate, such as a lesion; `none` for
        a scan without one. Default: none.
    joint
        Estimate one joint density of all channels. Default: one of each channel.
    """
    from ndflow.cli.arguments import typed_subjects
    from ndflow.cli.run import print_written, run_scans
    from ndflow.files.outputs import outputs_for, stem
    from ndflow.study.tasks import Task
    from ndflow.subject.fit import check_fit, fit_to_file

    settings = Options(**chosen(None, expert, "fit", "read"))
    subjects = typed_subjects(
        images, mask=mask, exclude=exclude, tissue_maps=tissue_maps, joint=joint
    )
    for subject in subjects:
        check_fit(subject, joint=joint)
    # All channels of a subject go to one file.
    paths = [subject.path for subject in subjects]
    folder, files = outputs_for(paths, output, lambda image: f"{stem(image)}.json")
    shared = {"joint": joint, "force": force, "options": settings}
    tasks = [
        Task(subject.path, {"subject": subject, "output": file, **shared})
        for subject, file in zip(subjects, files, strict=True)
    ]
    code, outcomes = run_scans(
        "fit", fit_to_file, tasks, verbosity=verbosity, jobs=jobs, folder=folder
    )
    print_written(files, folder, outcomes, verbosity, what="mixture", sidecars=False)
    return code
