"""Newton's method ends at a minimum, to the last digits, and never goes up."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ndflow.transport.optimise import settle

ROUNDING = 1e-15  # by which the last step may rise


def settled(function, hessian, start, iterations=100):
    values = [function(start)[0]]
    end = settle(
        function,
        hessian,
        start,
        accepted=lambda x: values.append(function(x)[0]),
        iterations=iterations,
    )
    return end, values


@given(st.integers(0, 10**6))
def test_a_parabola_is_minimised_at_once(seed):
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(4, 4))
    matrix, bottom = root @ root.T + 0.1 * np.eye(4), generator.uniform(-0.3, 0.3, 4)

    def function(x):
        return float(0.5 * (x - bottom) @ matrix @ (x - bottom)), matrix @ (x - bottom)

    end, values = settled(function, lambda _: matrix, np.zeros(4))
    assert end.converged
    assert end.iterations <= 3
    np.testing.assert_allclose(end.x, bottom, rtol=0, atol=1e-12)
    assert (np.diff(values) <= ROUNDING).all()


def rosenbrock(x):
    a, b = x
    value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
    return value, np.array([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)])


def bends(x):
    a, b = x
    return np.array([[2 - 400 * (b - 3 * a * a), -400 * a], [-400 * a, 200.0]])


@given(st.floats(-2, 2), st.floats(-1, 3))
def test_a_bent_valley_is_followed_down_to_its_end(a, b):
    end, values = settled(rosenbrock, bends, np.array([a, b]))
    assert end.converged
    np.testing.assert_allclose(end.x, [1, 1], atol=1e-9)
    assert (np.diff(values) <= ROUNDING).all()


def test_a_saddle_is_left_on_the_side_that_goes_down():
    def function(x):
        a, b = x
        return a**4 / 4 - a**2 / 2 + b**2, np.array([a**3 - a, 2 * b])

    end, _ = settled(function, lambda x: np.diag([3 * x[0] ** 2 - 1, 2.0]), np.array([0.01, 0.5]))
    assert end.converged
    np.testing.assert_allclose(end.x, [1, 0], atol=1e-9)


def test_it_says_when_it_did_not_converge():
    end, values = settled(rosenbrock, bends, np.array([-1.5, 2.0]), iterations=2)
    assert not end.converged
    assert end.iterations == 2
    assert values[-1] < values[0]

    def wrong(x):  # a gradient that points uphill: no step keeps its promise
        value, gradient = rosenbrock(x)
        return value, -gradient

    end, values = settled(wrong, bends, np.array([-1.5, 2.0]))
    assert not end.converged
    assert len(values) == 1
