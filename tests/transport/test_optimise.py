"""Both searches end at a minimum and never go up; Newton's method finds it to the last digits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from ndflow.transport.optimise import minimise, settle

ROUNDING = 1e-15  # by which the last step may rise


def rosenbrock(x):
    return float(optimize.rosen(x)), np.asarray(optimize.rosen_der(x))


def searched(method, function, hessian, start, iterations=500):
    """The end of a search, and the values on the way."""
    values = [function(start)[0]]
    options = {"accepted": lambda x: values.append(function(x)[0]), "iterations": iterations}
    if method == "newton":
        return settle(function, hessian, start, **options), values
    tolerances = {"value_tolerance": 1e-16, "gradient_tolerance": 1e-9}
    return minimise(function, start, **tolerances, **options), values


@pytest.mark.parametrize(("method", "precise"), [("newton", 1e-9), ("l-bfgs", 1e-4)])
@given(st.floats(-2, 2), st.floats(-1, 3))
def test_a_bent_valley_is_followed_down_to_its_end(method, precise, a, b):
    end, values = searched(method, rosenbrock, optimize.rosen_hess, np.array([a, b]))
    assert end.converged
    np.testing.assert_allclose(end.x, [1, 1], atol=precise)
    assert (np.diff(values) <= ROUNDING).all()


def test_a_saddle_is_left_on_the_side_that_goes_down():
    def function(x):
        a, b = x
        return a**4 / 4 - a**2 / 2 + b**2, np.array([a**3 - a, 2 * b])

    bends = lambda x: np.diag([3 * x[0] ** 2 - 1, 2.0])  # noqa: E731
    end, _ = searched("newton", function, bends, np.array([0.01, 0.5]))
    assert end.converged
    np.testing.assert_allclose(end.x, [1, 0], atol=1e-9)


def test_it_says_when_it_did_not_converge():
    start = np.array([-1.5, 2.0])
    for method in ("newton", "l-bfgs"):
        end, values = searched(method, rosenbrock, optimize.rosen_hess, start, iterations=2)
        assert not end.converged
        assert values[-1] < values[0]

    def wrong(x):  # a gradient that points uphill: no step keeps its promise
        value, gradient = rosenbrock(x)
        return value, -gradient

    end, values = searched("newton", wrong, optimize.rosen_hess, start)
    assert not end.converged
    assert len(values) == 1
