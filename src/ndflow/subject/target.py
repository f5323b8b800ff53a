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
from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.fingerprints import FileHash, Hashes
from ndflow.files.model_files import ModelFile, is_model, kind_in, read_model
from ndflow.image.read import Source
from ndflow.image.subject import Scan
from ndflow.methods.base import DensityModel, method_called, method_of
from ndflow.methods.targets import target_rule
from ndflow.options import Options
from ndflow.population import Reference, TissueModel
from ndflow.subject.fit import fit_voxels
from ndflow.subject.presets import TargetFacts
from ndflow.subject.records import JointModel, ReferenceModel, ReferenceModels, ScanModels
from ndflow.subject.voxels import error_about, read_scan
from ndflow.transport import Affine, align
from ndflow.values import JSON

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

_SEVERAL: Mapping[str, type[ScanModels | ReferenceModels]] = MappingProxyType(
    {kind.kind: kind for kind in (ScanModels, ReferenceModels)}
)
_ENDS = (0.001, 0.999)  # percentiles that `range` is about
_LEAST, _MOST = 1e-100, 1e100
_COARSEST = 5.0  # standard deviation, in integers
_SHARPEST = 1e-9  # standard deviation, as a share of the mean


class Target(NamedTuple):
    """What a scan is brought to.

    Attributes
    ----------
    model : what is known about its intensities, in its own units.
    name : what messages call it.
    has_units : whether its intensities mean anything; those of a reference do not.
    files : everything that was read, by what it is: ``target``, ``target_mask``; with hashes.
    warnings : for the user.
    doubts : what to check by eye, in a target that is a scan.
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
    model : what is known about it.
    averaged : whether it is the average of many scans: a reference.
    facts : what presets look at.
    files : the file it was read from.
    doubts : what to check by eye.
    """

    name: str
    model: DensityModel
    averaged: bool
    facts: TargetFacts = TargetFacts()
    files: Hashes | None = None
    doubts: tuple[Doubt, ...] = ()


AnyTarget = Target | KnownTarget | Reference | Fit | GaussianMixture | Source


def known_target(to: AnyTarget) -> KnownTarget | None:
    """Return what is known about a target, read from its file if it is one; None for an image."""
    if isinstance(to, KnownTarget):
        return to
    name = full_name(to) if is_builtin(to) else _called(to)
    files: Hashes = {}
    if is_builtin(to) or is_model(to):
        if is_model(to) and (several := _SEVERAL.get(kind_in(to) or "")):
            raise _of_several(to, several.read(to).channel_names, "")
        read = read_builtin(to) if is_builtin(to) else read_model(to, "mixture", "reference")
        kind, payload, file = read
        files = {"target": (file,)}
        if kind == "mixture":
            scan = JointModel.of_payload(to, payload)
            if scan.channel_names:
                raise _of_several(to, scan.channel_names, " --joint")
            return KnownTarget(name, scan.model, False, files=files, doubts=scan.doubts)
        to = ReferenceModel.of_payload(to, payload).reference
        if len(to.channel_names) > 1:
            raise _of_several(name, to.channel_names, " --joint")
    if isinstance(to, Reference):
        facts = TargetFacts.of_reference(to)
        return KnownTarget(name, DensityModel.of_reference(to), True, facts, files)
    mixture = to.mixture if isinstance(to, Fit) else to
    if isinstance(mixture, GaussianMixture):
        return KnownTarget(name, DensityModel(mixture), False, files=files)
    return None


def read_target(
    to: AnyTarget,
    mask: Source | None,
    *,
    options: Options,
) -> Target:
    """Return the target that a user means.

    Parameters
    ----------
    to : a reference or a mixture, or the path of one (.json), or the name of one in the package
        (``"builtin:T1w"``); or an image; or one of these that was read already.
    mask : of an image, see `Scan`.
    options : how an image is read, and its density estimated.
    options : what the target is for.
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
    scan = Scan(to, mask)  # type: ignore[arg-type]  # nothing else is left
    voxels = read_scan(scan, options)
    fitted = fit_voxels(scan, voxels, options=options)
    files = {
        ("target" if what == "image" else f"target_{what}"): read
        for what, read in voxels.files.items()
    }
    return Target(fitted.model, voxels.volume.path, True, files, fitted.warnings, fitted.doubts)


def _called(to: AnyTarget) -> str:
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
    model : what is known about it.
    averaged : whether it is the average of many scans: a reference.
    name : what messages call it.
    options : what the target is for.
    files : that it was read from.
    """
    mixture, method = model.mixture, method_of(options)
    if mixture.channels != 1:
        cause = f"a density of {mixture.channels} channels, but an image has one"
        raise FileError(name, cause, "give as many images, by channel, with joint=True")
    _refuse_absurd(name, mixture)
    with error_about(name):
        known = DensityModel(
            mixture,
            method.target_landmarks(model.landmarks, mixture, options, averaged=averaged),
            target_rule(options).population_tissues(mixture, model.tissues),
        )
    return Target(known, name, not averaged, files or {})


def _of_several(name: object, names: Sequence[str], how: str) -> FileError:
    """Return the error about a target of several channels, where one image is given.

    Parameters
    ----------
    name : the target.
    names : of its channels.
    how : what else to type.
    """
    words = " ".join(f"{one}=FILE" for one in names)
    cause = f"of several channels ({', '.join(names)}), but an image has one"
    return FileError(name, cause, f"give all of them: {words}{how}")


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
        mean, sd = SCALES[scale or "standard"]
    else:
        mean, sd = float(model.mixture.mean()[0]), float(np.sqrt(model.mixture.covariance()[0, 0]))
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
    mixture, ends = target.model.mixture, options.range
    if ends is None:
        scale = with_scale(options, has_units=target.has_units).scale
        if scale == "target" or (scale == "standard" and not target.has_units):
            return None
        mean, sd = SCALES[scale or "standard"]
        z = align(mixture) if target.has_units else Affine(np.eye(1), np.zeros(1))
        return Affine(sd * z.matrix, mean + sd * z.offset)
    low, high = mixture.quantile(_ENDS).tolist()
    factor = (ends[1] - ends[0]) / (high - low)
    if not (_LEAST < factor < _MOST and abs(ends[0]) < _MOST):
        raise InvalidValueError(
            f"range: {ends[0]:g} to {ends[1]:g} is beyond what numbers can hold; "
            f"choose another range"
        )
    return Affine(np.array([[factor]]), np.array([ends[0] - factor * low]))
