"""What one scan is matched to: the average of a population, or its tissues in own proportions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.population import TISSUES, TissueModel, Tissues, adapted
from ndflow.values import FloatArray
from ndflow.workflow.portrait import Portrait
from ndflow.workflow.settings import Matching

__all__ = ["Aim", "aim_of"]


class Aim(NamedTuple):
    """What a scan is matched to.

    Attributes
    ----------
    density : where to.
    record : how it was chosen, for people; None for the plain average.
    """

    density: GaussianMixture
    record: dict[str, Any] | None = None


def aim_of(source: Portrait, target: Portrait, matching: Matching) -> Aim:
    """Return what a scan is matched to."""
    if matching.target == "average":
        return Aim(target.mixture)
    model = target.tissues
    if not isinstance(model, TissueModel):
        raise InvalidValueError(f"the target {matching.target!r} needs the tissues of a population")
    if matching.target == "tissue":
        if not isinstance(source.tissues, Tissues):
            raise InvalidValueError(
                "maps of CSF, GM and WM are needed for the target 'tissue'; give --csf, --gm and "
                "--wm (or columns of a table), or use --target adaptive"
            )
        own = source.tissues.proportions
        return Aim(model.target(own), _record(own, "maps of its tissues", model))
    found = adapted(source.mixture, model)
    gain = 1 - found.after / found.before
    if not found.clear:
        how = f"the average: no proportions make its map clearly milder ({gain:.0%})"
        return Aim(target.mixture, _record(model.mean, how, model))
    how = f"the mildest map ({gain:.0%} milder than with the mean proportions)"
    return Aim(model.target(found.proportions), _record(found.proportions, how, model))


def _record(proportions: FloatArray, source: str, model: TissueModel) -> dict[str, Any]:
    return {
        "proportions": dict(zip(TISSUES, np.asarray(proportions).tolist(), strict=True)),
        "from": source,
        "population": dict(zip(TISSUES, model.mean.tolist(), strict=True)),
        "tissues": model.source,
    }
