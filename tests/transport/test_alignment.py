"""Alignment of moments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import mixtures, moved, random_mixture

from ndflow import Affine, InvalidValueError
from ndflow.transport import align


def pair(seed, channels):
    generator = np.random.default_rng(seed)
    return random_mixture(generator, 3, channels, 5.0), random_mixture(generator, 4, channels)


@given(mixtures(spread=10.0))
def test_without_a_target_it_gives_zero_mean_and_unit_variance(mixture):
    d = mixture.channels
    standard = moved(mixture, align(mixture))
    np.testing.assert_allclose(standard.mean(), np.zeros(d), atol=1e-11)
    np.testing.assert_allclose(np.diagonal(standard.covariance()), np.ones(d), rtol=1e-11)


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_with_a_target_it_gives_the_targets_moments(seed, channels):
    source, target = pair(seed, channels)
    plain = moved(source, align(source, target))
    np.testing.assert_allclose(plain.mean(), target.mean(), atol=1e-11)
    np.testing.assert_allclose(
        np.diagonal(plain.covariance()), np.diagonal(target.covariance()), rtol=1e-11
    )


@given(st.integers(0, 10**6), st.integers(2, 3))
def test_channels_are_left_apart(seed, channels):
    source, target = pair(seed, channels)
    plain = align(source, target).matrix
    assert (plain == np.diag(np.diagonal(plain))).all()


def test_samples_get_the_moments_too():
    source, target = pair(0, 2)
    voxels = align(source, target)(source.sample(200_000, np.random.default_rng(0)))
    np.testing.assert_allclose(voxels.mean(axis=0), target.mean(), atol=0.02)
    variances = np.diagonal(target.covariance())
    np.testing.assert_allclose(voxels.var(axis=0), variances, atol=0.02)


def test_one_channel_may_be_written_with_numbers():
    f = Affine(2.0, 1.0)
    assert f.channels == 1
    assert f(3.0) == 7.0
    assert f(np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])).tolist() == [[1, 3, 5], [7, 9, 11]]
    assert f.log_det_jacobian([0.0, 9.0]).tolist() == [np.log(2), np.log(2)]


def test_several_channels_mix():
    f = Affine([[1.0, 2.0], [0.0, 3.0]], [10.0, 20.0])
    assert f([[1.0, 1.0], [0.0, 2.0]]).tolist() == [[13.0, 23.0], [14.0, 26.0]]
    np.testing.assert_allclose(f.log_det_jacobian([[1.0, 1.0], [0.0, 2.0]]), np.log(3))


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_the_inverse_undoes_it(seed, channels):
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((channels, channels)) + 3 * np.eye(channels)
    f = Affine(matrix, generator.standard_normal(channels))
    x = generator.standard_normal((20, channels))
    np.testing.assert_allclose(f.inverse()(f(x)), x, atol=1e-10)
    np.testing.assert_allclose(
        f.inverse().log_det_jacobian(f(x)), -f.log_det_jacobian(x), atol=1e-10
    )


def test_a_negative_slope_is_a_contrast_turned_round():
    f = Affine(-2.0, 1.0)
    assert f([0.0, 1.0]).tolist() == [1.0, -1.0]
    assert f.inverse()(f([0.0, 1.0])).tolist() == [0.0, 1.0]
    assert f.log_det_jacobian(0.0) == np.log(2)  # of |det|


@pytest.mark.parametrize(
    "matrix",
    [[[0.0]], [[1.0, 2.0], [2.0, 4.0]], np.zeros((2, 2)), np.diag([1.0, 0.0, 1.0])],
)
def test_a_singular_matrix_is_refused(matrix):
    with pytest.raises(InvalidValueError, match="matrix must be invertible"):
        Affine(matrix, np.zeros(len(matrix)))


def test_a_matrix_that_is_singular_but_for_rounding_is_refused():
    generator = np.random.default_rng(0)
    flat = generator.standard_normal((3, 2)) @ generator.standard_normal((2, 3))
    with pytest.raises(InvalidValueError, match="matrix must be invertible"):
        Affine(flat, np.zeros(3))


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidValueError, match=r"matrix must have the shape \(2, 2\)"):
        Affine(np.eye(3), np.zeros(2))
    with pytest.raises(InvalidValueError, match="offset must be finite"):
        Affine(1.0, np.nan)
    with pytest.raises(InvalidValueError, match="source has 2 channels, but target 1"):
        align(pair(0, 2)[0], pair(0, 1)[1])
    with pytest.raises(InvalidValueError, match="the last axis must hold the 2 channels"):
        Affine(np.eye(2), np.zeros(2))(np.zeros((5, 3)))
