"""The bound on the evidence: it never falls, and equals the evidence where that has a formula.

Truths: the Normal-Wishart evidence, a sum over all assignments of a handful of points, and
the one-channel Normal-Gamma formulas of the paper.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from ndflow import Histogram
from ndflow.density import fit
from ndflow.density.variational import Data, Moments, Prior, sweep

seeds = st.integers(0, 2**32 - 1)


def prior_of(h: Histogram) -> tuple[np.ndarray, float, float, np.ndarray]:
    """m0, κ0, ν0 and W0⁻¹ as documented: ``E Λ = ν0 W0 = (1 + κ0)/κ0 · Cov⁻¹``."""
    strength, dof = 0.1, h.channels + 3.0
    scale = np.linalg.inv((1 + strength) / (strength * dof) * np.linalg.inv(h.covariance()))
    return h.mean(), strength, dof, scale


def log_evidence(x, counts, m0, strength, dof, scale) -> float:
    """``ln ∫ Π_n N(x_n; μ, Λ⁻¹)^c_n dNW(μ, Λ)``, also for fractional counts."""
    d, total = x.shape[1], counts.sum()
    mean = counts @ x / max(total, 1e-300)
    scatter = (x - mean).T @ ((x - mean) * counts[:, np.newaxis])
    pull = strength * total / (strength + total) * np.outer(mean - m0, mean - m0)
    log_det0, log_det = (np.linalg.slogdet(s)[1] for s in (scale, scale + scatter + pull))
    return float(
        -0.5 * total * d * np.log(np.pi)
        + special.multigammaln((dof + total) / 2, d)
        - special.multigammaln(dof / 2, d)
        + 0.5 * (dof * log_det0 - (dof + total) * log_det)
        + 0.5 * d * np.log(strength / (strength + total))
    )


@given(
    seeds, st.integers(1, 3), st.sampled_from([1e-3, 1.0, 500.0]), st.sampled_from([30.0, 1e9])
)  # fmt: skip
def test_with_one_component_the_bound_is_the_exact_evidence(seed, d, units, worth):
    g = np.random.default_rng(seed)
    mixing = units * g.standard_normal((d, d))
    h = Histogram(g.standard_normal((40, d)) @ mixing + 7 * units, g.uniform(0.5, 4, 40))
    fitted = fit(h, truncation=1, effective_count=worth)
    exact = log_evidence(h.values, h.counts * min(1.0, worth / h.total), *prior_of(h))
    np.testing.assert_allclose(fitted.bounds[-1], exact, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_with_two_components_the_bound_lies_below_the_exact_evidence_but_not_far(seed):
    h = Histogram(np.random.default_rng(seed).standard_normal(7), np.ones(7))
    terms = []  # all ways to assign the points to the two components of a truncated process
    for labels in itertools.product([False, True], repeat=7):
        second = np.array(labels)
        log_odds = special.betaln(1 + (~second).sum(), 2 + second.sum()) - special.betaln(1, 2)
        inside = sum(log_evidence(h.values, 1.0 * part, *prior_of(h)) for part in (~second, second))
        terms.append(log_odds + inside)
    exact = special.logsumexp(terms)
    assert exact - 5 < fit(h, truncation=2, concentration=2.0).bounds[-1] < exact


def random_moments(g: np.random.Generator, components: int, d: int, total: float) -> Moments:
    roots = g.standard_normal((components, d, d))
    mass = total * g.dirichlet(np.full(components, 0.5))
    return Moments(
        mass,
        2 * g.standard_normal((components, d)),
        mass[:, np.newaxis, np.newaxis] * roots @ roots.swapaxes(1, 2),
    )


@given(seeds, st.integers(1, 3), st.integers(1, 6))
def test_the_bound_never_falls_in_a_sweep_from_any_moments(seed, d, components):
    g = np.random.default_rng(seed)
    data = Data(g.standard_normal((80, d)), g.uniform(0, 30, 80), 0.01 * np.eye(d))
    moments = random_moments(g, components, d, data.counts.sum())
    bounds = []
    for _ in range(12):
        bound, moments = sweep(data, Prior(2.0, 0.1, d + 3.0, np.eye(d)), moments)
        bounds.append(bound)
    assert (np.diff(bounds) >= -1e-12 * np.abs(bounds[1:])).all()


def normal_gamma_sweep(x, c, alpha, kappa0, a0, b0, mass, mean, scatter):
    """The bound, and the next mass, mean and scatter, in plain scalars and with m0 = 0."""
    g1, g2 = 1 + mass[:-1], alpha + np.array([mass[t + 1 :].sum() for t in range(len(mass) - 1)])
    log_v = special.psi(g1) - special.psi(g1 + g2)
    log_rest = special.psi(g2) - special.psi(g1 + g2)
    log_pi = np.append(log_v, 0.0) + np.append(0.0, np.cumsum(log_rest))

    kappa = kappa0 + mass
    m = mass * mean / kappa
    a = a0 + mass / 2
    b = b0 + 0.5 * (scatter + kappa0 * mass / kappa * mean**2)
    log_rho = (
        log_pi
        + 0.5 * (special.psi(a) - np.log(b) - np.log(2 * np.pi) - 1 / kappa)
        - 0.5 * a / b * (x[:, np.newaxis] - m) ** 2
    )
    sticks = (
        np.log(alpha) + (1 - g1) * log_v + (alpha - g2) * log_rest + special.betaln(g1, g2)
    ).sum()
    components = (
        special.gammaln(a) - special.gammaln(a0) + a0 * np.log(b0 / b) + (a0 - a) * special.psi(a)
        + a * (1 - b0 / b)
        + 0.5 * (np.log(kappa0 / kappa) + 1 - kappa0 / kappa - kappa0 * a / b * m**2)
    ).sum()  # fmt: skip
    bound = (c * special.logsumexp(log_rho, axis=1)).sum() + sticks + components

    r = special.softmax(log_rho, axis=1) * c[:, np.newaxis]
    mass = r.sum(axis=0)
    mean = (r * x[:, np.newaxis]).sum(axis=0) / mass
    scatter = (r * (x[:, np.newaxis] - mean) ** 2).sum(axis=0)
    return bound, mass, mean, scatter


@given(seeds, st.integers(1, 6), st.floats(0.1, 10), st.floats(0.01, 5), st.floats(0.6, 5))
def test_in_one_channel_a_sweep_is_the_normal_gamma_sweep(seed, components, alpha, kappa0, a0):
    g = np.random.default_rng(seed)
    x, c, b0 = g.standard_normal(60), g.uniform(0, 30, 60), float(g.uniform(0.1, 3))
    moments = random_moments(g, components, 1, c.sum())
    scalars = (moments.mass, moments.mean[:, 0], moments.scatter[:, 0, 0])
    # Wishart: ν = 2a, W⁻¹ = 2b.
    prior = Prior(alpha, kappa0, 2 * a0, np.array([[2 * b0]]))
    for _ in range(3):
        bound, moments = sweep(Data(x[:, np.newaxis], c, np.zeros((1, 1))), prior, moments)
        expected, *scalars = normal_gamma_sweep(x, c, alpha, kappa0, a0, b0, *scalars)
        np.testing.assert_allclose(bound, expected, rtol=1e-10)
        for ours, plain in zip(moments, scalars, strict=True):
            np.testing.assert_allclose(ours.ravel(), plain, rtol=1e-7, atol=1e-9)
