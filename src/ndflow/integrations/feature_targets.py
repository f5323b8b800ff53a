"""What features should look like: the target of a table, in the forms in which people have it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ndflow.density import Fit, GaussianMixture, Histogram, histogram
from ndflow.density.joint_histogram import joint_histogram
from ndflow.density.projections import marginal
from ndflow.errors import DegenerateDataError, InvalidValueError
from ndflow.population import Reference
from ndflow.scan.builtin.builtin_references import builtin_reference, is_builtin
from ndflow.scan.model_files import load
from ndflow.transport.joint.joint_map import EFFECTIVE_COUNT
from ndflow.values import FloatArray, plural, real_array, short

__all__ = ["Density", "goals", "joint_goal"]

_NORMAL = "normal"


class Density(Protocol):
    """Estimate the density of a sample."""

    def __call__(self, data: Histogram, evidence: float = ..., /) -> GaussianMixture:
        """Return the density of data that are worth so many observations."""


def goals(
    target: object, names: list[str], density: Density, *, named: bool = False
) -> list[GaussianMixture]:
    """Return what each feature should look like.

    Parameters
    ----------
    target : as of `DensityFlowTransformer`.
    names : of the features.
    density : estimates the densities of targets that are samples.
    named : whether the names are those of columns of `X`, by which columns of a target are found,
        and not numbers.

    Raises
    ------
    InvalidValueError : a target that is none, or has other channels than the features.
    DegenerateDataError : a target that is a sample without two different values.
    """
    known = _resolved(target, names, named)
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


def joint_goal(
    target: object, names: list[str], density: Density, *, named: bool = False
) -> GaussianMixture:
    """Return what all features should look like together; parameters as for `goals`."""
    d = len(names)
    if isinstance(target, str) and target == _NORMAL:
        return GaussianMixture(np.ones(1), np.zeros((1, d)), np.eye(d)[np.newaxis])
    known = _resolved(target, names, named)
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
    target: object, names: list[str], named: bool
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
    if not isinstance(known, Sequence) and not hasattr(known, "__array__"):
        raise InvalidValueError(
            f"target must be 'normal', a density, a reference, a file of either, a sample, or a "
            f"dictionary of these by the names of features, not {short(known)}"
        )
    sample = real_array(known, "target", None, None)
    order = _order(known, names) if named else None
    return _varied(sample if order is None else sample[:, order])


def _order(table: object, names: list[str]) -> list[int] | None:
    """Return which columns of a table are the features; None if its columns have no names."""
    columns = list(getattr(table, "columns", ()))
    if not columns or not all(isinstance(column, str) for column in columns):
        return None
    if columns == names:
        return None
    if sorted(columns) != sorted(names) or len({*columns}) < len(columns):
        raise InvalidValueError(
            f"target has the columns {', '.join(columns)}, but X has {', '.join(names)}; give it "
            f"the columns of X, or target.to_numpy(), which is taken by position"
        )
    return [columns.index(name) for name in names]


def _varied(sample: FloatArray) -> FloatArray:
    """Return a sample if each of its columns has a density."""
    if sample.size == 0:
        raise DegenerateDataError(
            "target is an empty sample; give at least two different values, better hundreds"
        )
    constant = np.flatnonzero(np.ptp(sample, axis=0) == 0)
    if constant.size:
        where = f" in column {constant[0]}" if sample.shape[1] > 1 else ""
        count = plural(len(sample), "value")
        raise DegenerateDataError(
            f"target needs at least two different values to have a density, but its {count}{where} "
            f"{'is' if len(sample) == 1 else 'are all'} {sample[0, constant[0]]:g}"
        )
    return sample
