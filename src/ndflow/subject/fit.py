"""The density of a scan, also in a file of its own, which may go where the scan may not.

Such a file names neither the scan nor the folder it lies in. That it was made from a certain image
can be shown by the SHA-256 of the image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np

from ndflow import density
from ndflow.density import Fit, GaussianMixture, Histogram, trimmed
from ndflow.doubt import Doubt
from ndflow.errors import InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import Hashes, contents
from ndflow.files.model_files import check_model
from ndflow.image.mask_doubts import MaskFigures, mask_doubts, measure_mask
from ndflow.image.read import Source
from ndflow.image.subject import Scan
from ndflow.methods.base import DensityModel, method_of
from ndflow.options import Options
from ndflow.subject.channels import Subject, check_grids, check_separate, said
from ndflow.subject.doubts import VoxelQuantiles, fit_doubts
from ndflow.subject.records import JointModel, ScanModel, ScanModels
from ndflow.subject.tissue_maps import tissues_of
from ndflow.subject.voxels import (
    EVIDENCE,
    ScanVoxels,
    SubjectVoxels,
    error_about,
    read_scan,
    read_subject,
    selection,
)


class FittedScan(NamedTuple):
    """What was estimated from the voxels of a scan.

    Attributes
    ----------
    fit : its density.
    model : the density with whatever else the method needs to know.
    warnings : for the user.
    files : that were read, with their hashes.
    misfit : the largest difference between the distribution functions of histogram and mixture.
    mask : what was measured about its mask.
    doubts : what to check by eye.
    """

    fit: Fit
    model: DensityModel
    warnings: tuple[str, ...]
    files: Hashes
    misfit: float
    mask: MaskFigures
    doubts: tuple[Doubt, ...]


class FitOptions(TypedDict, total=False):
    """The keywords of `fit`, but `joint`, for type checkers."""

    mask: Source | None
    exclude: Source | None
    effective_count: float
    concentration: float
    concentration_prior: tuple[float, float] | None
    truncation: int
    prior_strength: float
    tolerance: float
    start: GaussianMixture | None
    max_bytes: int


@overload
def fit(data: Histogram | Source, **options: Unpack[FitOptions]) -> Fit: ...


@overload
def fit(
    data: Mapping[str, Source], *, joint: Literal[True], **options: Unpack[FitOptions]
) -> Fit: ...


@overload
def fit(
    data: Mapping[str, Source], *, joint: Literal[False] = False, **options: Unpack[FitOptions]
) -> dict[str, Fit]: ...


def fit(
    data: Histogram | Source | Mapping[str, Source],
    *,
    joint: bool = False,
    mask: Source | None = None,
    exclude: Source | None = None,
    effective_count: float = Options.effective_count,
    concentration: float = 2.0,
    concentration_prior: tuple[float, float] | None = None,
    truncation: int = 20,
    prior_strength: float = 0.1,
    tolerance: float = 1e-2,
    start: GaussianMixture | None = None,
    max_bytes: int = Options.max_bytes,
) -> Fit | dict[str, Fit]:
    """Fit a Dirichlet-process Gaussian mixture to a histogram or an image.

    Parameters
    ----------
    data : a histogram; or an image: a path, a nibabel image, or an array; or several channels of
        one subject: a dictionary of images by name, such as ``{"T1w": …, "FLAIR": …}``.
    joint : fit one joint density to several channels, not one to each.
    mask : of an image, like the image; or what to find: ``"auto"``, the foreground, or ``"brain"``,
        the brain in a T1w image. Default: all voxels but 0.
    exclude : a mask of voxels of an image that the fit does not see, such as a lesion.
    effective_count : how many independent voxels the data are worth at most; ten times as many with
        `joint`.
    concentration : α of the Dirichlet process; larger values expect more components.
    concentration_prior : shape and rate of a Gamma prior on α, which is then inferred.
    truncation : the largest possible number of components.
    prior_strength : κ0, how many voxels the prior mean is worth.
    tolerance : stop when three steps in a row gain less than this many nats each.
    start : where to start, for example the fit of a similar scan. Default: search for a start.
    max_bytes : refuse files with more bytes than this when decompressed.

    Returns
    -------
    Fit
        Its ``mixture`` is the density, in the units of the data. Of several channels, each by
        itself, a dictionary with the fit of each.

    Raises
    ------
    FileError
        Where the image cannot be read, or has too few distinct voxels to estimate a density.
    InvalidValueError
        Where an option makes no sense.

    Examples
    --------
    >>> import numpy as np
    >>> import ndflow
    >>> voxels = np.random.default_rng(0).normal(100, 15, size=(20, 20, 20))
    >>> fitted = ndflow.fit(voxels.round().astype(np.int16))
    >>> fitted.mixture.mean().round()
    array([100.])
    """
    reading = Options(max_bytes=max_bytes)
    chosen: dict[str, Any] = {
        "effective_count": effective_count,
        "concentration": concentration,
        "concentration_prior": concentration_prior,
        "truncation": truncation,
        "prior_strength": prior_strength,
        "tolerance": tolerance,
        "start": start,
    }
    if isinstance(data, Mapping):
        return _fit_channels(Subject(data, mask, exclude), reading, chosen, joint=joint)
    if joint:
        raise InvalidValueError("joint is for several channels; give images by their names")
    if isinstance(data, Histogram):
        if mask is not None or exclude is not None:
            raise InvalidValueError("a histogram has no voxels left to mask; leave out the mask")
        return density.fit(data, **chosen)
    voxels = read_scan(Scan(data, mask, exclude), reading)
    with error_about(voxels.volume.path, options=True):
        return density.fit(voxels.histogram, **chosen)


def _fit_channels(
    subject: Subject, reading: Options, chosen: dict[str, Any], *, joint: bool
) -> Fit | dict[str, Fit]:
    """Fit the channels of a subject, together or each by itself."""
    if joint:
        cells = read_subject(subject, reading).cells
        evidence = EVIDENCE * Options(effective_count=chosen["effective_count"]).effective_count
        with error_about(subject.path, options=True):
            return density.fit(cells, **{**chosen, "effective_count": evidence})
    check_separate(subject)
    check_grids(subject)
    found = {}
    for name in subject.names:
        voxels = read_scan(subject.scan(name), reading)
        with error_about(voxels.volume.path, options=True):
            found[name] = density.fit(voxels.histogram, **chosen)
    return found


def fit_voxels(
    scan: Scan,
    voxels: ScanVoxels,
    *,
    options: Options,
    tissues: bool = False,
) -> FittedScan:
    """Estimate the density of a scan that was read, and what else its method needs to know.

    Parameters
    ----------
    scan, voxels : the scan, and its voxels.
    options : what the user chose.
    tissues : whether to estimate its tissues, from its tissue probability maps.
    """
    path, method = voxels.volume.path, method_of(options)
    warnings = list(voxels.warnings)
    with error_about(path):
        fitted = density.fit(voxels.histogram, effective_count=options.effective_count)
        landmarks = method.measure(voxels.histogram, options)
    if not fitted.status.converged:
        warnings.append(f"{path}: the fit of its density is {fitted.status.message}")
    own, files = None, voxels.files
    if tissues:
        own, more, maps = tissues_of(scan, voxels, options)
        warnings += more
        files = files | maps
    misfit = _misfit(trimmed(voxels.histogram), fitted)
    model = DensityModel(fitted.mixture, landmarks, own)
    mask = measure_mask(voxels.volume, voxels.inside, voxels.lesion)
    given, found = scan.has_brain_mask, voxels.found_brain
    doubts = (*mask_doubts(mask, given=given, found=found), *fit_doubts(misfit))
    return FittedScan(fitted, model, tuple(warnings), files, misfit, mask, doubts)


def fit_scan(
    scan: Scan,
    *,
    options: Options,
    tissues: bool = False,
) -> ScanModel:
    """Read a scan and estimate its density; parameters as for `fit_voxels`.

    Returns
    -------
    ScanModel
        The density, with everything about it but its fingerprint.
    """
    voxels = read_scan(scan, options)
    fitted = fit_voxels(scan, voxels, options=options, tissues=tissues)
    quantiles = VoxelQuantiles.of_histogram(voxels.histogram)
    own = fitted.model.tissues
    return ScanModel(
        fitted.model.mixture,
        fitted.model.landmarks,
        own,  # type: ignore[arg-type]
        sha256=contents(fitted.files) or None,
        settings=selection(scan) | options.of("fit"),
        voxels=voxels.counts,
        fit=fitted.fit.status.message,
        misfit=fitted.misfit,
        quantiles=tuple(quantiles.inner.tolist()),
        tails=tuple(quantiles.tails.tolist()),
        mask=fitted.mask,
        warnings=fitted.warnings,
        doubts=fitted.doubts,
    )


def _misfit(used: Histogram, fitted: Fit) -> float:
    below = (np.cumsum(used.counts) - 0.5 * used.counts) / used.total
    return float(np.abs(fitted.mixture.cdf(used.values[:, 0]) - below).max())


def fit_to_file(
    scan: Scan,
    output: AnyPath,
    *,
    force: bool,
    options: Options,
) -> ScanModel:
    """Estimate the density of a scan and write it to a file."""
    files = scan.files(tissues=True)
    inputs = [name for names in files.values() for name in names]
    check_model(output, inputs, force=force)
    scan.tissues.check_complete()
    made = fit_scan(scan, options=options, tissues=scan.tissues.complete)
    made.write(output, force=force, inputs=inputs)
    return made


# ── several channels ──────────────────────────────────────────────────────────────────────────────


class FittedSubject(NamedTuple):
    """What was estimated from the voxels of all channels.

    Attributes
    ----------
    voxels : the channels.
    fit : their joint density.
    scans : each channel by itself.
    warnings : for the user, about all channels.
    """

    voxels: SubjectVoxels
    fit: Fit
    scans: dict[str, FittedScan]
    warnings: tuple[str, ...]


class SubjectModel(NamedTuple):
    """What was written to the file of a subject, and what to tell the user."""

    record: JointModel | ScanModels
    warnings: tuple[str, ...]


def fit_jointly(
    subject: Subject,
    *,
    options: Options,
) -> FittedSubject:
    """Read the channels of a subject and estimate their joint density, and that of each.

    Parameters
    ----------
    subject : the channels.
    options : what the user chose.
    """
    voxels = read_subject(subject, options)
    with error_about(subject.path):
        fitted = density.fit(voxels.cells, effective_count=EVIDENCE * options.effective_count)
    warnings = list(voxels.channels.warnings)
    if not fitted.status.converged:
        warnings.append(f"{subject.path}: the fit of the joint density {fitted.status.message}")
    scans = {
        name: fit_voxels(subject.scan(name), own, options=options)
        for name, own in voxels.scans.items()
    }
    return FittedSubject(voxels, fitted, scans, tuple(warnings))


def fit_subject(
    subject: Subject,
    output: AnyPath,
    *,
    joint: bool,
    force: bool,
    options: Options,
) -> SubjectModel:
    """Estimate the densities of the channels of a subject and write them to one file.

    Parameters
    ----------
    subject : the channels.
    output : the file to write.
    joint : whether to estimate one joint density, or that of each channel by itself.
    force : whether another file may be replaced.
    options : what the user chose.
    """
    inputs = [name for names in subject.files().values() for name in names]
    check_model(output, inputs, force=force)
    made = (joint_model if joint else _separate_models)(subject, options)
    made.record.write(output, force=force, inputs=inputs)
    return made


def joint_model(
    subject: Subject,
    options: Options,
) -> SubjectModel:
    """Return the joint density of a subject, as its file holds it, and what to tell the user."""
    voxels, fitted, scans, warnings = fit_jointly(subject, options=options)
    first = scans[subject.names[0]]
    made = JointModel(
        fitted.mixture,
        sha256=contents(voxels.channels.files) or None,
        settings=selection(subject.scan(subject.mask_channel)) | options.of("fit"),
        voxels=voxels.counts,
        fit=fitted.status.message,
        mask=first.mask,
        warnings=(*warnings, *(line for one in scans.values() for line in one.warnings)),
        doubts=tuple(dict.fromkeys(doubt for one in scans.values() for doubt in one.doubts)),
        channel_names=subject.names,
        marginals=tuple(one.model.mixture for one in scans.values()),
    )
    told = ((subject.scan(name).path, one.warnings, one.doubts) for name, one in scans.items())
    return SubjectModel(made, (*warnings, *said(told)))


def _separate_models(
    subject: Subject,
    options: Options,
) -> SubjectModel:
    warnings = check_grids(subject)
    scans = {
        name: fit_scan(subject.scan(name), options=options, tissues=subject.tissues.complete)
        for name in subject.names
    }
    told = ((subject.scan(name).path, one.warnings, one.doubts) for name, one in scans.items())
    return SubjectModel(ScanModels(subject.names, scans), (*warnings, *said(told)))
