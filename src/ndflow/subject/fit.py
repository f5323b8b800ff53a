"""The density of a subject, also in a file of its own, which may go where the scan may not.

Such a file names neither the scan nor the folder it lies in. That it was made from a certain image
can be shown by the SHA-256 of the image.

Where channels are fitted together, there is the joint density, and that of each channel by itself.
A joint density has more to it than that of one channel, and needs more evidence to show it: the
effective count that the user chooses is that of one channel, and `EVIDENCE` times as much is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from ndflow import density
from ndflow.density import Fit, GaussianMixture, Histogram, trimmed
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.model_files import check_model
from ndflow.files.stream import Hashes, all_files, contents
from ndflow.image.mask_doubts import mask_doubts, measure_mask
from ndflow.image.read import Source
from ndflow.image.subject import Subject
from ndflow.methods.base import method_of
from ndflow.methods.ndflow import EVIDENCE
from ndflow.options import Options
from ndflow.population import TISSUES, Tissues
from ndflow.subject.doubts import fit_doubts, voxel_quantiles
from ndflow.subject.records import ScanModel, ScanModels
from ndflow.subject.voxels import (
    Voxels,
    check_grids,
    count_voxels,
    error_about,
    probabilities,
    read_voxels,
    selection,
)
from ndflow.values import listed


class Fitted(NamedTuple):
    """What was estimated from the voxels of a subject.

    Attributes
    ----------
    model : the density, and how it was estimated.
    histogram : that it was estimated from.
    files : that were read, with their hashes.
    """

    model: ScanModel
    histogram: Histogram
    files: Hashes


@overload
def fit(data: Histogram | Source, **options: Any) -> Fit: ...


@overload
def fit(data: Mapping[str, Source], *, joint: Literal[True], **options: Any) -> Fit: ...


@overload
def fit(
    data: Mapping[str, Source], *, joint: Literal[False] = False, **options: Any
) -> dict[str, Fit]: ...


def fit(  # type: ignore[misc]  # which takes these keywords only
    data: Histogram | Source | Mapping[str, Source],
    *,
    joint: bool = False,
    mask: Source | None = None,
    exclude: Source | None = None,
    effective_count: float = Options.effective_count,
    concentration: float = 2.0,
    truncation: int = 20,
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
        the brain in a T1w image. Default: all non-zero voxels.
    exclude : a mask of voxels of an image that the fit does not see, such as a lesion.
    effective_count : how many independent voxels the data are worth at most; ten times as many with
        `joint`.
    concentration : α of the Dirichlet process; larger values expect more components.
    truncation : the largest possible number of components.
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
    chosen: dict[str, Any] = {
        "effective_count": effective_count,
        "concentration": concentration,
        "truncation": truncation,
        "start": start,
    }
    if not isinstance(data, Mapping) and joint:
        raise InvalidValueError("joint is for several channels; give images by their names")
    if isinstance(data, Histogram):
        if mask is not None or exclude is not None:
            raise InvalidValueError("a histogram has no voxels left to mask; leave out the mask")
        return density.fit(data, **chosen)
    subject = Subject(data, mask, exclude)  # type: ignore[arg-type]  # it takes a single image, too
    parts = {"": subject}
    check_fit(subject, joint=joint)
    if joint:
        chosen["effective_count"] = EVIDENCE * effective_count
    else:
        parts = {name: subject.alone(name) for name in subject.channels}
    found = {}
    for name, own in parts.items():
        counted = count_voxels(own, read_voxels(own, max_bytes=max_bytes))
        with error_about(own.path, options=True):
            found[name] = density.fit(counted.histogram, **chosen)
    return found if isinstance(data, Mapping) and not joint else next(iter(found.values()))


def fit_voxels(
    subject: Subject, voxels: Voxels, *, options: Options, tissues: bool = False
) -> Fitted:
    """Estimate the density of a subject that was read: of all its channels, together.

    Parameters
    ----------
    subject, voxels : the subject, and what was read.
    options : what the user chose.
    tissues : whether its tissue probability maps are read, and the densities of its tissues
        estimated.
    """
    if len(subject.images) == 1:
        return _fit_channel(subject, voxels, options, tissues)
    together = count_voxels(subject, voxels)
    with error_about(subject.path):
        fitted = density.fit(together.histogram, effective_count=EVIDENCE * options.effective_count)
    counting, parts = voxels.counting(), []  # in each channel, the voxels that count in all
    for name, volume in zip(subject.channels, voxels.volumes, strict=True):
        own = voxels._replace(volumes=(volume,), inside=counting, warnings=())
        parts.append(_fit_channel(subject.alone(name), own, options, False).model)
    model = replace(
        parts[0],
        mixture=fitted.mixture,
        sha256=contents(voxels.files) or None,
        voxels=together.counts,
        fit=fitted.status.message,
        misfit=None,
        quantiles=None,
        tails=None,
        warnings=(
            *voxels.warnings,
            *_unconverged(subject.path, fitted),
            *(line for one in parts for line in one.warnings),
        ),
        doubts=tuple(dict.fromkeys(doubt for one in parts for doubt in one.doubts)),
        channel_names=subject.channels,
        marginals=tuple(one.mixture for one in parts),
    )
    return Fitted(model, together.histogram, voxels.files)


def _fit_channel(subject: Subject, voxels: Voxels, options: Options, tissues: bool) -> Fitted:
    """Estimate the density of one channel, and what else its method needs to know."""
    counted = count_voxels(subject, voxels)
    path, histogram = voxels.volume.path, counted.histogram
    with error_about(path):
        fitted = density.fit(histogram, effective_count=options.effective_count)
        landmarks = method_of(options).measure(histogram, options)
    warnings = [*voxels.warnings, *counted.warnings, *_unconverged(path, fitted)]
    own, files = None, voxels.files
    if tissues:
        own, more, maps = tissues_of(subject, voxels, options)
        warnings += more
        files = files | maps
    misfit = _misfit(trimmed(histogram), fitted)
    mask = measure_mask(voxels.volume, voxels.inside, voxels.lesion)
    doubts = mask_doubts(mask, given=subject.has_brain_mask, found=voxels.found_brain)
    quantiles, tails = voxel_quantiles(histogram)
    model = ScanModel(
        fitted.mixture,
        landmarks,
        own,
        sha256=contents(files) or None,
        settings=selection(subject) | options.of("fit"),
        voxels=counted.counts,
        fit=fitted.status.message,
        misfit=misfit,
        quantiles=quantiles,
        tails=tails,
        mask=mask,
        warnings=tuple(warnings),
        doubts=(*doubts, *fit_doubts(misfit, counted.counts)),
    )
    return Fitted(model, histogram, files)


def _unconverged(path: str, fitted: Fit) -> list[str]:
    if fitted.status.converged:
        return []
    return [f"{path}: the fit of its density is {fitted.status.message}"]


def _misfit(used: Histogram, fitted: Fit) -> float:
    below = (np.cumsum(used.counts) - 0.5 * used.counts) / used.total
    return float(np.abs(fitted.mixture.cdf(used.values[:, 0]) - below).max())


def fit_subject(subject: Subject, *, options: Options, tissues: bool = False) -> ScanModel:
    """Read a subject and estimate its density; parameters as for `fit_voxels`."""
    voxels = read_voxels(subject, max_bytes=options.max_bytes)
    return fit_voxels(subject, voxels, options=options, tissues=tissues).model


def fit_to_file(
    subject: Subject, output: AnyPath, *, joint: bool = False, force: bool, options: Options
) -> ScanModel | ScanModels:
    """Estimate the densities of a subject and write them to a file.

    Parameters
    ----------
    subject, output : what to fit, and where the file goes.
    joint : whether several channels have one density together, and not one each.
    force : whether a file that is there already may be replaced.
    options : what the user chose.
    """
    inputs = all_files(subject.files(tissues=True))
    check_model(output, inputs, force=force)
    maps = subject.tissues.check_complete().complete
    made: ScanModel | ScanModels
    if joint or len(subject.images) == 1:
        made = fit_subject(subject, options=options, tissues=maps)
    else:
        parts = {
            name: fit_subject(subject.alone(name), options=options, tissues=maps)
            for name in subject.channels
        }
        made = ScanModels(parts)
    made.write(output, force=force, inputs=inputs)
    return made


def check_fit(subject: Subject, *, joint: bool) -> None:
    """Refuse, before any work, channels that cannot be fitted, each by itself or together."""
    if joint and any(part is not None for part in subject.tissues):
        raise InvalidValueError("--joint does not take --tissue-maps; leave one of them out")
    if joint or len(subject.images) == 1:
        return
    check_grids(subject)
    if subject.finds_brain:
        others = [name for name in subject.channels if name != subject.mask_channel]
        raise InvalidValueError(
            f"--mask brain finds brains in T1w images, not in {listed(others)}; give one mask for "
            f"all channels as a file, or use --joint, which finds it in the channel T1w"
        )


# ── tissues, from tissue probability maps ─────────────────────────────────────────────────────────

_ALIKE = 10.0  # the largest values of the three maps may differ by this factor
_LEAST = 1e-3  # of any tissue: less is a mistake, or no brain


def tissues_of(
    scan: Subject, voxels: Voxels, options: Options
) -> tuple[Tissues, list[str], Hashes]:
    """Estimate the densities and proportions of a scan's tissues.

    Returns
    -------
    tuple of Tissues, list of str and Hashes
        The tissues, warnings for the user, and the files of the maps that were read.
    """
    volume, path = voxels.volume, voxels.volume.path
    inside = voxels.fitted()
    stored = volume.flat[inside]
    densities, amounts, largest, warnings = [], [], [], []
    files: Hashes = {}
    for name, source in zip(TISSUES, scan.tissues, strict=True):
        share, found, read = probabilities(source, volume, inside, options.max_bytes)  # type: ignore[arg-type]  # all three are there
        warnings += found
        files |= {name.lower(): read} if read else {}
        amounts.append(float(share.sum()))
        largest.append(float(share.max()))
        with error_about(f"{path} ({name})"):
            counted = density.histogram(
                stored, weights=share, slope=volume.slope, inter=volume.inter
            )
            own = density.fit(counted, effective_count=options.effective_count)
            densities.append(own.mixture)
        del share  # before the next map is read
    if max(largest) > _ALIKE * min(largest):
        cause = f"its tissue maps reach {', '.join(f'{most:g}' for most in largest)}"
        raise FileError(path, cause, "give probabilities of CSF, GM and WM in the same units")
    proportions = np.array(amounts) / sum(amounts)
    if proportions.min() < _LEAST:
        lacking = TISSUES[int(np.argmin(proportions))]
        cause = f"hardly any {lacking} ({proportions.min():.2g} of the tissues)"
        raise FileError(path, cause, "check its tissue probability maps")
    return Tissues(tuple(densities), proportions), warnings, files
