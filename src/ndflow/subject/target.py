"""What a scan is brought to: a reference, or another scan; and the units of the result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeGuard

import numpy as np

from ndflow.density import Fit, GaussianMixture
from ndflow.density.mixture import marginal
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.model_files import ModelFile, is_model, read_model
from ndflow.files.stream import FileHash, Hashes
from ndflow.image.read import Source
from ndflow.image.subject import ANY_CHANNEL, Subject, contrast_in_name, other_by_name
from ndflow.methods.base import DensityModel, method_called, method_of
from ndflow.methods.ndflow import target_rule
from ndflow.options import Options
from ndflow.population import Reference
from ndflow.subject.doubts import reference_doubts
from ndflow.subject.fit import fit_voxels
from ndflow.subject.presets import TargetFacts
from ndflow.subject.records import ReferenceModel, ScanModel, densities_in
from ndflow.subject.voxels import error_about, read_voxels
from ndflow.transport import Affine, align
from ndflow.values import Doubt, listed

# ── references in the package ─────────────────────────────────────────────────────────────────────
# References that come with the package: ``builtin:T1w``.
#
# Each is a file of its own in the folder `builtin`, with a *card* that says whose scans it was made
# from and what it is not for (docs/reference/builtin.md). ``builtin:T1w`` is the newest version;
# ``builtin:T1w@1`` stays what it is, and results record that name. `experiments/build_builtin.py`
# makes the files.

PREFIX = "builtin:"

_BUILTIN = {"T1w": "T1w@1", "T1w@1": "T1w@1"}  # what users say, and the full name


def is_builtin(source: object) -> TypeGuard[str]:
    """Tell whether something is the name of a reference in the package, right or wrong."""
    return isinstance(source, str) and source.startswith(PREFIX)


def full_name(name: str) -> str:
    """Return the name of a reference with its version.

    Parameters
    ----------
    name : with or without ``builtin:``, and with or without its version.

    Raises
    ------
    InvalidValueError : if there is no such reference.

    Examples
    --------
    >>> full_name("builtin:T1w")
    'builtin:T1w@1'
    """
    full = _BUILTIN.get(name.removeprefix(PREFIX))
    if full is None:
        known = ", ".join(PREFIX + one for one in sorted({*_BUILTIN.values()}))
        raise InvalidValueError(f"there is no reference {name!r} in the package, but {known}")
    return PREFIX + full


def builtin_file(name: str) -> Path:
    """Return the file of a reference; parameters and errors as for `full_name`."""
    file = full_name(name).removeprefix(PREFIX).replace("@", "_")
    return Path(__file__).parent / "builtin" / f"{file}.json"


def read_builtin(name: str) -> ModelFile:
    """Read the file of a reference, which is then called by its full name; see `full_name`."""
    read = read_model(builtin_file(name), ReferenceModel.kind)
    return read._replace(file=FileHash(full_name(name), read.file.sha256))


def builtin_reference(name: str = "T1w") -> Reference:
    """Return a reference that comes with the package, as ``--to builtin:T1w`` uses it.

    Parameters
    ----------
    name : ``"T1w"``, or a certain version of it, ``"T1w@1"``.

    Returns
    -------
    Reference
        With tissues from tissue probability maps, and landmarks for Nyúl's method.

    Raises
    ------
    InvalidValueError
        Where there is no such reference; the message lists those that there are.

    Examples
    --------
    >>> import ndflow
    >>> ndflow.builtin_reference("T1w").channel_names
    ('T1w',)
    """
    return ReferenceModel.of_payload(full_name(name), read_builtin(name).payload).reference


# ── targets ───────────────────────────────────────────────────────────────────────────────────────

# The mean and the standard deviation of the target on each scale. A reference itself is on the
# scale "standard", z. On the scale "positive", 500 + 125 z, air (0) is four standard deviations
# below the mean brain, where there is hardly any voxel of a brain, and integers are fine enough.
SCALES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"standard": (0.0, 1.0), "positive": (500.0, 125.0)}
)

_KINDS = ("mixture", "mixtures", "reference", "references")
_ENDS = (0.001, 0.999)  # percentiles that `range` is about
_LEAST, _MOST = 1e-100, 1e100
_COARSEST = 5.0  # standard deviation, in integers
_SHARPEST = 1e-9  # standard deviation, as a share of the mean


class Target(NamedTuple):
    """What a subject is brought to.

    Attributes
    ----------
    model : what is known about its intensities, in its own units.
    name : what messages call it.
    has_units : whether it is a scan, with units of its own, and not a reference.
    files : that were read, with their hashes.
    warnings, doubts : for the user, about a target that was fitted.
    channels : what its channels show.
    facts : what presets go by.
    """

    model: DensityModel
    name: str
    has_units: bool
    files: Hashes
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    channels: tuple[str, ...] = (ANY_CHANNEL,)
    facts: TargetFacts = TargetFacts()


AnyTarget = Target | Reference | Fit | GaussianMixture | Source


def known_target(to: AnyTarget) -> Target | None:
    """Return the target of a single image, read from its file if it is one; None for an image."""
    if isinstance(to, Target):
        return to
    known = _known(to)
    if known is None:
        return None
    first, channels = next(iter(known.values())), _channels(known)
    if len(channels) > 1:
        cause = f"of {len(channels)} channels, but an image has one"
        raise FileError(first.name, cause, "give all channels, each as NAME=FILE")
    return first


def known_targets(
    to: AnyTarget | Mapping[str, AnyTarget], channels: Sequence[str], *, joint: bool
) -> dict[str, Target]:
    """Return what several channels are brought to: each its own target, or all one together.

    Parameters
    ----------
    to : what the user gave.
    channels : the names of the channels.
    joint : whether they are brought to one target together, which is then called ``""``.
    """
    fit = f"ndflow fit {' '.join(f'{name}=FILE' for name in channels)}{' --joint' if joint else ''}"
    known = _known_by_channel(to) if isinstance(to, Mapping) else _known(to)
    if known is None:
        cause = "an image, where densities of several channels are expected"
        raise FileError(_called(to), cause, f"fit the channels of the target first: {fit}")
    own, name = _channels(known), next(iter(known.values())).name
    together = len(own) > len(known)
    if together and not joint:
        raise FileError(name, f"joint, of {len(own)} channels", "add --joint")
    if joint and not together:
        cause = f"of {listed(own)}, each channel by itself"
        raise FileError(name, cause, f"run {fit} for each subject, then ndflow reference")
    check_channels(channels, own, name)
    return known


def _known_by_channel(to: Mapping[str, AnyTarget]) -> dict[str, Target] | None:
    """Return the target of each channel; None if one of them is an image."""
    found = {name: known_target(one) for name, one in to.items()}
    known = {name: one._replace(channels=(name,)) for name, one in found.items() if one}
    return known if len(known) == len(found) else None


def _channels(known: Mapping[str, Target]) -> tuple[str, ...]:
    return tuple(name for one in known.values() for name in one.channels)


def _known(to: AnyTarget) -> dict[str, Target] | None:
    """Return the targets of the channels that a user means; None for an image."""
    if is_builtin(to) or is_model(to):
        read = read_builtin(to) if is_builtin(to) else read_model(to, *_KINDS)
        files: Hashes = {"target": (read.file,)}
        return {
            name: _target_in(one, read.file.file, files, (name,) if name else ())
            for name, one in densities_in(read).items()
        }
    if isinstance(to, Reference):
        return {"": _target_in(ReferenceModel(to), _called(to), {})}
    mixture = to.mixture if isinstance(to, Fit) else to
    if isinstance(mixture, GaussianMixture):
        return {"": _target_in(ScanModel(mixture), _called(to), {})}
    return None


def _target_in(
    record: ScanModel | ReferenceModel, name: str, files: Hashes, channels: tuple[str, ...] = ()
) -> Target:
    """Return a density as a target."""
    if isinstance(record, ReferenceModel):
        reference = record.reference
        model, facts = DensityModel.of_reference(reference), TargetFacts.of_reference(reference)
        doubts, shown = reference_doubts(reference.scans), channels or reference.channel_names
        return Target(model, name, False, files, (), doubts, shown, facts)
    names = channels or record.channel_names or (ANY_CHANNEL,) * record.mixture.channels
    return Target(record.model, name, True, files, doubts=record.doubts, channels=names)


def check_channels(names: Sequence[str], known: Sequence[str], path: object) -> None:
    """Refuse channels that are not those of a file, in the same order.

    Parameters
    ----------
    names : of the channels that were given.
    known : those of the file; a mixture from Python does not name its channels.
    path : the file.
    """
    if tuple(names) == tuple(known) or (len(names) == len(known) and {*known} == {ANY_CHANNEL}):
        return
    cause = f"made for {listed(known)}, not for {listed(names)}"
    raise FileError(path, cause, "give images with these names, in this order")


def check_contrast(scans: Sequence[Subject], known: Sequence[str], path: object) -> None:
    """Refuse scans of another contrast than the file that they are to be brought to.

    What a scan shows is what the user says or, of a single image that was not called anything, its
    name. Names count only if they are wrong for all scans: a single one is a doubt about its scan.

    Parameters
    ----------
    scans : whose channels have the same names.
    known : the names of the channels of the file.
    path : the file.
    """
    (names,) = {scan.channels for scan in scans}
    if ANY_CHANNEL not in (*names, *known):
        check_channels(names, known, path)
    shown = [other_by_name(scan.path, known[0]) for scan in scans]
    if names == (ANY_CHANNEL,) and all(shown):
        cause = f"a {shown[0]} image by its name, but {path} is of {known[0]} images"
        hint = "give a reference of the same contrast; if the name is wrong, say what it shows: "
        hint += f"{known[0]}=FILE, or --channels {known[0]} for a study"
        raise FileError(scans[0].path, cause, hint)


def read_target(to: AnyTarget, mask: Source | None, *, options: Options) -> tuple[Target, Options]:
    """Return the target that a user means, and the options with the scale of the result.

    Parameters
    ----------
    to : what the user gave.
    mask : of an image, see `Subject`.
    options : what was chosen about the match.

    Raises
    ------
    InvalidValueError : for units that the target does not have, or that `dtype` cannot hold.
    """
    known = known_target(to)
    if known is not None and mask is not None:
        raise InvalidValueError(f"{known.name} is not an image; leave out its mask (--to-mask)")
    target = _fitted_target(to, mask, options) if known is None else for_method(known, options)  # type: ignore[arg-type]
    options = with_scale(options, has_units=target.has_units)
    model = in_units(target, options)
    check_units(options, name=target.name, has_units=target.has_units, model=model)
    return target, options


def _fitted_target(image: Source, mask: Source | None, options: Options) -> Target:
    """Return an image as a target."""
    if target_rule(options).needs_tissue_model:
        cause = "an image, which does not know the tissues of a population"
        raise FileError(_called(image), cause, "give a reference, or leave out --proportions")
    scan = Subject(image, mask)  # type: ignore[arg-type]  # it takes a single image, too
    voxels = read_voxels(scan, max_bytes=options.max_bytes)
    model = fit_voxels(scan, voxels, options=options).model
    files = {
        ("target" if what == "image" else f"target_{what}"): read
        for what, read in voxels.files.items()
    }
    path = voxels.volume.path
    shown = (contrast_in_name(path) or ANY_CHANNEL,)
    return Target(model.model, path, True, files, model.warnings, model.doubts, shown)


def _called(to: object) -> str:
    return os.fspath(to) if isinstance(to, str | os.PathLike) else f"the {type(to).__name__}"


def target_of(model: DensityModel, averaged: bool, name: str, options: Options) -> Target:
    """Return what is known about a density as a target, see `for_method`."""
    return for_method(Target(model, name, not averaged, {}), options)


def for_method(target: Target, options: Options) -> Target:
    """Return a target with the parts that the method needs, and no others."""
    mixture = target.model.mixture
    refuse_absurd(target.name, target.model)
    needed = DensityModel(mixture)
    if mixture.channels == 1:
        with error_about(target.name):
            landmarks = method_of(options).target_landmarks(
                target.model.landmarks, mixture, options, averaged=not target.has_units
            )
            tissues = target_rule(options).population_tissues(mixture, target.model.tissues)
            needed = DensityModel(mixture, landmarks, tissues)
    return target._replace(model=needed)


def check_units(
    options: Options, *, name: str, has_units: bool = False, model: DensityModel | None = None
) -> None:
    """Refuse units that the target does not have, and integers that cannot hold the result.

    Parameters
    ----------
    options : what the user chose.
    name : what messages call the target.
    has_units : whether its intensities mean anything.
    model : the target in the units of the result; None for a reference that is yet to be made.
    """
    if options.scale == "target" and not has_units:
        words = "a reference has no units for --scale target"
        raise InvalidValueError(f"{name}: {words}; use --scale positive or standard, or --range")
    if "int" not in options.dtype or (model is None and options.range is not None):
        return
    if model is None:
        scale = with_scale(options, has_units=False).scale
        units = [SCALES[scale or "standard"]]
    else:
        sds = np.sqrt(np.diagonal(model.mixture.covariance())).tolist()
        units = [*zip(model.mixture.mean().tolist(), sds, strict=True)]
    limits = np.iinfo(options.dtype)
    for mean, sd in units:
        if sd < _COARSEST or not limits.min <= mean <= limits.max:
            raise InvalidValueError(
                f"{options.dtype} cannot hold a result with the mean {round(mean)} and a standard "
                f"deviation of {sd:.3g}; use --dtype float32, or choose units with --range 0 "
                f"{min(1000, limits.max)}"
            )


def refuse_absurd(name: str, model: DensityModel) -> None:
    """Refuse densities of a scan and its tissues with which doubles cannot calculate."""
    densities = (model.mixture, *(model.tissues.densities if model.tissues else ()))
    means = np.concatenate([np.abs(one.means).ravel() for one in densities])
    precisions = [np.diagonal(one.precisions, axis1=1, axis2=2).ravel() for one in densities]
    sds = 1 / np.sqrt(np.concatenate(precisions))
    for mean, sd in zip(means.tolist(), sds.tolist(), strict=True):
        if not (_LEAST < sd < _MOST and mean < _MOST and sd > _SHARPEST * mean):
            cause = f"a density of mean {mean:g} and standard deviation {sd:g}, which no image has"
            raise FileError(name, cause, "check that it is the right file")


def in_units(target: Target, options: Options) -> DensityModel:
    """Return what is known about the target, in the units in which the result is wanted."""
    units = units_of(target, options)
    return target.model if units is None else target.model.transformed(units)


def with_scale(options: Options, *, has_units: bool) -> Options:
    """Return the same choices, with the scale that is used where the user chose no units.

    It remains None with a --range.

    Parameters
    ----------
    options : what the user chose.
    has_units : whether the intensities of the target mean anything.
    """
    method = method_called(options.method)
    if options.scale is not None or options.range is not None:
        return options
    return replace(options, scale="target" if has_units else method.usual_scale)


def units_of(target: Target, options: Options) -> Affine | None:
    """Return the map from the target's units to those of the result; None if they are the same."""
    mixture, channels = target.model.mixture, range(target.model.mixture.channels)
    parts = [_units(marginal(mixture, place), target.has_units, options) for place in channels]
    if all(part == (1.0, 0.0) for part in parts):
        return None
    factors, offsets = zip(*parts, strict=True)
    return Affine(np.diag(factors), np.array(offsets))


def _units(mixture: GaussianMixture, has_units: bool, options: Options) -> tuple[float, float]:
    """Return the factor and the offset of one channel."""
    ends = options.range
    if ends is None:
        scale = with_scale(options, has_units=has_units).scale
        if scale == "target":
            return 1.0, 0.0
        mean, sd = SCALES[scale or "standard"]
        if not has_units:  # a reference has a mean of 0 and a standard deviation of 1
            return sd, mean
        z = align(mixture)
        return sd * float(z.matrix[0, 0]), mean + sd * float(z.offset[0])
    low, high = mixture.quantile(_ENDS).tolist()
    factor = (ends[1] - ends[0]) / (high - low)
    if not (_LEAST < factor < _MOST and abs(ends[0]) < _MOST):
        raise InvalidValueError(f"range: {ends[0]:g} to {ends[1]:g} is too wide; choose another")
    return factor, ends[0] - factor * low
