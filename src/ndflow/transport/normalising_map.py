"""From one density to another in one call: align, match, flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.transport.flow import Flow, with_far_field
from ndflow.transport.maps import Affine, Chain, align
from ndflow.transport.match import Match, match
from ndflow.transport.quantile_map import LinearTails, QuantileMap, without_gaps

DETERMINED_RANGE = (0.0005, 0.9995)  # beyond these quantiles the data do not determine a map

_PROBES = 2001  # intensities at which an integrated flow is checked to increase


class HasMixture(Protocol):
    """Anything with a density as its ``mixture``: a `Fit` or a `Reference`."""

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
    solver: str = "exact",
    steps: int = 100,
) -> Chain:
    """Return the map that takes intensities with the density `source` to those of `target`.

    It consists of the affine alignment of their moments, and the flow along which the components of
    the source are matched to the target. With one channel, the map increases strictly, also across
    gaps where there are no intensities, and it continues in straight lines below the 0.05th and
    above the 99.95th percentile of the source. With several channels, it becomes the alignment
    alone far from all components (`ndflow.transport.flow`); `ndflow.transport.joint.joint_map`
    gets closer to the target, but needs the voxels.

    Parameters
    ----------
    source, target : densities with the same channels: mixtures, fits or references.
    objective, regularisation, frozen : options of the match, see `match`; those of the paper by
        default, whatever the presets of commands use.
    solver : ``"exact"``, the map between the two densities in closed form; or ``"rk4"``, the
        integration of the flow as in the paper, which is always used for several channels.
    steps : of the integration, see `Flow`; the exact map does not depend on it.

    Returns
    -------
    A chain of the alignment and the flow (or, for one channel, its exact counterpart with straight
    tails).

    Raises
    ------
    InvalidValueError : an option out of its range, or too few steps for an integrated flow of one
        channel to increase everywhere.

    Examples
    --------
    >>> scan = GaussianMixture([0.4, 0.6], [300.0, 500.0], [1 / 900, 1 / 400])
    >>> target = GaussianMixture([0.5, 0.5], [-1.0, 1.0], [9.0, 9.0])
    >>> imap = normalising_map(scan, target)
    >>> imap
    Chain(Affine, LinearTails)
    >>> imap([300.0, 500.0]).round(1)
    array([-1.,  1.])
    """
    pair = (one if isinstance(one, GaussianMixture) else one.mixture for one in (source, target))
    how: Any = {"objective": objective, "regularisation": regularisation, "frozen": frozen}
    return flow_map(*align_and_match(*pair, **how), solver=solver, steps=steps)


def align_and_match(
    source: GaussianMixture,
    target: GaussianMixture,
    *,
    objective: str = "l2",
    regularisation: float = 1e-3,
    frozen: Sequence[int] = (),
) -> tuple[Affine, Match]:
    """Align the moments of a source with those of a target, and match what the alignment leaves.

    Parameters
    ----------
    source, target : densities with the same channels.
    objective, regularisation, frozen : options of the match, see `match`.

    Returns
    -------
    The alignment and the match, as `flow_map` takes them.

    Examples
    --------
    >>> scan = GaussianMixture([1.0], [100.0], [1 / 400])
    >>> target = GaussianMixture([1.0], [0.0], [1.0])
    >>> flow_map(*align_and_match(scan, target))([100.0, 120.0]).round(6) + 0.0
    array([0., 1.])
    """
    affine = align(source, target)
    aligned = source.transformed(affine.matrix, affine.offset)
    matched = match(
        aligned, target, objective=objective, regularisation=regularisation, frozen=frozen
    )
    return affine, matched


def flow_map(affine: Affine, matched: Match, *, solver: str = "exact", steps: int = 100) -> Chain:
    """Return the map of an alignment and the match that followed it.

    Parameters
    ----------
    affine : the alignment of the source.
    matched : the match of the aligned source.
    solver, steps : see `normalising_map`.

    Returns
    -------
    As for `normalising_map`.

    Examples
    --------
    See `align_and_match`.
    """
    if solver not in ("exact", "rk4"):
        raise InvalidValueError(f"solver must be 'exact' or 'rk4', not {solver!r}")
    source, target = matched.source, matched.matched
    if source.channels > 1:
        return Chain((affine, Flow(*with_far_field(source, target), steps)))
    low, high = source.quantile(DETERMINED_RANGE).tolist()
    ends = without_gaps(source, target, DETERMINED_RANGE)
    flow = Flow(*ends, steps)
    if solver == "exact":
        return Chain((affine, LinearTails(QuantileMap(*ends), low, high)))
    if (np.diff(flow(np.linspace(low, high, _PROBES))) <= 0).any():
        raise InvalidValueError(f"{steps} steps are too few; use more steps, or the solver 'exact'")
    return Chain((affine, LinearTails(flow, low, high)))
