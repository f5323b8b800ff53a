"""Linear interpolants are as close to their map as 32-bit floats can resolve, or None."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mixtures import random_mixture

import ndflow
from ndflow.transport import linear_interpolant


@example(0)
@given(st.integers(0, 10**6))
def test_an_interpolant_is_as_good_as_the_map(seed):
    generator = np.random.default_rng(seed)
    source, target = (random_mixture(generator, 4, 1) for _ in range(2))
    low, high = source.quantile([0.001, 0.999]).tolist()
    imap = ndflow.transport.tabulate(ndflow.normalising_map(source, target), low, high)
    found = linear_interpolant(imap, low - 1, high + 3)
    assert found is not None or seed > 0
    assume(found is not None)  # about one pair in seventy needs too many intervals
    x = generator.uniform(low - 1, high + 3, 5000)
    x[:2] = low - 1, high + 3
    values = imap(x)
    assert np.abs(found(x) - values).max() <= 1.01 * 2**-25 * abs(np.ptp(imap([low - 1, high + 3])))


def test_the_interpolant_of_a_straight_line_is_that_line():
    found = linear_interpolant(ndflow.Affine(-2.0, 5.0), -3.0, 9.0)
    x = np.linspace(-3, 9, 1001)
    np.testing.assert_allclose(found(x), 5 - 2 * x, rtol=0, atol=1e-13)


class Corner(ndflow.Affine):
    """A map with a corner, which no number of intervals can follow well enough."""

    def _mapped(self, x):
        return np.abs(x - 1 / 3) + 2 * x


def test_there_is_none_if_too_many_intervals_would_be_needed():
    assert linear_interpolant(Corner(1.0, 0.0), -1.0, 1.0) is None
    steep = ndflow.transport.tabulate(ndflow.Affine(1.0, 0.0), 0.0, 1.0)
    assert linear_interpolant(steep, 0.0, 1e3) is not None
    bent = ndflow.transport.Tabulated([0.0, 1.0, 2.0], [0.0, 1.0, 40.0], [0.5, 2.0, 20.0])
    assert linear_interpolant(bent, -1.0, 1e5) is None  # an outlier leaves the bend too few


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 0.0), (1.0, 0.0), (np.inf, -np.inf), (0.0, np.inf), (0.0, np.nan)]
)
def test_there_is_none_without_a_valid_range(low, high):
    assert linear_interpolant(ndflow.Affine(1.0, 0.0), low, high) is None
