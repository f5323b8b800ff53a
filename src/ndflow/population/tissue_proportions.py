"""Tissue proportions for a scan without tissue maps: those that need the mildest intensity map.

The map from a scan to the target ``t_s = Σ_g s_g p_g`` takes quantiles to quantiles. It is mild if
these lie on a straight line: ``1 − ρ²``, with ρ the correlation of the quantiles of both, is the
share of the target's variance that no affine map explains. Contrast and proportions are confounded,
so this alone would explain contrast by implausible proportions; the proportions of the population
serve as a prior:

    J(s) = 1 − ρ(s)² + λ (s − s̄)ᵀ Σ⁻¹ (s − s̄).                                              (1)

The proportions live on a plane, ``s = s̄ + B z`` with ``Σ = B Bᵀ`` and two coordinates z, and the
prior is ``λ |z|²``. A quantile y of the target moves with s as ``∂y/∂s_g = −P_g(y) / t(y)``, where
P_g is the distribution function of a tissue and t the density of the target.

Where J does not fall clearly below J(s̄), the scan says nothing about its proportions, and the mean
should be kept.
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

# Quantiles at which densities are compared: midpoints of 199 equal shares of the mass. The grid of
# `ndflow.density.QUANTILE_LEVELS`, i/200, is another one on purpose: moving to it would change the
# proportions that are chosen, and with them the results.
MIDPOINT_LEVELS = (np.arange(199) + 0.5) / 199
_LEAST = 0.02  # smallest proportion of a tissue, or half of its mean if that is less
_CLEAR, _SMALL = 0.05, 2e-5  # relative and absolute decrease of J that counts as clear
_SMALLEST_SD = 1e-3  # of proportions
_TOLERANCE, _ITERATIONS = 1e-9, 60


class AdaptedProportions(NamedTuple):
    """The result of `adapted_proportions`.

    Attributes
    ----------
    proportions : (3,), in the order of `TISSUES`.
    before, after : J of equation (1) of the module at the mean proportions, and at these.

    Examples
    --------
    >>> found = AdaptedProportions(np.array([0.3, 0.4, 0.3]), before=0.02, after=0.005)
    >>> found.gain, found.clear
    (0.75, True)
    """

    proportions: FloatArray
    before: float
    after: float

    @property
    def clear(self) -> bool:
        """Whether these proportions are clearly better than the mean."""
        return self.gain > _CLEAR and self.before - self.after > _SMALL

    @property
    def gain(self) -> float:
        """The relative decrease of J."""
        return 1 - self.after / self.before if self.before > 0 else 0.0


def adapted_proportions(
    scan: GaussianMixture, model: TissueModel, *, prior_strength: float = 1e-3
) -> AdaptedProportions:
    """Return the tissue proportions with which a scan needs the mildest intensity map.

    Parameters
    ----------
    scan : the density of the scan, in one channel and any units.
    model : the tissues of the population.
    prior_strength : λ of equation (1) of the module.

    Raises
    ------
    InvalidValueError : several channels, or a prior strength that is not positive.

    Examples
    --------
    >>> csf, gm, wm = (GaussianMixture([1.0], [mean], [20.0]) for mean in (-2.0, 0.0, 1.0))
    >>> model = TissueModel((csf, gm, wm), [0.2, 0.45, 0.35], 1e-3 * (np.eye(3) - 1 / 3))
    >>> scan = model.target([0.3, 0.4, 0.3])
    >>> adapted = adapted_proportions(scan, model)
    >>> adapted.clear
    True
    >>> adapted.proportions.round(1)
    array([0.3, 0.4, 0.3])
    """
    if scan.channels != 1:
        raise InvalidValueError(f"scan must have one channel, not {scan.channels}")
    strength = positive(prior_strength, "prior_strength")
    variances, axes = np.linalg.eigh(model.covariance)
    plane = axes[:, 1:] * np.sqrt(np.maximum(variances[1:], _SMALLEST_SD**2))
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
        value_tolerance=_TOLERANCE,
        gradient_tolerance=_TOLERANCE,
        iterations=_ITERATIONS,
    )
    s = model.mean + einsum("gi,i->g", plane, end.x)
    return AdaptedProportions(s / s.sum(), before, objective(end.x)[0])
