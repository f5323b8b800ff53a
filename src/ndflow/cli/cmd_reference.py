"""``ndflow reference``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ndflow.cli.options import (
    METHOD,
    DryRun,
    Excludes,
    FittingOptions,
    Force,
    Jobs,
    Masks,
    Output,
    ReadingOptions,
    TissueFiles,
    Verbosity,
    VerbosityOptions,
)
from ndflow.settings import Average, Fitting, Lesions, Matching, Method, Reading

__all__ = ["reference"]


def reference(
    sources: Annotated[tuple[str, ...], Parameter(metavar="MODEL_OR_IMAGE...")],
    /,
    *,
    output: Output,
    mask: Masks = (),
    exclude: Excludes = (),
    csf: TissueFiles = (),
    gm: TissueFiles = (),
    wm: TissueFiles = (),
    weights: Annotated[tuple[float, ...], Parameter(metavar="W...", consume_multiple=1)] = (),
    channel: Annotated[str, Parameter(metavar="NAME")] = "intensity",
    average: Annotated[Average, Parameter(group=METHOD)] = "density",
    lesions: Annotated[Lesions | None, Parameter(group=METHOD)] = None,
    method: Annotated[Method, Parameter(group=METHOD)] = "ndflow",
    landmarks: Annotated[int, Parameter(metavar="N", group=METHOD)] = Matching().landmarks,
    fitting: FittingOptions = Fitting(),
    force: Force = False,
    reading: ReadingOptions = Reading(),
    jobs: Jobs = 1,
    dry_run: DryRun = False,
    talk: VerbosityOptions = Verbosity(),
) -> int:
    """Average the densities of scans: what others can be brought to.

    Example: `ndflow reference mixtures/*.json --channel T1w -o reference.json`

    Parameters
    ----------
    sources
        Mixtures (.json) from `ndflow fit`, or images, or both.
    output
        The reference (.json).
    mask
        The mask of each image, in order; or `auto`, to find the foreground. Mixtures have none.
        Default: all voxels but 0.
    exclude
        For each image, voxels that the estimate does not see, such as a lesion.
    csf
        For each image, a map of the probability of fluid. With the two below, and where all
        mixtures know their tissues too, the reference knows tissues: for --target tissue.
    gm
        The same of grey matter.
    wm
        The same of white matter.
    weights
        How much each scan counts, in order. Default: all the same.
    channel
        What the images show, for example T1w.
    average
        The mean of the densities, as in the paper; or of the quantiles, which keeps peaks sharp.
    lesions
        The scans are healthy: keep what they have at most, so that `--lesions auto` of other
        commands finds what others have beyond that. Twenty scans or more.
    method
        What the reference is for: some methods look at landmarks beside the density.
    landmarks
        How many percentiles nyul joins.
    """
    from ndflow.cli.console import print_error, print_warning
    from ndflow.cli.run_scans import dry_run_scans, run_scans
    from ndflow.errors import InvalidValueError
    from ndflow.scan.model_files import check_model, is_model
    from ndflow.scan.outputs import one_each
    from ndflow.scan.reference_file import density_of, lacks_tissues, write_reference
    from ndflow.scan.tissue_maps import maps_each
    from ndflow.study.parallel.tasks import Task

    if weights and len(weights) != len(sources):
        raise InvalidValueError(
            f"--weights: {len(weights)} given for {len(sources)} scans; give one for each, in order"
        )
    matching = Matching(method=method, landmarks=landmarks)
    images = [source for source in sources if not is_model(source)]
    if not images and fitting != Fitting():
        raise InvalidValueError("--effective-count: there is no image whose density is estimated")
    masks = one_each(mask, images, "--mask")
    excludes = one_each(exclude, images, "--exclude")
    maps = maps_each(csf, gm, wm, images)
    shared: dict[str, Any] = {"reading": reading, "fitting": fitting, "matching": matching}
    if dry_run:
        check = partial(check_model, force=force)
        for source in filter(is_model, sources):
            density_of(source, mask=None, exclude=None, **shared)
        files = (*sources, *masks, *excludes, *csf, *gm, *wm)
        return dry_run_scans([(files, Path(output))], check=check, talk=talk)
    check_model(output, sources, force=force)
    of_images = zip(masks, excludes, maps, strict=True)
    tasks = []
    for source in sources:
        inside, lesion, own = (None, None, None) if is_model(source) else next(of_images)
        arguments = {"source": source, "mask": inside, "exclude": lesion, "maps": own, **shared}
        tasks.append(Task(source, arguments))
    code, outcomes = run_scans("fit", density_of, tasks, talk=talk, jobs=jobs)
    if code:
        print_error(f"{output}: no reference was written, because it would lack some of its scans")
        return 2
    densities = [outcome.result for outcome in outcomes]
    lacking = lacks_tissues(sources, densities)
    if lacking and not talk.quiet:
        print_warning(f"{lacking}: its tissues are not known, so the reference knows none")
    if lesions and len(densities) < 20 and not talk.quiet:
        print_warning(
            f"{output}: {len(densities)} scans hardly tell what is healthy; use 20 or more"
        )
    write_reference(
        output,
        sources,
        densities,
        weights=weights or None,
        average=average,
        channel=channel,
        force=force,
        lesions=lesions is not None,
    )
    return 0
