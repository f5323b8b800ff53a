"""The whole way from one density to another: align, match, flow."""

from __future__ import annotations

from collections.abc import Sequence

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.transport.affine import align
from ndflow.transport.exact import LinearTails, QuantileMap
from ndflow.transport.flow import Flow
from ndflow.transport.maps import Chain
from ndflow.transport.match import match

__all__ = ["normalising_map"]

_DETERMINED = (0.0005, 0.9995)  # beyond these quantiles the data do not determine a map


def normalising_map(
    source: GaussianMixture,
    target: GaussianMixture,
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
    source, target : densities with the same channels.
    objective, regularisation, frozen : of the match, see `match`.
    whiten : align whole covariances, see `align`.
    solver : ``"exact"``, the map between the two densities in closed form; or ``"rk4"``, the
        paper's integration of the flow. With several channels it is always the latter.
    steps, path : of the integration, see `Flow`; the exact map depends on neither.
    """
    if solver not in ("exact", "rk4"):
        raise InvalidValueError(f"solver must be 'exact' or 'rk4', not {solver!r}")
    affine = align(source, target, whiten=whiten)
    aligned = source.transformed(affine.matrix, affine.offset)
    matched = match(
        aligned, target, objective=objective, regularisation=regularisation, frozen=frozen
    ).matched
    flow = Flow(aligned, matched, steps, path)
    if source.channels > 1:
        return Chain((affine, flow))
    inner = QuantileMap(aligned, matched) if solver == "exact" else flow
    low, high = aligned.quantile(_DETERMINED).tolist()
    return Chain((affine, LinearTails(inner, low, high)))
