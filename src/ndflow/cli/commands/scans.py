"""Commands for scans that are named one by one: normalise, apply, fit and reference."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ndflow.cli import options as shared
from ndflow.cli.console import Verbosity, command_line, print_error
from ndflow.cli.options import INPUT, MATCHING, OUTPUT
from ndflow.errors import InvalidValueError
from ndflow.options import MethodName, Options, typed_options


def normalise(
    images: shared.Images,
    /,
    *,
    to: Annotated[str, Parameter(metavar="TARGET", group=MATCHING)],
    to_mask: Annotated[str | None, Parameter(metavar="FILE|auto|brain", group=MATCHING)] = None,
    given: Annotated[shared.ScanOptions, shared.FLAT] = shared.ScanOptions(),
    joint: shared.Joint = False,
    preset: shared.Preset = "auto",
    output: shared.Output,
    report: Annotated[str | None, Parameter(metavar="FILE.html", group=OUTPUT)] = None,
    options: shared.MatchOptions = None,
    jobs: shared.Jobs = 1,
    verbosity: shared.VerbosityOptions = Verbosity(),
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
        The scans: .nii, .nii.gz, .mgz or .mgh; or two to four channels of one subject,
        each as NAME=IMAGE, which share a grid and one --mask.
    to
        The target: a reference or a mixture (.json), or an image; or `builtin:T1w`, a reference of
        35 healthy adults that comes with ndflow (docs/reference/builtin.md says what it is not
        for). For channels, a reference or mixtures of the same channels.
    output
        The file to write; or a folder, for several scans or channels.
    report
        A report to write: slices before and after, curves and warnings of each image. Not with
        --joint.
    to_mask
        The brain mask of a target that is an image; or `brain` or `auto`. Default: all nonzero
        voxels.
    joint
        Bring all channels to a joint reference together, so that their dependence on each other
        becomes that of the reference too. Default: each channel by itself.
    """
    from ndflow.cli.scans import quality, run_scans, typed_subjects
    from ndflow.study.tasks import Task
    from ndflow.subject.normalise import find_matches, normalise_subject, outputs_of
    from ndflow.subject.presets import Choices

    typed = typed_options(options, "match", "fit", "write", "read")
    force = bool(typed.get("force"))
    if report is not None:
        from ndflow.reporting.build import check_report
        from ndflow.reporting.results_page import check_results_page, write_results_page

        check_report()
        if joint:
            raise InvalidValueError("--report shows one channel at a time; leave out --joint")
        check_results_page(report, force=force)
    choices = Choices(preset, typed)
    subjects = typed_subjects(images, given, joint=joint)
    matches = find_matches(subjects, to, to_mask, choices, joint=joint)
    folder, files = outputs_of([one.subject for one in matches], output)
    outputs = [file for own in files for file in own.values()]
    same = {"command": command_line(), "report": report is not None}
    tasks = [
        Task(one.subject.path, {"match": one, "outputs": own, **same})
        for one, own in zip(matches, files, strict=True)
    ]
    code, outcomes = run_scans(
        "normalise", normalise_subject, tasks, verbosity, jobs=jobs, folder=folder, files=outputs
    )
    if done := [one for outcome in outcomes for one in (outcome.result or {}).values()]:
        doubts = [f"{one.target.name}: {doubt}" for one in matches for doubt in one.target.doubts]
        for doubt in dict.fromkeys(doubts):
            verbosity.warn(doubt)
        said = quality([one.record for one in done])
        verbosity.say(f"quality: {said}")
        if report is not None:
            write_results_page(report, done, f"{said[:1].upper()}{said[1:]}.", force=force)
            verbosity.say(f"wrote {report}")
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
    verbosity: shared.VerbosityOptions = Verbosity(),
) -> int:
    """Apply a saved intensity map to an image, or undo it.

    Example: `ndflow apply out.nii.gz --map out.json --inverse -o back.nii.gz`

    A joint map: `ndflow apply T1w=a.nii.gz FLAIR=b.nii.gz --map OUT/a.json --inverse -o BACK/`

    Parameters
    ----------
    image
        The image: .nii, .nii.gz, .mgz or .mgh; or, for a joint map, all its channels,
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
    from ndflow.cli.scans import run_scans, typed_subjects
    from ndflow.study.tasks import Task
    from ndflow.subject.normalise import apply_map, outputs_of

    if other_image and not inverse:
        raise InvalidValueError("--other-image is for --inverse; a map may be applied to any image")
    subjects = typed_subjects(image, shared.ScanOptions(() if mask is None else (mask,)))
    if len(subjects) != 1:
        raise InvalidValueError(f"{len(image)} images; give one, or channels as NAME=IMAGE")
    (subject,) = subjects
    folder, (files,) = outputs_of(subjects, output)
    settings = Options(**typed_options(options, "write", "read"))
    what = {"subject": subject, "imap": map, "inverse": inverse, "other_image": other_image}
    arguments = {**what, "outputs": files, "options": settings, "command": command_line()}
    tasks, outputs = [Task(subject.path, arguments)], [*files.values()]
    code, _ = run_scans("apply", apply_map, tasks, verbosity, folder=folder, files=outputs)
    return code


def fit(
    images: shared.Images,
    /,
    *,
    output: shared.Output,
    given: Annotated[shared.ScanOptions, shared.FLAT] = shared.ScanOptions(),
    joint: shared.Joint = False,
    options: shared.FitOptions = None,
    jobs: shared.Jobs = 1,
    verbosity: shared.VerbosityOptions = Verbosity(),
) -> int:
    """Estimate the densities of scans, as Gaussian mixtures.

    A mixture is about 5 kB of JSON. It contains neither file names nor voxels, so it can go where
    the scan may not: `ndflow reference` averages mixtures from several hospitals.

    Example: `ndflow fit scan1.nii.gz scan2.nii.gz --mask brain1.nii.gz brain2.nii.gz -o mixtures`

    Several channels of one subject: `ndflow fit T1w=a.nii.gz FLAIR=b.nii.gz -o subject.json`

    Parameters
    ----------
    images
        The scans: .nii, .nii.gz, .mgz or .mgh; or two to four channels of one subject,
        each as NAME=IMAGE, which share a grid and one --mask.
    output
        The file to write (.json); or a folder, for several scans. Channels go to one file.
    joint
        Estimate one joint density of all channels. Default: one of each channel.
    """
    from ndflow.cli.scans import run_scans, typed_subjects
    from ndflow.files.outputs import outputs_for, stem
    from ndflow.study.tasks import Task
    from ndflow.subject.fit import check_fit, fit_to_file

    settings = Options(**typed_options(options, "fit", "read"))
    subjects = typed_subjects(images, given, joint=joint)
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
    given: Annotated[shared.ScanOptions, shared.FLAT] = shared.ScanOptions(),
    weights: Annotated[tuple[float, ...], shared.several("W...")] = (),
    channel: Annotated[str | None, Parameter(metavar="NAME", group=INPUT)] = None,
    method: Annotated[MethodName, Parameter(metavar="CHOICE", group=MATCHING)] = Options.method,
    options: shared.FitOptions = None,
    jobs: shared.Jobs = 1,
    verbosity: shared.VerbosityOptions = Verbosity(),
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
    weights
        The weight of each scan, in the same order. Default: equal weights.
    channel
        The contrast of the images, such as T1w, which the reference records. Default: intensity;
        files of several channels know theirs.
    method
        The method that the reference is for; some need landmarks besides the density.
    """
    from ndflow.cli.scans import run_scans, typed_subjects
    from ndflow.files.model_files import check_model, is_model
    from ndflow.files.outputs import refuse_given_twice
    from ndflow.image.subject import ANY_CHANNEL, Subject
    from ndflow.methods.base import method_of
    from ndflow.study.tasks import Task
    from ndflow.subject.doubts import reference_doubts
    from ndflow.subject.reference import read_source, write_reference
    from ndflow.values import listed, plural

    if weights and len(weights) != len(sources):  # before the images are fitted
        raise InvalidValueError(f"--weights: {len(weights)} for {len(sources)} scans; give as many")
    refuse_given_twice(sources)
    typed = typed_options(options, "average", "fit", "match", "read")
    settings = Options(method=method, **typed)
    method_of(settings)
    images = [source for source in sources if not is_model(source)]
    found = typed_subjects(images, given)
    if any(len(one.images) > 1 for one in found):
        raise InvalidValueError(f"{images[0]}: run ndflow fit on the channels of each subject")
    of_images = iter(found)
    scans = [Subject({ANY_CHANNEL: one}) if is_model(one) else next(of_images) for one in sources]
    check_model(output, sources, force=settings.force)
    tasks = [Task(scan.path, {"subject": scan, "options": settings}) for scan in scans]
    code, outcomes = run_scans("fit", read_source, tasks, verbosity, jobs=jobs)
    if code:
        print_error(f"{output}: no reference was written, because some of its scans failed")
        return 2
    models = [outcome.result for outcome in outcomes]
    channels = models[0].channel_names
    if channel and channels:
        raise InvalidValueError("--channel: the files say this themselves; leave it out")
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
    for doubt in reference_doubts(len(models)):
        verbosity.warn(f"{output}: {doubt}")
    what = f" of {listed(channels)}" if channels else ""
    verbosity.say(f"wrote {output}, the average{what} of {plural(len(models), 'scan')}")
    return 0
