"""What one scan is matched to: the average of a population, or its tissues in own proportions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.methods.model import Portrait
from ndflow.population import TISSUES, TissueModel, Tissues, adapted_proportions, without_components
from ndflow.settings import Matching
from ndflow.values import FloatArray

__all__ = ["Aim", "aim_again", "aim_of", "in_words"]

_CLEARLY = 1.0  # by how many standard deviations of a tissue two of them differ


class Aim(NamedTuple):
    """What a scan is matched to.

    Attributes
    ----------
    density : where to.
    record : how it was chosen, for people; None for the plain average.
    """

    density: GaussianMixture
    record: dict[str, Any] | None = None


def aim_of(
    source: Portrait, target: Portrait, matching: Matching, kept_out: Sequence[int] = ()
) -> Aim:
    """Return what a scan is matched to.

    Parameters
    ----------
    source, target : the scan, and what stands for the population.
    matching : how.
    kept_out : components of the scan that are lesions, and no tissue.
    """
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
        _refuse_other_order(source.tissues, model)
        own = source.tissues.proportions
        return Aim(model.target(own), _record("tissues", own, "maps of its tissues", model))
    found = adapted_proportions(without_components(source.mixture, kept_out), model)
    if not found.clear:
        how = f"no proportions make its map clearly milder (by {found.gain:.0%} at most)"
        return Aim(target.mixture, _record("average", model.mean, how, model))
    how = f"the mildest map, by {found.gain:.0%} milder than with the mean proportions"
    own = found.proportions
    return Aim(model.target(own), _record("tissues", own, how, model))


def _refuse_other_order(own: Tissues, model: TissueModel) -> None:
    """Refuse tissues that are clearly darker and brighter than each other the other way round.

    No increasing map could bring them to those of the population: maps must have been swapped.
    """
    apart, usually_apart = _differences(own.densities), _differences(model.densities)
    wrong = (apart * usually_apart < 0) & (np.minimum(abs(apart), abs(usually_apart)) > _CLEARLY)
    if wrong.any():
        one, two = np.argwhere(wrong)[0]
        order = "brighter" if apart[one, two] > 0 else "darker"
        raise InvalidValueError(
            f"by the maps of its tissues {TISSUES[one]} is {order} than {TISSUES[two]}, but in the "
            f"reference it is the other way round; check which map is which"
        )


def _differences(densities: Sequence[GaussianMixture]) -> FloatArray:
    """Return by how much the mean of each tissue exceeds that of each other, (3, 3).

    In units of the mean spread within tissues.
    """
    means = np.array([density.mean()[0] for density in densities])
    spread = np.sqrt(np.mean([density.covariance()[0, 0] for density in densities]))
    result: FloatArray = (means[:, np.newaxis] - means) / spread
    return result


def aim_again(record: Mapping[str, Any], target: Portrait) -> GaussianMixture:
    """Return what a scan was matched to, as its record says."""
    aim = record.get("aim")
    if not aim or aim["to"] == "average" or not isinstance(target.tissues, TissueModel):
        return target.mixture
    return target.tissues.target([aim["proportions"][name] for name in TISSUES])


def in_words(aim: Mapping[str, Any]) -> str:
    """Say what a scan was matched to, and what the plain target would have given."""
    off = f"{aim['plain']['rms_difference']:.2g} standard deviations"
    if aim["to"] == "average":
        return f"Matched to the average of all: {aim['from']}."
    own = ", ".join(f"{share:.0%} {name}" for name, share in aim["proportions"].items())
    usual = ", ".join(f"{share:.0%}" for share in aim["population"].values())
    return (
        f"Matched to {own} (mean of the population: {usual}), from {aim['from']}. "
        f"The plain average would have taken voxels elsewhere by {off} (root mean square)."
    )


def _record(to: str, proportions: FloatArray, source: str, model: TissueModel) -> dict[str, Any]:
    return {
        "to": to,
        "proportions": dict(zip(TISSUES, np.asarray(proportions).tolist(), strict=True)),
        "from": source,
        "population": dict(zip(TISSUES, model.mean.tolist(), strict=True)),
        "tissues": model.source,
    }
