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
from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.fingerprints import FileHash, Hashes
from ndflow.files.model_files import ModelFile, is_model, read_model
from ndflow.image.read import Source
from ndflow.image.subject import ANY_CHANNEL, Subject
from ndflow.methods.base import DensityModel, method_called, method_of
from ndflow.methods.targets import target_rule
from ndflow.options import Options
from ndflow.population import Reference, TissueModel
from ndflow.subject.fit import fit_voxels
from ndflow.subject.presets import TargetFacts
from ndflow.subject.records import ReferenceModel, ReferenceModels, ScanModel, ScanModels
from ndflow.subject.voxels import error_about, read_voxels
from ndflow.transport import Affine, align
from ndflow.values import JSON, listed

# ── references in the package ─────────────────────────────────────────────────────────────────────
# References that come with the package: ``builtin:T1w``.
#
# Each is a file of its own in the folder `builtin`, with a *card* that says whose scans it was made
# from and what it is not for (docs/reference/builtin.md). ``builtin:T1w`` is the newest version;
# ``builtin:T1w@1`` stays what it is, and results record that name. `experiments/build_builtin.py`
# makes the files.

PREFIX = "builtin:"

_VERSIONS = {"T1w": (1,)}  # of each reference, the newest last


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
    contrast, at, version = name.removeprefix(PREFIX).partition("@")
    known = [f"{PREFIX}{one}@{number}" for one, many in _VERSIONS.items() for number in many]
    newest = _VERSIONS.get(contrast, (0,))[-1]
    full = f"{PREFIX}{contrast}@{version if at else newest}"
    if full not in known:
        raise InvalidValueError(
            f"there is no reference {name!r} in the package; there is {', '.join(known)}, and "
            f"'ndflow reference' makes one of your own scans"
        )
    return full


def builtin_file(name: str) -> Path:
    """Return the file of a reference; parameters and errors as for `full_name`."""
    contrast, _, version = full_name(name).removeprefix(PREFIX).partition("@")
    return Path(__file__).parent / "builtin" / f"{contrast}_{version}.json"


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


def builtin_card(name: str = "T1w") -> dict[str, JSON]:
    """Return whose scans a reference was made from, and what it is for; see `full_name`."""
    card: dict[str, JSON] = read_builtin(name).payload["card"]
    return card


