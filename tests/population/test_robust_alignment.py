"""Robust alignment, on the peaks that two densities share."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mixtures import mixtures, moved, random_mixture

from ndflow import Affine, GaussianMixture, InvalidValueError, align, divergence
from ndflow.population.robust_alignment import robust_align

BRAIN = GaussianMixture([0.2, 0.45, 0.35], [-1.6, 0.0, 1.1], [8.0, 10.0, 25.0])


@given(mixtures(channels=1), mixtures(channels=1))
def test_no_affine_map_nearby_comes_closer(mixture, reference):
    affine = robust_align(mixture, reference)
    assume(affine != align(mixture, reference))
    least = divergence(moved(mixture, affine), reference)
    assert least <= divergence(moved(mixture, align(mixture, reference)), reference) + 1e-12
    for scale, shift in ((1.01, 0), (0.99, 0), (1, 0.01), (1, -0.01), (1.01, 0.01), (0.99, 0.01)):
        other = Affine(scale * affine.matrix, scale * affine.offset + shift)
        assert divergence(moved(mixture, other), reference) >= least - 1e-8


@given(st.floats(0.01, 1000), st.floats(-1e3, 1e3))
def test_a_scan_in_other_units_is_aligned_exactly_with_itself(scale, shift):
    affine = robust_align(BRAIN.transformed(scale, shift), BRAIN)
    assert affine.matrix[0, 0] * scale == pytest.approx(1, rel=1e-6)
    assert float(affine(shift)) == pytest.approx(0, abs=1e-6)


@given(st.floats(0.01, 0.06), st.floats(1.9, 3.0))
def test_a_lesion_moves_it_far_less_than_it_moves_the_moments(share, place):
    lesioned = GaussianMixture(
        [0.2, 0.45, 0.35 - share, share], [-1.6, 0.0, 1.1, place], [8.0, 10.0, 25.0, 25.0]
    )
    white = np.array([1.1])
    by_overlay = abs(robust_align(lesioned, BRAIN)(white) - white)[0]
    by_moments = abs(align(lesioned, BRAIN)(white) - white)[0]
    assert by_overlay < 0.35 * by_moments


def test_densities_that_share_no_peaks_are_aligned_by_their_moments():
    # Two spikes on one bell: the least divergence is at infinite width.
    spikes = GaussianMixture([0.5, 0.5], [-4.0, 4.0], [100.0, 100.0])
    laid, aligned = robust_align(spikes, BRAIN), align(spikes, BRAIN)
    np.testing.assert_allclose(laid.matrix, aligned.matrix, rtol=1e-12)
    np.testing.assert_allclose(laid.offset, aligned.offset, atol=1e-12)


def test_the_units_of_the_reference_do_not_matter():
    generator = np.random.default_rng(5)
    for scale in (1e-4, 1.0, 1e4):
        unit = Affine(scale, 3 * scale)
        there = BRAIN.transformed(unit.matrix, unit.offset)
        mixture = random_mixture(generator, 5, 1)
        laid, expected = (
            robust_align(mixture, there),
            unit(robust_align(mixture, BRAIN)(np.array([0.0, 1.0]))),
        )
        np.testing.assert_allclose(
            laid(np.array([0.0, 1.0])), expected, rtol=1e-6, atol=1e-6 * scale
        )


def test_several_channels_are_refused():
    mixture = random_mixture(np.random.default_rng(0), 2, 2)
    with pytest.raises(InvalidValueError, match="one channel, not 2"):
        robust_align(mixture, mixture)
