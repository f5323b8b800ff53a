"""A reference, with the part of it that the method needs, from the models of many scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ndflow.methods.base import Method
from ndflow.methods.model import DensityModel
from ndflow.population import Reference, TissueModel, reference
from ndflow.transport import align

__all__ = ["build_reference"]


def build_reference(
    models: Sequence[DensityModel],
    method: Method,
    *,
    names: Sequence[str] | None = None,
    channel_names: Sequence[str] | str | None = None,
    average: str = "density",
    weights: Sequence[float] | None = None,
    tissues: TissueModel | None = None,
    truncation: int = 20,
    effective_count: float = 3e4,
) -> Reference:
    """Average the models of some scans.

    Parameters
    ----------
    models : one per scan, in an order that does not depend on how they were given: sums of
        landmarks depend on it in the last digit.
    method : what the reference is for.
    names, channel_names, average, weights, truncation, effective_count : see
        `ndflow.population.reference`.
    tissues : of the population, where they are known.
    """
    made = reference(
        [model.mixture for model in models],
        weights=weights,
        average=average,
        names=names,
        channel_names=channel_names,
        truncation=truncation,
        effective_count=effective_count,
    )
    heavy = [1.0] * len(models) if weights is None else weights
    known = [
        (model.landmarks, align(model.mixture), weight)
        for model, weight in zip(models, heavy, strict=True)
        if model.landmarks is not None
    ]
    return replace(
        made,
        landmarks=method.average(known) if known else None,
        tissues=tissues,
    )