def builtin_tissues(name: str = "T1w") -> TissueModel:
    """Return the densities of CSF, GM and WM in a reference, and the prior of their proportions.

    For adaptive proportions in studies without tissue maps. Parameters as for `full_name`.
    """
    found = builtin_reference(name).tissues
    if found is None:
        raise InvalidValueError(f"{full_name(name)} has no tissues")
    return found


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
    """

    model: DensityModel
    name: str
    has_units: bool
    files: Hashes
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()


class KnownTarget(NamedTuple):
    """A target that need not be fitted.

    Attributes
    ----------
    name : what messages call it.
    model : what is known about its intensities.
    averaged : whether it is a reference.
    facts : what presets go by.
    files, doubts : see `Target`.
    """

    name: str
    model: DensityModel
    averaged: bool
    facts: TargetFacts = TargetFacts()
    files: Hashes | None = None
    doubts: tuple[Doubt, ...] = ()

    @classmethod
    def of_scan(cls, name: str, scan: ScanModel, files: Hashes | None = None) -> KnownTarget:
        """Return the density of a scan as a target."""
        return cls(name, scan.model, False, files=files, doubts=scan.doubts)

    @classmethod
    def of_reference(
        cls, name: str, reference: Reference, files: Hashes | None = None
    ) -> KnownTarget:
        """Return a reference as a target."""
        facts = TargetFacts.of_reference(reference)
        return cls(name, DensityModel.of_reference(reference), True, facts, files)


AnyTarget = Target | KnownTarget | Reference | Fit | GaussianMixture | Source


class _Known(NamedTuple):
    """What was given as a target: one for each channel by itself, or one for all together."""

    name: str
    by_channel: dict[str, KnownTarget]
    channels: tuple[str, ...]
    joint: bool = False


def known_target(to: AnyTarget) -> KnownTarget | None:
    """Return the target of a single image, read from its file if it is one; None for an image."""
    if isinstance(to, KnownTarget):
        return to
    known = _known(to)
    if known is None:
        return None
    if len(known.channels) > 1:
        words = " ".join("NAME=FILE" if n == ANY_CHANNEL else f"{n}=FILE" for n in known.channels)
        cause = f"of {len(known.channels)} channels, but an image has one"
        hint = f"give all of them: {words}{' --joint' if known.joint else ''}"
        raise FileError(known.name, cause, hint)
    return next(iter(known.by_channel.values()))


def known_targets(
    to: AnyTarget | Mapping[str, AnyTarget], channels: Sequence[str], *, joint: bool
) -> dict[str, KnownTarget]:
    """Return what several channels are brought to: each its own target, or all one together.

    Parameters
    ----------
    to : what the user gave.
    channels : the names of the channels.
    joint : whether they are brought to one target together, which is then called ``""``.
    """
    words = " ".join(f"{name}=FILE" for name in channels)
    flag = " --joint" if joint else ""
    way = f"ndflow fit {words}{flag} for each subject, then ndflow reference"
    if isinstance(to, Mapping):
        if joint:
            raise InvalidValueError(
                "to: a target for each channel by itself, but joint=True needs one joint density; "
                "leave out joint, or make a reference of joint fits"
            )
        check_channels(channels, tuple(to), "the target")
        found = {name: known_target(one) for name, one in to.items()}
        return {name: _no_image(f"the target of {name}", one) for name, one in found.items()}
    known = _known(to)
    if known is None:
        cause = "one image, where a target of several channels is expected"
        hint = f"fit the channels of the target first: ndflow fit {words}{flag} -o target.json"
        raise FileError(_called(to), cause, hint)
    if len(known.channels) == 1:
        cause = f"of one channel, but there are {listed(channels)}"
        raise FileError(known.name, cause, f"make one of all channels: {way}")
    if joint and not known.joint:
        cause = "holds a density of each channel by itself, not a joint one"
        raise FileError(known.name, cause, f"leave out --joint, or make a joint one: {way}")
    if known.joint and not joint:
        raise FileError(known.name, f"joint, of {len(known.channels)} channels", "add --joint")
    check_channels(channels, known.channels, known.name)
    return known.by_channel


def _no_image(name: str, known: KnownTarget | None) -> KnownTarget:
    if known is None:
        raise InvalidValueError(f"to: {name} is an image; fit its density first, with ndflow.fit")
    return known


def _known(to: AnyTarget) -> _Known | None:
    """Return what is known about a target; None for an image."""
    name = full_name(to) if is_builtin(to) else _called(to)
    if is_builtin(to) or is_model(to):
        kind, payload, file = read_builtin(to) if is_builtin(to) else read_model(to, *_KINDS)
        files: Hashes = {"target": (file,)}
        if kind == "mixtures":
            scans = ScanModels.of_payload(to, payload)
            each = {n: KnownTarget.of_scan(name, scans.mixtures[n], files) for n in scans.mixtures}
            return _Known(name, each, scans.channel_names)
        if kind == "references":
            several = ReferenceModels.of_payload(to, payload)
            known = {n: one.reference for n, one in several.references.items()}
            each = {n: KnownTarget.of_reference(name, one, files) for n, one in known.items()}
            return _Known(name, each, several.channel_names)
        if kind == "mixture":
            scan = ScanModel.of_payload(to, payload)
            d = scan.mixture.channels
            if d > 1 and not scan.channel_names:
                cause = f"a density of {d} channels that does not name them"
                hint = "make it with names: ndflow fit NAME=FILE NAME=FILE --joint -o FILE"
                raise FileError(name, cause, hint)
            channels = scan.channel_names or (ANY_CHANNEL,)
            return _Known(name, {"": KnownTarget.of_scan(name, scan, files)}, channels, d > 1)
        reference = ReferenceModel.of_payload(to, payload).reference
        found = KnownTarget.of_reference(name, reference, files)
        return _Known(name, {"": found}, reference.channel_names, found.model.mixture.channels > 1)
    if isinstance(to, Reference):
        found = KnownTarget.of_reference(name, to, {})
        return _Known(name, {"": found}, to.channel_names, to.mixture.channels > 1)
    mixture = to.mixture if isinstance(to, Fit) else to
    if isinstance(mixture, GaussianMixture):
        found = KnownTarget(name, DensityModel(mixture), False, files={})
        return _Known(name, {"": found}, (ANY_CHANNEL,) * mixture.channels, mixture.channels > 1)
    return None


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
    if len(names) == len(known) == 1:
        cause = f"made of {known[0]} images, but these are {names[0]}"
        raise FileError(path, cause, f"use one of {names[0]}")
    missing = [name for name in known if name not in names]
    extra = [name for name in names if name not in known]
    order = " ".join(f"{name}=FILE" for name in known)
    cause = f"its channels are {listed(known)}, but {listed(names)} were given"
    if missing and extra:
        hint = f"is {extra[0]} meant to be {missing[0]}? Names must agree, letter by letter"
    else:
        hint = f"give {order}, in this order"
    raise FileError(path, cause, hint)


def read_target(to: AnyTarget, mask: Source | None, *, options: Options) -> Target:
    """Return the target that a user means.

    Parameters
    ----------
    to : what the user gave.
    mask : of an image, see `Subject`.
    options : what was chosen about the match.
    """
    if isinstance(to, Target):
        return to
    method_of(options)
    refuse_image(to, options)
    known = known_target(to)
    if known is not None:
        if mask is not None:
            raise InvalidValueError(f"{known.name} is not an image; leave out its mask (--to-mask)")
        found = target_of(known.model, known.averaged, known.name, options, files=known.files)
        return found._replace(doubts=known.doubts)
    scan = Subject(to, mask)  # type: ignore[arg-type]  # nothing else is left
    voxels = read_voxels(scan, max_bytes=options.max_bytes)
    fitted = fit_voxels(scan, voxels, options=options)
    files = {
        ("target" if what == "image" else f"target_{what}"): read
        for what, read in voxels.files.items()
    }
    model = fitted.model
    return Target(model.model, voxels.volume.path, True, files, model.warnings, model.doubts)


def _called(to: object) -> str:
    return os.fspath(to) if isinstance(to, str | os.PathLike) else f"the {type(to).__name__}"


def target_of(
    model: DensityModel,
    averaged: bool,
    name: str,
    options: Options,
    *,
    files: Hashes | None = None,
) -> Target:
    """Return a target with the parts that the method needs, and no others.

    Parameters
    ----------
    model : what is known about the target.
    averaged : whether it is a reference.
    name : what messages call it.
    options : what was chosen about the match.
    files : that were read.
    """
    for part in _marginals(model.mixture):
        _refuse_absurd(name, part)
    known = DensityModel(model.mixture)
    if model.mixture.channels == 1:
        rule, saved, mixture = target_rule(options), model.landmarks, model.mixture
        with error_about(name):
            known = DensityModel(
                mixture,
                method_of(options).target_landmarks(saved, mixture, options, averaged=averaged),
                rule.population_tissues(mixture, model.tissues),
            )
    return Target(known, name, not averaged, files or {})


def _marginals(mixture: GaussianMixture) -> list[GaussianMixture]:
    """Return the density of each channel."""
    if mixture.channels == 1:
        return [mixture]
    return [marginal(mixture, place) for place in range(mixture.channels)]


def refuse_image(to: AnyTarget, options: Options) -> None:
    """Refuse an image as a target that has to represent a population."""
    known = isinstance(to, Target | KnownTarget | Reference | Fit | GaussianMixture)
    if known or is_builtin(to) or is_model(to):
        return
    name = os.fspath(to) if isinstance(to, str | os.PathLike) else "the target"
    if target_rule(options).needs_tissue_model:
        cause = "an image, which does not know the tissues of a population"
        raise FileError(name, cause, "give a reference, or leave out --proportions")


def check_units(
    options: Options,
    *,
    name: str,
    has_units: bool = False,
    model: DensityModel | None = None,
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
        raise InvalidValueError(
            f"{name}: a reference has no units of its own for --scale target; use --scale positive "
            f"or --scale standard, or choose units with --range LOW HIGH"
        )
    if "int" not in options.dtype or (model is None and options.range is not None):
        return
    if model is None:
        scale = with_scale(options, has_units=False).scale
        units = [SCALES[scale or "standard"]]
    else:
        sds = np.sqrt(np.diagonal(model.mixture.covariance())).tolist()
        units = [*zip(model.mixture.mean().tolist(), sds, strict=True)]
    for mean, sd in units:
        _check_integers(options, mean, sd)


def _check_integers(options: Options, mean: float, sd: float) -> None:
    limits = np.iinfo(options.dtype)
    if sd < _COARSEST:
        raise InvalidValueError(
            f"{options.dtype} holds integers, but the result would have a standard deviation of "
            f"{sd:.2g} only; choose units with --scale positive or --range 0 1000, or use --dtype "
            f"float32"
        )
    if not limits.min <= mean <= limits.max:
        raise InvalidValueError(
            f"{options.dtype} ends at {limits.min if mean < 0 else limits.max}, but the result "
            f"would have a mean of {mean:.4g}; use --dtype float32, or choose units with "
            f"--range {limits.min} {limits.max}"
        )


def _refuse_absurd(name: str, mixture: GaussianMixture) -> None:
    """Refuse a density with which doubles cannot calculate."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = abs(float(mixture.mean()[0]))
        sd = float(np.sqrt(mixture.covariance()[0, 0]))
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
    parts = [_units(one, target.has_units, options) for one in _marginals(target.model.mixture)]
    if len(parts) == 1:
        return parts[0]
    same = Affine(np.eye(1), np.zeros(1))
    each = [part or same for part in parts]
    return Affine(
        np.diag([float(one.matrix[0, 0]) for one in each]),
        np.array([float(one.offset[0]) for one in each]),
    )


def _units(mixture: GaussianMixture, has_units: bool, options: Options) -> Affine | None:
    ends = options.range
    if ends is None:
        scale = with_scale(options, has_units=has_units).scale
        if scale == "target" or (scale == "standard" and not has_units):
            return None
        mean, sd = SCALES[scale or "standard"]
        z = align(mixture) if has_units else Affine(np.eye(1), np.zeros(1))
        return Affine(sd * z.matrix, mean + sd * z.offset)
    low, high = mixture.quantile(_ENDS).tolist()
    factor = (ends[1] - ends[0]) / (high - low)
    if not (_LEAST < factor < _MOST and abs(ends[0]) < _MOST):
        raise InvalidValueError(
            f"range: {ends[0]:g} to {ends[1]:g} is beyond what numbers can hold; "
            f"choose another range"
        )
    return Affine(np.array([[factor]]), np.array([ends[0] - factor * low]))
