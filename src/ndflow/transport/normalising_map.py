"""The whole way from one density to another: align, match, flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.transport.alignment import Affine, align
from ndflow.transport.flow import Flow
from ndflow.transport.maps import Chain
from ndflow.transport.match import Match, match
from ndflow.transport.quantile_map import LinearTails, QuantileMap

__all__ = ["DETERMINED_RANGE", "HasMixture", "flow_map", "normalising_map"]

DETERMINED_RANGE = (0.0005, 0.9995)  # beyond these quantiles the data do not determine a map


class HasMixture(Protocol):
    """What has a density: a `Fit`, a `Reference`."""

    @property
    def mixture(self) -> GaussianMixture:
        """The density."""


def normalising_map(
    source: GaussianMixture | HasMixture,
    target: GaussianMixture | HasMixture,
    *,
    objective: str = "l2",
    regularisation: float = 1e-3,
    frozen: Sequence[int] = (),
    whiten: bool = False,
    solver: str = "exact",
    steps: int = 100,
    path: str = "sigma",
) -> Chain:
    """Return the map that takes intensities with the density `source` to those of `target`.

    The affine alignment of their moments, then the flow of the source's components matched to
    the target. With one channel the map goes on in straight lines beyond the 0.05th and the
    99.95th percentile of the source.

    Parameters
    ----------
    source, target : densities with the same channels, or what has one: a fit, a reference.
    objective, regularisation, frozen : of the match, see `match`.
    whiten : align whole covariances, see `align`.
    solver : ``"exact"``, the map between the two densities in closed form; or ``"rk4"``, the
        paper's integration of the flow. With several channels it is always the latter.
    steps, path : of the integration, see `Flow`; the exact map depends on neither.
    """
    begin, end = _density(source, "source"), _density(target, "target")
    affine = align(begin, end, whiten=whiten)
    aligned = begin.transformed(affine.matrix, affine.offset)
    matched = match(aligned, end, objective=objective, regularisation=regularisation, frozen=frozen)
    return flow_map(affine, matched, solver=solver, steps=steps, path=path)


def flow_map(
    affine: Affine, matched: Match, *, solver: str = "exact", steps: int = 100, path: str = "sigma"
) -> Chain:
    """Return the map that goes along with an alignment and the match that followed it.

    Parameters
    ----------
    affine, matched : what the source went through.
    solver, steps, path : see `normalising_map`.
    """
    if solver not in ("exact", "rk4"):
        raise InvalidValueError(f"solver must be 'exact' or 'rk4', not {solver!r}")
    before, after = matched.source, matched.matched
    flow = Flow(before, after, steps, path)
    if before.channels > 1:
        return Chain((affine, flow))
    inner = QuantileMap(before, after) if solver == "exact" else flow
    low, high = before.quantile(DETERMINED_RANGE).tolist()
    return Chain((affine, LinearTails(inner, low, high)))


def _density(thing: GaussianMixture | HasMixture, name: str) -> GaussianMixture:
    mixture = thing if isinstance(thing, GaussianMixture) else getattr(thing, "mixture", None)
    if not isinstance(mixture, GaussianMixture):
        raise InvalidValueError(
            f"{name} must be a mixture, a fit or a reference, not {type(thing).__name__}"
        )
    return mixture
