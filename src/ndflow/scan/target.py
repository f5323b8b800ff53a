"""What a scan is brought to: a reference, or another scan, and the units of the result."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from ndflow.density import Fit, GaussianMixture
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.read import Source
from ndflow.methods.landmarks import BASELINES, Landmarks, of_density
from ndflow.methods.model import Portrait, has_own_units, needs_landmarks
from ndflow.population import (
    HealthyCeiling,
    Reference,
    TissueModel,
    Tissues,
    tissues_from_components,
)
from ndflow.scan.model_files import is_model, load_described
from ndflow.scan.reading import doubts, fit_scan, input_files, landmarks_of, read_scan
from ndflow.scan.tissue_maps import needs_tissues
from ndflow.settings import Fitting, Matching, Reading, Writing
from ndflow.transport import Affine, align

__all__ = [
    "AnyTarget",
    "Target",
    "in_units",
    "known_landmarks",
    "known_tissues",
    "read_target",
    "refuse_coarse",
    "refuse_image",
    "refuse_other_units",
]

_ENDS = (0.001, 0.999)  # percentiles that `range` speaks of
_LEAST, _MOST = 1e-100, 1e100
_COARSEST = 5.0  # spread, in whole numbers
_SHARPEST = 1e-9  # spread, as a share of the mean


class Target(NamedTuple):
    """What a scan is brought to.

    Attributes
    ----------
    mixture : its density, of one channel.
    name : how messages call it.
    has_units : whether intensities there mean anything; those of a reference do not.
    files : everything that was read, by what it is: ``target``, ``target_mask``.
    warnings : for the user.
    landmarks : for methods that look at them.
    tissues : of the population, for targets that are made of them.
    alarm : what healthy scans have at most, to find lesions.
    """

    mixture: GaussianMixture
    name: str
    has_units: bool
    files: dict[str, tuple[str, ...]]
    warnings: list[str]
    landmarks: Landmarks | None = None
    tissues: TissueModel | None = None
    alarm: HealthyCeiling | None = None


AnyTarget = Target | Reference | Fit | GaussianMixture | Source


def read_target(
    to: AnyTarget,
    mask: Source | None = None,
    reading: Reading | None = None,
    fitting: Fitting | None = None,
    matching: Matching | None = None,
) -> Target:
    """Return the target that a user means.

    Parameters
    ----------
    to : a reference or a mixture, or the path of one (.json); or an image.
    mask : of an image: as for `read_scan`.
    reading, fitting : how an image is read, and its density estimated.
    matching : what for; some methods look at landmarks.
    """
    if isinstance(to, Target):
        return to
    matching = matching or Matching()
    name = os.fspath(to) if isinstance(to, str | os.PathLike) else f"the {type(to).__name__}"
    files: dict[str, tuple[str, ...]] = {}
    landmarks, tissues, alarm = None, None, None
    refuse_image(to, matching)
    if is_model(to):
        files = {"target": (name,)}
        to, landmarks, tissues, alarm = load_described(to)
    if matching.lesions and alarm is None:
        cause = "does not know what healthy scans have at most"
        hint = "make a reference of them with 'ndflow reference --lesions auto', or use --exclude"
        raise FileError(name, cause, hint)
    if isinstance(to, Reference | Fit | GaussianMixture):
        if mask is not None:
            raise InvalidValueError(f"{name} is not an image; leave out its mask (--to-mask)")
        mixture = to if isinstance(to, GaussianMixture) else to.mixture
        if mixture.channels != 1:
            cause = f"a density of {mixture.channels} channels, but an image has one"
            raise FileError(name, cause, "make a reference of that channel alone")
        _refuse_absurd(name, mixture)
        has_units = not isinstance(to, Reference)
        known = known_landmarks(name, to, landmarks, matching)
        own = None
        if needs_tissues(matching):
            own = known_tissues(name, mixture, tissues, matching)
        alarm = alarm if matching.lesions else None
        return Target(mixture, name, has_units, files, [], known, own, alarm)
    scan = read_scan(to, mask, reading=reading)
    files = input_files(target=to, target_mask=mask)
    fitted = fit_scan(scan, fitting)
    warnings = scan.warnings + doubts(scan.volume.path, fitted)
    return Target(
        fitted.mixture, scan.volume.path, True, files, warnings, landmarks_of(scan, matching)
    )


def known_landmarks(
    name: str,
    density: Reference | Fit | GaussianMixture,
    saved: Landmarks | None,
    matching: Matching,
) -> Landmarks | None:
    """Return the landmarks of a model: those saved with it, or else those of its density.

    But not of an average density, whose landmarks are not the average ones.
    """
    if not needs_landmarks(matching):
        return None
    method = matching.method
    if saved is not None and saved.method == method:
        if method == "nyul" and saved.values.size != matching.landmarks:
            cause = f"holds {saved.values.size} landmarks, not {matching.landmarks}"
            raise FileError(name, cause, f"use --landmarks {saved.values.size}")
        return saved
    mixture = density if isinstance(density, GaussianMixture) else density.mixture
    known = of_density(method, mixture, matching.landmarks)
    if known is None or (isinstance(density, Reference) and BASELINES[method].fixed is None):
        cause = f"holds no landmarks of {method}"
        hint = f"give the file of a reference made with 'ndflow reference --method {method}'"
        raise FileError(name, cause, hint)
    return known


def refuse_image(to: AnyTarget, matching: Matching) -> None:
    """Refuse an image as a target that stands for a population."""
    if isinstance(to, Target | Reference | Fit | GaussianMixture) or is_model(to):
        return
    name = os.fspath(to) if isinstance(to, str | os.PathLike) else "the target"
    if needs_tissues(matching):
        cause = "an image, which has no tissues of a population"
        raise FileError(name, cause, "give a reference, or leave out --target")
    if matching.lesions:
        cause = "an image, which does not know what healthy scans have at most"
        raise FileError(name, cause, "give a reference, or leave out --lesions")


def known_tissues(
    name: str,
    mixture: GaussianMixture,
    saved: Tissues | TissueModel | None,
    matching: Matching,
) -> TissueModel:
    """Return the tissues of a population: those saved with it, or groups of its components."""
    if isinstance(saved, TissueModel):
        return saved
    if matching.target == "tissue":
        cause = "holds no tissues that were made of maps"
        hint = "give the file of a reference of scans with maps of tissues, or --target adaptive"
        raise FileError(name, cause, hint)
    try:
        return tissues_from_components(mixture)
    except InvalidValueError as error:
        hint = "make a reference from scans with maps of their tissues, or leave out --target"
        raise FileError(name, f"no tissues can be made of it: {error}", hint) from None


def refuse_coarse(density: GaussianMixture, writing: Writing) -> None:
    """Refuse to write a result as whole numbers where they could not tell tissues apart."""
    sd = float(np.sqrt(density.covariance()[0, 0]))
    if "int" in writing.dtype and sd < _COARSEST:
        raise InvalidValueError(
            f"{writing.dtype} holds whole numbers, but the result would have a spread of {sd:.2g} "
            f"only; choose units with --range 0 1000, for example, or --dtype float32"
        )


def refuse_other_units(matching: Matching) -> None:
    """Refuse to choose the units of a method that has its own, or those of a target image."""
    if has_own_units(matching) and (matching.range is not None or matching.scale is not None):
        raise InvalidValueError(
            f"the method {matching.method!r} has units of its own, or those of a target image; "
            f"leave out --range and --scale"
        )


def _refuse_absurd(name: str, mixture: GaussianMixture) -> None:
    """Refuse a density with which doubles cannot reckon."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = abs(float(mixture.mean()[0]))
        sd = float(np.sqrt(mixture.covariance()[0, 0]))
    if not (_LEAST < sd < _MOST and mean < _MOST and sd > _SHARPEST * mean):
        cause = f"a density of mean {mean:g} and spread {sd:g}, which no image has"
        raise FileError(name, cause, "check that it is the right file")


def in_units(target: Target, matching: Matching) -> Portrait:
    """Return what is known of the target, in the units in which the result is wanted."""
    given = Portrait(target.mixture, target.landmarks, target.tissues, target.alarm)
    units = _units(target, matching)
    return given if units is None else given.transformed(units)


def _units(target: Target, matching: Matching) -> Affine | None:
    """Return the way from the target's units to those of the result."""
    mixture, scale, ends = target.mixture, matching.scale, matching.range
    refuse_other_units(matching)
    if ends is not None:
        low, high = mixture.quantile(_ENDS).tolist()
        factor = (ends[1] - ends[0]) / (high - low)
        if not (_LEAST < factor < _MOST and abs(ends[0]) < _MOST):
            raise InvalidValueError(
                f"range: {ends[0]:g} to {ends[1]:g} is beyond what numbers can hold; "
                f"choose another range"
            )
        return Affine(np.array([[factor]]), np.array([ends[0] - factor * low]))
    if scale == "target" and not target.has_units:
        raise InvalidValueError(
            f"{target.name}: a reference has no units of its own for --scale target; "
            f"use --scale standard, or choose units with --range LOW HIGH"
        )
    return align(mixture) if scale == "standard" else None
