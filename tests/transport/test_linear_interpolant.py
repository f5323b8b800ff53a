"""Chords stay as close to their map as a float of 32 bits can tell, or there are none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import random_mixture

import ndflow
from ndflow.transport import linear_interpolant


@given(st.integers(0, 10**6))
def test_chords_are_as_good_as_the_map(seed):
    generator = np.random.default_rng(seed)
    source, target = (random_mixture(generator, 4, 1) for _ in range(2))
    low, high = source.quantile([0.001, 0.999]).tolist()
    imap = ndflow.tabulate(ndflow.normalising_map(source, target), low, high)
    found = linear_interpolant(imap, low - 1, high + 3)
    assert found is not None
    x = generator.uniform(low - 1, high + 3, 5000)
    x[:2] = low - 1, high + 3
    values = imap(x)
    assert np.abs(found(x) - values).max() <= 1.01 * 2**-25 * abs(np.ptp(imap([low - 1, high + 3])))


def test_the_chords_of_a_straight_line_are_that_line():
    found = linear_interpolant(ndflow.Affine(-2.0, 5.0), -3.0, 9.0)
    x = np.linspace(-3, 9, 1001)
    np.testing.assert_allclose(found(x), 5 - 2 * x, rtol=0, atol=1e-13)


class Corner(ndflow.Affine):
    """A map with a corner, which no number of chords can round off well enough."""

    def _mapped(self, x):
        return np.abs(x - 1 / 3) + 2 * x


def test_there_are_none_where_too_many_would_be_needed():
    assert linear_interpolant(Corner(1.0, 0.0), -1.0, 1.0) is None
    steep = ndflow.tabulate(ndflow.Affine(1.0, 0.0), 0.0, 1.0)
    assert linear_interpolant(steep, 0.0, 1e3) is not None
    bent = ndflow.Tabulated([0.0, 1.0, 2.0], [0.0, 1.0, 40.0], [0.5, 2.0, 20.0])
    assert (
        linear_interpolant(bent, -1.0, 1e5) is None
    )  # a stray voxel leaves the bend too few of them


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 0.0), (1.0, 0.0), (np.inf, -np.inf), (0.0, np.inf), (0.0, np.nan)]
)
def test_there_are_none_without_a_range(low, high):
    assert linear_interpolant(ndflow.Affine(1.0, 0.0), low, high) is None
