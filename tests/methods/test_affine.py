"""`affine`: the mean and the standard deviation of the density."""

import numpy as np
import pytest
from mixtures import moved, random_mixture

from ndflow.methods.base import DensityModel, method_of
from ndflow.options import Options
from ndflow.transport import align, match

SOURCE, TARGET = (random_mixture(np.random.default_rng(seed), 4) for seed in range(2))


@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_the_map_is_the_alignment_and_the_divergence_where_a_match_would_start(
    objective: str,
) -> None:
    options = Options(method="affine", objective=objective)  # type: ignore[arg-type]
    source = DensityModel(SOURCE.transformed(300.0, 700.0))
    solution = method_of(options).solve(source, DensityModel(TARGET), options)
    expected = align(source.mixture, TARGET)
    assert solution.imap == solution.affine == expected
    started = match(moved(source.mixture, expected), TARGET, objective=objective).divergences[0]
    assert solution.divergence is not None
    assert solution.divergence.objective == objective
    assert solution.divergence.before == solution.divergence.after
    assert solution.divergence.before == pytest.approx(started, rel=1e-9)
    after = moved(source.mixture, expected)
    np.testing.assert_allclose(after.mean(), TARGET.mean(), atol=1e-12)
    np.testing.assert_allclose(after.covariance(), TARGET.covariance(), rtol=1e-12)
