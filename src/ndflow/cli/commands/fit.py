"""``ndflow fit`` and ``ndflow reference``, from scans to densities."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli import options as shared
from ndflow.cli.options import INPUT, MATCHING
from ndflow.options import MethodName, Options


def fit(
    images: shared.Images,
    /,
    *,
    output: shared.Output,
    mask: shared.Masks = (),
    exclude: shared.Excludes = (),
    tissue_maps: shared.TissueMapFiles = (),
    joint: shared.Joint = False,
    options: shared.FitOptions = None,
    jobs: shared.Jobs = 1,
    verbosity: shared.VerbosityOptions = shared.Verbosity(),
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
        (requires the extra `prepare`), or `auto` to find the foreground. Default:
        `nonzero`, all nonzero voxels.
    exclude
        For each scan, a mask of voxels to leave out of the estimate, such as a lesion; `none` for
        a scan without one. Default: none.
    joint
        Estimate one joint density of all channels. Default: one of each channel.
    """
    from ndflow.cli.scans import run_scans, typed_subjects
    from ndflow.files.outputs import outputs_for, stem
    from ndflow.study.tasks import Task
    from ndflow.subject.fit import check_fit, fit_to_file

    settings = Options(**shared.chosen(options, "fit", "read"))
    subjects = typed_subjects(
        images, mask=mask, exclude=exclude, tissue_maps=tissue_maps, joint=joint
    )
    for subject in subjects:
        check_fit(subject, joint=joint)
    # All channels of a subject go to one file.
    paths = [subject.path for subject in subjects]
    folder, files = outputs_for(paths, output, lambda image: f"{stem(image)}.json")
    same = {"joint": joint, "force": settings.force, "options": settings}
    tasks = [
        Task(subject.path, {"subject": subject, "output": file, **same})
        for subject, file in zip(subjects, files, strict=True)
    ]
    code, _ = run_scans("fit", fit_to_file, tasks, verbosity, jobs=jobs, folder=folder, files=files)
    return code


def reference(
    sources: Annotated[tuple[str, ...], Parameter(metavar="MODEL_OR_IMAGE...")],
    /,
    *,
    output: shared.Output,
    mask: shared.Masks = (),
    exclude: shared.Excludes = (),
    tissue_maps: shared.TissueMapFiles = (),
    weights: Annotated[
        tuple[float, ...], Parameter(metavar="W...", consume_multiple=1, group=INPUT)
    ] = (),
    joint: shared.Joint = False,
    channel: Annotated[str | None, Parameter(metavar="NAME", group=INPUT)] = None,
    method: Annotated[MethodName, Parameter(metavar="CHOICE", group=MATCHING)] = Options.method,
    options: shared.FitOptions = None,
    jobs: shared.Jobs = 1,
    verbosity: shared.VerbosityOptions = shared.Verbosity(),
) -> int:
    """Average the densities of scans into a reference, to which others can be normalised.

    Example: `ndflow reference mixtures/*.json --channel T1w -o reference.json`

    Parameters
    ----------
    sources
        Mixtures (.json) from `ndflow fit`, or images, or both. Files of several channels give a
        reference of these channels, joint if they are joint.
    output
        The file to write (.json).
    mask
        The brain mask of each image, in the same order, not counting mixtures; or `brain` to find
        the brains in T1w images (requires the extra `prepare`), or `auto` to find the
        foreground. Default: `nonzero`, all nonzero voxels.
    exclude
        For each image, a mask of voxels to leave out of the estimate, such as a lesion; `none` for
        an image without one. Default: none.
    weights
        The weight of each scan, in the same order. Default: equal weights.
    joint
        Accept nothing but joint mixtures, from `ndflow fit --joint`. Default: what the files are.
    channel
        The contrast of the images, such as T1w, which the reference records. Default: intensity;
        files of several channels know theirs.
    method
        The method that the reference is for; some need landmarks besides the density.
    """
    from ndflow.cli.console import print_error
    from ndflow.cli.scans import channel_file, run_scans, typed_subjects
    from ndflow.errors import FileError, InvalidValueError
    from ndflow.files.model_files import check_model, is_model
    from ndflow.files.outputs import refuse_given_twice
    from ndflow.image.subject import Subject
    from ndflow.methods.base import method_of
    from ndflow.study.tasks import Task
    from ndflow.subject.reference import lacking_tissues, read_source, write_reference
    from ndflow.values import listed, plural

    if weights and len(weights) != len(sources):  # before the images are fitted
        raise InvalidValueError(
            f"--weights: {len(weights)} given for {len(sources)} scans; give one for each, in order"
        )
    refuse_given_twice(sources)
    typed = shared.chosen(options, "average", "fit", "match", "read")
    settings = Options(method=method, **typed)
    method_of(settings)
    if word := next(filter(channel_file, sources), None):
        raise InvalidValueError(
            f"{word}: a reference of several channels is made from one file per subject; first run "
            f"ndflow fit T1w=FILE FLAIR=FILE -o subject.json for each"
        )
    images = [source for source in sources if not is_model(source)]
    if not images and "effective_count" in typed:
        raise InvalidValueError(
            "--set effective-count: no density is estimated from an image; leave it out"
        )
    of_images = iter(typed_subjects(images, mask=mask, exclude=exclude, tissue_maps=tissue_maps))
    scans = [
        Subject(source) if is_model(source) else next(of_images)  # type: ignore[arg-type]
        for source in sources
    ]
    check_model(output, sources, force=settings.force)
    tasks = [Task(scan.path, {"subject": scan, "options": settings}) for scan in scans]
    code, outcomes = run_scans("fit", read_source, tasks, verbosity, jobs=jobs)
    if code:
        print_error(f"{output}: no reference was written, because some of its scans failed")
        return 2
    models = [outcome.result for outcome in outcomes]
    first = models[0]
    if joint and not first.joint:
        cause = "not a joint density"
        hint = "leave out --joint, or run ndflow fit T1w=FILE FLAIR=FILE --joint for each subject"
        raise FileError(sources[0], cause, hint)
    if channel and first.channel_names:
        raise InvalidValueError("--channel: the files say this themselves; leave it out")
    lacking = lacking_tissues(sources, models)
    if lacking:
        verbosity.warn(f"{lacking}: its tissues are unknown, so the reference has no tissues")
    write_reference(
        output,
        sources,
        models,
        settings,
        weights=weights or None,
        average=typed.get("average"),
        channel=channel,
        force=settings.force,
    )
    what = f" of {listed(first.channel_names)}" if first.channel_names else ""
    verbosity.say(f"wrote {output}, the average{what} of {plural(len(models), 'scan')}")
    return 0
