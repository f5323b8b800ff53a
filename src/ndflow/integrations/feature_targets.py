"""What features should look like: the target of a table, in the forms in which people have it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ndflow.density import Fit, GaussianMixture, Histogram, histogram
from ndflow.density.joint_histogram import joint_histogram
from ndflow.density.projections import marginal
from ndflow.errors import InvalidValueError
from ndflow.population import Reference
from ndflow.scan.builtin.builtin_references import builtin_reference, is_builtin
from ndflow.scan.model_files import load
from ndflow.transport import IntensityMap
from ndflow.transport.joint.joint_map import EFFECTIVE_COUNT
from ndflow.values import FloatArray, plural, real_array, short

__all__ = ["Density", "goals", "joint_goal"]

_NORMAL = "normal"


class Density(Protocol):
    """Estimate the density of a sample."""

    def __call__(self, data: Histogram, evidence: float = ..., /) -> GaussianMixture:
        """Return the density of data that are worth so many observations."""


def goals(target: object, names: list[str], density: Density) -> list[GaussianMixture]:
    """Return what each feature should look like.

    Parameters
    ----------
    target : as of `DensityFlowTransformer`.
    names : of the features.
    density : estimates the densities of targets that are samples.

    Raises
    ------
    InvalidValueError : a target that is none, or has other channels than the features.
    """
    known = _resolved(target, names)
    d = len(names)
    if isinstance(known, Mapping):
        missing = [name for name in names if name not in known]
        if missing:
            raise InvalidValueError(
                f"target has nothing for {', '.join(missing)}, only for "
                f"{', '.join(map(str, known))}; give X as a DataFrame with these columns"
            )
        return [goals(known[name], [name], density)[0] for name in names]
    if isinstance(known, GaussianMixture):
        parts = [marginal(known, channel) for channel in range(known.channels)]
    else:
        parts = [density(histogram(column)) for column in known.T]
    if len(parts) not in (1, d):
        raise InvalidValueError(
            f"target has {len(parts)} channels, but X has {plural(d, 'feature')}; give one "
            f"channel, or one for each feature"
        )
    return parts * d if len(parts) == 1 else parts


def joint_goal(target: object, names: list[str], density: Density) -> GaussianMixture:
    """Return what all features should look like together; parameters as for `goals`."""
    d = len(names)
    if isinstance(target, str) and target == _NORMAL:
        return GaussianMixture(np.ones(1), np.zeros((1, d)), np.eye(d)[np.newaxis])
    known = _resolved(target, names)
    if isinstance(known, Mapping):
        raise InvalidValueError(
            "target has a density for each feature, which does not say how they depend on each "
            "other; give a joint one, or use joint=False"
        )
    channels = known.channels if isinstance(known, GaussianMixture) else known.shape[1]
    if channels != d:
        raise InvalidValueError(
            f"target has {plural(channels, 'channel')}, but X has {d} features; a joint map needs "
            f"as many"
        )
    if isinstance(known, GaussianMixture):
        return known
    return density(joint_histogram(known), EFFECTIVE_COUNT)


def _resolved(
    target: object, names: list[str]
) -> GaussianMixture | Mapping[str, object] | FloatArray:
    """Return a target as a density, as several by name, or as a sample with one row each."""
    if isinstance(target, str) and target == _NORMAL:
        return GaussianMixture(np.ones(1), np.zeros(1), np.ones(1))
    known = target
    if is_builtin(target):
        known = builtin_reference(target)
    elif isinstance(target, str | os.PathLike):
        known = load(target)
    if isinstance(known, Reference):
        channels = known.channel_names
        if {*channels} == {*names} and channels != tuple(names):
            raise InvalidValueError(
                f"target has the channels {', '.join(channels)}, but X has the same names in "
                f"another order: {', '.join(names)}; sort the columns of X like the channels"
            )
    if isinstance(known, Reference | Fit):
        return known.mixture
    if isinstance(known, GaussianMixture | Mapping):
        return known
    if known is None or isinstance(known, IntensityMap):
        raise InvalidValueError(
            f"target must be 'normal', a density, a reference, a file of either, or a sample, not "
            f"{short(known)}"
        )
    return real_array(known, "target", None, None)  # type: ignore[arg-type]
