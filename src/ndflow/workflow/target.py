"""What a scan is brought to: a reference, or another scan, and the units of the result."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from ndflow.density import Fit, GaussianMixture
from ndflow.errors import FileError, InvalidValueError
from ndflow.io import Source
from ndflow.population import Reference
from ndflow.transport import align
from ndflow.workflow.models import is_model, load_density
from ndflow.workflow.scan import doubts, fit_scan, input_files, read_scan
from ndflow.workflow.settings import Fitting, Reading, Scale, Writing

__all__ = ["AnyTarget", "Target", "in_units", "read_target", "refuse_coarse"]

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
    """

    mixture: GaussianMixture
    name: str
    has_units: bool
    files: dict[str, tuple[str, ...]]
    warnings: list[str]


AnyTarget = Target | Reference | Fit | GaussianMixture | Source


def read_target(
    to: AnyTarget,
    mask: Source | None = None,
    reading: Reading | None = None,
    fitting: Fitting | None = None,
) -> Target:
    """Return the target that a user means.

    Parameters
    ----------
    to : a reference or a mixture, or the path of one (.json); or an image.
    mask : of an image: as for `read_scan`.
    reading, fitting : how an image is read, and its density estimated.
    """
    if isinstance(to, Target):
        return to
    name = os.fspath(to) if isinstance(to, str | os.PathLike) else f"the {type(to).__name__}"
    files: dict[str, tuple[str, ...]] = {}
    if is_model(to):
        files = {"target": (name,)}
        to = load_density(to)
    if isinstance(to, Reference | Fit | GaussianMixture):
        if mask is not None:
            raise InvalidValueError(f"{name} is not an image; leave out its mask (--to-mask)")
        mixture = to if isinstance(to, GaussianMixture) else to.mixture
        if mixture.channels != 1:
            cause = f"a density of {mixture.channels} channels, but an image has one"
            raise FileError(name, cause, "make a reference of that channel alone")
        _refuse_absurd(name, mixture)
        return Target(mixture, name, not isinstance(to, Reference), files, [])
    scan = read_scan(to, mask, reading=reading)
    files = input_files(target=to, target_mask=mask)
    fitted = fit_scan(scan, fitting)
    warnings = scan.warnings + doubts(scan.volume.path, fitted)
    return Target(fitted.mixture, scan.volume.path, True, files, warnings)


def refuse_coarse(density: GaussianMixture, writing: Writing) -> None:
    """Refuse to write a result as whole numbers where they could not tell tissues apart."""
    sd = float(np.sqrt(density.covariance()[0, 0]))
    if "int" in writing.dtype and sd < _COARSEST:
        raise InvalidValueError(
            f"{writing.dtype} holds whole numbers, but the result would have a spread of {sd:.2g} "
            f"only; choose units with --range 0 1000, for example, or --dtype float32"
        )


def _refuse_absurd(name: str, mixture: GaussianMixture) -> None:
    """Refuse a density with which doubles cannot reckon."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = abs(float(mixture.mean()[0]))
        sd = float(np.sqrt(mixture.covariance()[0, 0]))
    if not (_LEAST < sd < _MOST and mean < _MOST and sd > _SHARPEST * mean):
        cause = f"a density of mean {mean:g} and spread {sd:g}, which no image has"
        raise FileError(name, cause, "check that it is the right file")


def in_units(
    target: Target, scale: Scale | None, ends: tuple[float, float] | None
) -> GaussianMixture:
    """Return the target's density in the units in which the result is wanted.

    Parameters
    ----------
    target : the target.
    scale, ends : see `Matching`; `ends` is its range.
    """
    mixture = target.mixture
    if ends is not None:
        low, high = mixture.quantile(_ENDS).tolist()
        factor = (ends[1] - ends[0]) / (high - low)
        if not (_LEAST < factor < _MOST and abs(ends[0]) < _MOST):
            raise InvalidValueError(
                f"range: {ends[0]:g} to {ends[1]:g} is beyond what numbers can hold; "
                f"choose another range"
            )
        return mixture.transformed(np.array([[factor]]), np.array([ends[0] - factor * low]))
    if scale == "target" and not target.has_units:
        raise InvalidValueError(
            f"{target.name}: a reference has no units of its own for --scale target; "
            f"use --scale standard, or choose units with --range LOW HIGH"
        )
    if scale == "standard":
        affine = align(mixture)
        return mixture.transformed(affine.matrix, affine.offset)
    return mixture
