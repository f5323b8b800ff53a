"""The healthy part of a scan is matched, and lesions keep their contrast."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import mixtures, moved, random_mixture

from ndflow import GaussianMixture, InvalidValueError, align, match
from ndflow.population.lesion_preserving import match_preserving_lesions, without_components
from ndflow.transport import flow_map

# Tissues far apart, so that each component is responsible for its own peak and no other.
TARGET = GaussianMixture([0.2, 0.45, 0.35], [-1.6, 0.0, 1.2], [100.0, 100.0, 100.0])


def lesioned(share, place, means=(-1.6, 0.0, 1.2)):
    """The tissues of the target, with some of the WM turned into a lesion."""
    return GaussianMixture([0.2, 0.45, 0.35 - share, share], [*means, place], [100.0] * 4)


def contrast(imap, grey, white, lesion):
    """The contrast of lesion and WM, in units of that of WM and GM."""
    y = imap(np.array([grey, white, lesion]))
    return (y[2] - y[1]) / (y[1] - y[0])


@given(mixtures(channels=1, most=4), mixtures(channels=1), st.sampled_from(["l2", "cramer"]))
def test_without_lesions_it_is_the_plain_alignment_and_match(mixture, target, objective):
    affine, matched = match_preserving_lesions(
        mixture, target, (), objective=objective, regularisation=1e-2
    )
    assert affine == align(mixture, target)
    aligned = moved(mixture, affine)
    assert matched == match(aligned, target, objective=objective, regularisation=1e-2)


@given(
    st.floats(0.005, 0.15),
    st.one_of(st.floats(1.9, 6.0), st.floats(-6.0, -2.4)),
    st.floats(0.1, 1000),
    st.floats(-500, 500),
)
def test_a_lesion_in_a_scan_like_the_target_changes_nothing_but_the_units(
    share, place, scale, shift
):
    # The nearest tissue lost what the lesion has, so the truth is the map back to the target.
    weights = TARGET.weights.copy()
    weights[2 if place > 0 else 0] -= share
    scan = GaussianMixture([*weights, share], [*TARGET.means[:, 0], place], [100.0] * 4)
    imap = flow_map(*match_preserving_lesions(scan.transformed(scale, shift), TARGET, [3]))
    x = np.array([-1.6, 0.0, 1.2, place])
    np.testing.assert_allclose(imap(scale * x + shift), x, atol=2e-3)


def test_a_vessel_next_to_the_lesion_is_not_taken_for_its_tissue():
    target = GaussianMixture([0.2, 0.45, 0.348, 0.002], [-1.6, 0.0, 1.2, 2.4], [100.0] * 4)
    weights = [0.2, 0.45, 0.288, 0.002, 0.06]
    scan = GaussianMixture(weights, [-1.6, 0.0, 1.2, 2.4, 2.8], [100.0] * 5)
    x = np.array([-1.6, 0.0, 1.2, 2.4, 2.8])
    np.testing.assert_allclose(
        flow_map(*match_preserving_lesions(scan, target, [4]))(x), x, atol=1e-2
    )


@given(st.floats(0.01, 0.06), st.floats(1.0, 1.4), st.floats(0.8, 1.5))
def test_where_contrast_is_corrected_the_lesion_keeps_its_own(share, gap, height):
    means = (-1.6, 1.2 - gap, 1.2)
    scan = lesioned(share, 1.2 + height * gap, means)
    affine, matched = match_preserving_lesions(scan, TARGET, [3])
    imap = flow_map(affine, matched)
    assert contrast(imap, *scan.means[1:, 0]) == pytest.approx(height, rel=0.05)
    # So does its noise: 0.1 by the gap, before and after.
    new_gap = imap(np.array([1.2]))[0] - imap(np.array([1.2 - gap]))[0]
    sd = np.sqrt(matched.matched.covariances[3, 0, 0])
    assert sd / new_gap == pytest.approx(0.1 / gap, rel=0.05)
    # Tissues are mapped as in the same scan without a lesion.
    healthy = GaussianMixture(TARGET.weights, means, [100.0] * 3)
    plain = flow_map(*match_preserving_lesions(healthy, TARGET, ()))
    np.testing.assert_allclose(imap(np.array(means)), plain(np.array(means)), atol=0.01)


def test_a_plain_match_keeps_neither_the_lesion_nor_the_tissue():
    scan = lesioned(0.06, 2.4)
    plain, spared = (
        flow_map(
            *match_preserving_lesions(scan, TARGET, found, objective="cramer", regularisation=1e-4)
        )
        for found in ((), (3,))
    )
    assert abs(plain(np.array([1.2]))[0] - 1.2) > 0.02
    assert abs(spared(np.array([1.2]))[0] - 1.2) < 1e-3
    assert contrast(plain, 0.0, 1.2, 2.4) < 0.95
    assert contrast(spared, 0.0, 1.2, 2.4) == pytest.approx(1, abs=2e-3)


def test_components_narrower_than_any_lattice_have_peaks_too():
    weights, means = [0.3, 0.6, 0.1], [-1.0, 0.50001, 2.0]
    scan = GaussianMixture(weights, means, [1e12] * 3)
    target = GaussianMixture([0.3, 0.7], means[:2], [1e12] * 2)
    np.testing.assert_allclose(
        flow_map(*match_preserving_lesions(scan, target, [2]))(np.array(means)), means, atol=1e-3
    )


@given(mixtures(channels=1), mixtures(channels=1), st.sampled_from(["exact", "rk4"]), st.data())
def test_the_map_is_a_diffeomorphism_whatever_the_lesions(mixture, target, solver, data):
    indices = st.integers(0, mixture.components - 1)
    found = data.draw(st.sets(indices, max_size=mixture.components - 1))
    affine, matched = match_preserving_lesions(mixture, target, sorted(found))
    imap = flow_map(affine, matched, solver=solver)
    x = mixture.quantile(np.linspace(0.001, 0.999, 200))
    y, log_slope = imap.with_log_det_jacobian(x)
    assert (np.diff(y) > 0).all()
    assert np.isfinite(log_slope).all()
    np.testing.assert_allclose(imap.inverse()(y), x, atol=1e-3)
    # It conserves mass: it takes the density of the scan to that of the components' new places.
    np.testing.assert_allclose(matched.matched.cdf(y), mixture.cdf(x), atol=1e-4)
    assert (matched.source.weights == mixture.weights).all()


@given(mixtures(channels=1), st.data())
def test_what_is_left_out_is_all_that_is_missing(mixture, data):
    indices = st.integers(0, mixture.components - 1)
    out = sorted(data.draw(st.sets(indices, max_size=mixture.components - 1)))
    x = np.linspace(-4, 4, 50)
    share = 1 - mixture.weights[out].sum()
    parts = [GaussianMixture([1.0], mixture.means[[k]], mixture.precisions[[k]]) for k in out]
    removed = sum(
        (mixture.weights[k] * part.pdf(x) for k, part in zip(out, parts, strict=True)), 0 * x
    )
    rest = without_components(mixture, out).pdf(x)
    np.testing.assert_allclose(share * rest + removed, mixture.pdf(x), atol=1e-12)
    if not out:
        assert without_components(mixture, out) is mixture


def test_bad_indices_and_channels_are_refused():
    scan = lesioned(0.06, 2.4)
    for function in (
        without_components,
        lambda mixture, found: match_preserving_lesions(mixture, TARGET, found),
    ):
        with pytest.raises(InvalidValueError, match="lie between 0 and 3, not 4"):
            function(scan, [4])
        with pytest.raises(InvalidValueError, match="at least one component"):
            function(scan, [0, 1, 2, 3])
    two = random_mixture(np.random.default_rng(0), 2, 2)
    with pytest.raises(InvalidValueError, match="mixture must have one channel, not 2"):
        match_preserving_lesions(two, two, [0])
