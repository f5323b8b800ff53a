"""`ndflow`: the flow from the density of a scan to its target, and what can be kept out of it."""

from typing import Any

import numpy as np
import pytest
from mixtures import random_mixture

import ndflow
from ndflow import Affine, GaussianMixture, InvalidValueError
from ndflow.density import stack
from ndflow.methods.base import DensityModel, Solution, method_of
from ndflow.options import Options
from ndflow.population import TissueModel, Tissues

SOURCE, TARGET = (random_mixture(np.random.default_rng(seed), 4) for seed in range(2))
LEVELS = (np.arange(199) + 0.5) / 199


def solved(source: DensityModel, goal: DensityModel, **chosen: Any) -> Solution:
    options = Options(**chosen)
    return method_of(options).solve(source, goal, options)


@pytest.mark.parametrize("solver", ["exact", "rk4"])
@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_the_map_is_the_one_that_normalising_map_makes(solver: Any, objective: Any) -> None:
    source = SOURCE.transformed(300.0, 700.0)
    found = solved(DensityModel(source), DensityModel(TARGET), solver=solver, objective=objective)
    exact = ndflow.normalising_map(source, TARGET, solver=solver, objective=objective)
    x = source.quantile(LEVELS)
    sd = float(np.sqrt(TARGET.covariance()[0, 0]))
    np.testing.assert_allclose(found.imap(x), exact(x), atol=1.1e-4 * sd)
    assert found.divergence is not None
    assert found.divergence.objective == objective
    assert found.divergence.after < found.divergence.before


def tissue_example() -> tuple[DensityModel, DensityModel]:
    """A scan with much CSF, and a population with less, in other units."""
    densities = tuple(GaussianMixture([1.0], [m], [60.0**-2]) for m in (300.0, 700.0, 1000.0))
    shares = np.array([0.35, 0.4, 0.25])
    scan = DensityModel(stack(densities, shares), tissues=Tissues(densities, shares))
    usual = np.array([0.15, 0.5, 0.35])
    model = TissueModel(densities, usual, 0.05**2 * (np.eye(3) - 1 / 3))
    units = ndflow.transport.align(model.target(usual))
    target = DensityModel(model.target(usual), tissues=model)
    return scan, target.transformed(units).transformed(Affine(200.0, 1000.0))


def test_what_the_plain_average_would_have_given_is_said_in_standard_deviations() -> None:
    scan, goal = tissue_example()
    plain, own = solved(scan, goal), solved(scan, goal, proportions="tissue")
    assert plain.target is None
    assert own.target is not None
    assert own.target.plain is not None
    x = scan.mixture.quantile(LEVELS)
    sd = float(np.sqrt(goal.mixture.covariance()[0, 0]))
    off = np.abs(plain.imap(x) - own.imap(x)) / sd
    assert off.max() > 0.05
    assert own.target.plain.rms_difference == pytest.approx(np.sqrt(np.mean(off**2)))
    assert own.target.plain.largest_difference == pytest.approx(off.max())
    assert own.target.plain.divergence == plain.divergence


# ── frozen components ────────────────────────────────────────────────────────────────────────────


def test_frozen_components_stay_where_the_alignment_puts_them() -> None:
    found = solved(DensityModel(SOURCE), DensityModel(TARGET), freeze=("weight<1",))
    assert found.frozen == tuple(range(SOURCE.components))
    x = SOURCE.quantile(LEVELS)
    sd = float(np.sqrt(TARGET.covariance()[0, 0]))
    np.testing.assert_allclose(found.imap(x), found.affine(x), atol=2e-4 * sd)
    assert solved(DensityModel(SOURCE), DensityModel(TARGET), freeze=("weight<0",)).frozen == ()
    assert solved(DensityModel(SOURCE), DensityModel(TARGET)).frozen is None


def test_a_rule_that_makes_no_sense_is_refused_before_any_work() -> None:
    with pytest.raises(InvalidValueError, match="rule 'heavy'"):
        method_of(Options(freeze=("heavy",)))
