"""What matching minimises: a divergence, and a regulariser that keeps it well-posed.

Minimised to convergence, the divergence alone is ill-posed: it pays to spread a component that is
in the way over the whole line, where it costs next to nothing. (The fixed number of gradient steps
in the paper hides that.) So components are held back by

    γ Σ_k π_k [½ (μ_k − μ_k0)ᵀ Λ_k0 (μ_k − μ_k0) + ¼ ‖ln M_k‖²],                        (1)

with ``M = L0⁻¹ Λ L0⁻ᵀ`` and ``Λ0 = L0 L0ᵀ``. In one channel the bracket is
``½ ((μ − μ0)/σ0)² + ¼ ln²(λ/λ0)``, which is the same in any units.

The optimiser works in coordinates (z, θ) that are zero at the start and of order one:

    μ = μ0 + L0⁻ᵀ z,    Λ = L0 M L0ᵀ,    M = B Bᵀ,                                      (2)

where B is lower triangular, with ``exp(θ_ii / 2)`` on its diagonal and θ_ij below. In one channel
z is the shift in standard deviations and ``θ = ln(λ/λ0)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture, gaussian
from ndflow.transport.divergence import Energy
from ndflow.values import FloatArray


class Objective:
    """The regularised divergence as a function of the components that are free to move."""

    def __init__(
        self, source: GaussianMixture, free: NDArray[np.bool_], energy: Energy, gamma: float
    ) -> None:
        self._source, self._free, self._energy = source, free, energy
        self._held = gamma * source.weights[free]
        self.means, self.precisions = source.means[free], source.precisions[free]
        self._root = gaussian.cholesky(self.precisions)  # L0
        identity = np.broadcast_to(np.eye(source.channels), self._root.shape)
        self._spread = np.swapaxes(np.linalg.solve(self._root, identity), 1, 2)  # L0⁻ᵀ
        self._spread_t = np.swapaxes(self._spread, 1, 2)
        self._lower = np.tril_indices(source.channels)
        self._diagonal = self._lower[0] == self._lower[1]
        self._shape = (len(self.means), source.channels + len(self._lower[0]))

    @property
    def bends(self) -> bool:
        """Whether Newton's method applies: one channel, and γ > 0, else there may be no minimum."""
        return self._source.channels == 1 and bool(self._held.any())

    def start(self) -> FloatArray:
        """Return the coordinates of the source."""
        return np.zeros(self._shape[0] * self._shape[1])

    def parameters(self, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the means and precisions at coordinates (z, θ), equation (2)."""
        z, b = self._unpacked(flat)
        factor = gaussian.product(self._root, b)
        return self._moved(z), gaussian.product(factor, np.swapaxes(factor, 1, 2))

    def in_coordinates(self, flat: FloatArray) -> tuple[float, float, FloatArray]:
        """Return the divergence, the objective, and the objective's gradient in (z, θ)."""
        z, b = self._unpacked(flat)
        m = gaussian.product(b, np.swapaxes(b, 1, 2))
        m_inverse = gaussian.inverse(m)
        half = gaussian.product(self._spread, m_inverse)
        means, covariances = self._source.means.copy(), self._source.covariances.copy()
        means[self._free] = self._moved(z)
        covariances[self._free] = gaussian.product(half, self._spread_t)
        value, by_mean, by_covariance = self._energy(self._source.weights, means, covariances)
        log_m = gaussian.log(m)
        strain = 0.5 * (z * z).sum(axis=1) + 0.25 * (log_m * log_m).sum(axis=(1, 2))
        held = self._held[:, np.newaxis, np.newaxis]
        # Σ = L0⁻ᵀ M⁻¹ L0⁻¹, so dΣ = −L0⁻ᵀ M⁻¹ dM M⁻¹ L0⁻¹; and d ½‖ln M‖² = tr(M⁻¹ ln M dM).
        half_t = np.swapaxes(half, 1, 2)
        pull = gaussian.product(gaussian.product(half_t, by_covariance[self._free]), half)
        push = 0.5 * held * gaussian.product(m_inverse, log_m)
        back = gaussian.times(self._root, z[:, np.newaxis])[:, 0]
        by_moved = by_mean[self._free] + self._held[:, np.newaxis] * back
        by_z = gaussian.times(self._spread_t, by_moved[:, np.newaxis])[:, 0]
        by_b = 2 * gaussian.product(push - pull, b)
        entries = b[:, self._lower[0], self._lower[1]]
        by_theta = by_b[:, self._lower[0], self._lower[1]]
        by_theta = np.where(self._diagonal, 0.5 * entries * by_theta, by_theta)
        gradient = np.concatenate([by_z, by_theta], axis=1).ravel()
        return value, value + float((self._held * strain).sum()), gradient

    def hessian(self, flat: FloatArray) -> FloatArray:
        """Return the second derivatives of the objective in (z, θ), for one channel.

        They follow from ``μ = μ0 + σ0 z`` and ``v = v0 e^{−θ}``: ``dμ = σ0 dz``, ``dv = −v dθ``,
        ``d²v = v dθ²``.
        """
        free = self._free
        z, b = self._unpacked(flat)
        spread = self._spread[:, 0, 0]
        moved = (spread / b[:, 0, 0]) ** 2
        means, variances = self._source.means[:, 0].copy(), self._source.covariances[:, 0, 0].copy()
        means[free], variances[free] = self._moved(z)[:, 0], moved
        by_variance, *seconds = self._energy.curvature(self._source.weights, means, variances)
        by_means, mixed, by_variances = (second[np.ix_(free, free)] for second in seconds)
        result = np.empty((len(z), 2, len(z), 2))
        result[:, 0, :, 0] = np.outer(spread, spread) * by_means + np.diag(self._held)
        result[:, 0, :, 1] = -np.outer(spread, moved) * mixed
        result[:, 1, :, 0] = result[:, 0, :, 1].T
        result[:, 1, :, 1] = np.outer(moved, moved) * by_variances
        result[:, 1, :, 1] += np.diag(moved * by_variance[free] + 0.5 * self._held)
        return result.reshape(flat.size, flat.size)

    def _unpacked(self, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return z and B."""
        d = self._source.channels
        rows = flat.reshape(self._shape)
        theta = rows[:, d:]
        entries = np.where(self._diagonal, np.exp(0.5 * np.clip(theta, -200.0, 200.0)), theta)
        b = np.zeros((len(rows), d, d))
        b[:, self._lower[0], self._lower[1]] = entries
        return rows[:, :d], b

    def _moved(self, z: FloatArray) -> FloatArray:
        return self.means + gaussian.times(self._spread, z[:, np.newaxis])[:, 0]
