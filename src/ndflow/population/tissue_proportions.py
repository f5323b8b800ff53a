"""Proportions of tissues for a scan without maps: those with which it needs the mildest map.

The map from a scan to the target ``t_s = Σ_g s_g p_g`` joins their quantiles. It is mild where they
lie on a straight line: ``1 − ρ²``, with ρ the correlation of the quantiles of both, is the share of
the target's variance that no affine map explains. Contrast and proportions are confounded, so this
alone would explain contrast by strange proportions; people's proportions are a prior:

    J(s) = 1 − ρ(s)² + λ (s − s̄)ᵀ Σ⁻¹ (s − s̄).                                              (1)

The proportions live on a plane, ``s = s̄ + B z`` with ``Σ = B Bᵀ`` and two coordinates z, and the
prior is ``λ |z|²``. A quantile y of the target moves with s as ``∂y/∂s_g = −P_g(y) / t(y)``, where
P_g is the distribution function of a tissue and t the density of the target.

Where J does not fall clearly below J(s̄), the scan does not tell, and the mean should be kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.population.tissue_model import TissueModel
from ndflow.transport.lbfgs import minimise
from ndflow.values import FloatArray, einsum, positive

__all__ = ["MIDPOINT_LEVELS", "AdaptedProportions", "adapted_proportions"]

MIDPOINT_LEVELS = (np.arange(199) + 0.5) / 199  # at which densities are compared by their quantiles
_LEAST = 0.02  # of any tissue, or half of the mean if that is less
_CLEAR, _SMALL = 0.05, 2e-5  # share by which J must fall, and at least by this much
_FLATTEST = 1e-3  # standard deviation of proportions
_NOTHING, _ITERATIONS = 1e-9, 60


class AdaptedProportions(NamedTuple):
    """Proportions chosen for a scan.

    Attributes
    ----------
    proportions : (3,), in the order of `TISSUES`.
    before, after : J of equation (1) at the mean proportions, and at these.
    """

    proportions: FloatArray
    before: float
    after: float

    @property
    def clear(self) -> bool:
        """Whether they are clearly better than the mean."""
        return self.gain > _CLEAR and self.before - self.after > _SMALL

    @property
    def gain(self) -> float:
        """The share by which J fell."""
        return 1 - self.after / self.before if self.before > 0 else 0.0


def adapted_proportions(
    scan: GaussianMixture, model: TissueModel, *, prior_strength: float = 1e-3
) -> AdaptedProportions:
    """Return the proportions with which a scan needs the mildest map.

    Parameters
    ----------
    scan : its density, in any units.
    model : the tissues of the population.
    prior_strength : λ of equation (1).
    """
    if scan.channels != 1:
        raise InvalidValueError(f"scan must have one channel, not {scan.channels}")
    strength = positive(prior_strength, "prior_strength")
    variances, axes = np.linalg.eigh(model.covariance)
    plane = axes[:, 1:] * np.sqrt(np.maximum(variances[1:], _FLATTEST**2))
    least = min(_LEAST, 0.5 * float(model.mean.min()))
    own = scan.quantile(MIDPOINT_LEVELS)
    own = (own - own.mean()) / own.std()

    def objective(z: FloatArray) -> tuple[float, FloatArray]:
        s = model.mean + einsum("gi,i->g", plane, z)
        if (s < least).any():
            return np.inf, np.zeros(2)
        target = model.target(s / s.sum())
        y = target.quantile(MIDPOINT_LEVELS)
        centred, spread = y - y.mean(), y.std()
        rho = float((own * centred).mean() / spread)
        by_y = (own / spread - rho * centred / spread**2) / y.size
        by_s = np.array([-(by_y * p.cdf(y) / target.pdf(y)).sum() for p in model.densities])
        value = max(0.0, 1 - rho**2) + strength * float((z * z).sum())
        return value, -2 * rho * einsum("g,gi->i", by_s, plane) + 2 * strength * z

    start = np.zeros(2)
    before, _ = objective(start)
    end = minimise(
        objective,
        start,
        accepted=lambda _: None,
        value_tolerance=_NOTHING,
        gradient_tolerance=_NOTHING,
        iterations=_ITERATIONS,
    )
    s = model.mean + einsum("gi,i->g", plane, end.x)
    return AdaptedProportions(s / s.sum(), before, objective(end.x)[0])
