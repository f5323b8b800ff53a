"""Matching: what moves, what does not, and that it only ever gets better."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures, moved, random_mixture

from ndflow import Affine, GaussianMixture, InvalidValueError
from ndflow.transport import Match, align, divergence, match
from ndflow.transport.divergence import Energy

OBJECTIVES = ["l2", "cramer"]


def aligned_pair(seed, channels=1, components=None):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 6, 2) if components is None else (components, components)
    source, target = (random_mixture(generator, int(k), channels) for k in sizes)
    return moved(source, align(source, target)), target


def in_unit_variance(mixture, target):
    """The space in which `match` measures divergences."""
    scale = np.sqrt(np.diagonal(target.covariance()))
    return mixture.transformed(np.diag(1 / scale), -target.mean() / scale)


@given(st.integers(0, 10**6), st.sampled_from(OBJECTIVES))
def test_the_objective_never_rises(seed, objective):
    source, target = aligned_pair(seed)
    result = match(source, target, objective=objective)
    assert result.objectives.size == result.divergences.size == result.status.iterations + 1
    assert (np.diff(result.objectives) <= 0).all()
    # Without a regulariser, that is the divergence itself.
    free = match(source, target, objective=objective, regularisation=0)
    assert (np.diff(free.divergences) <= 0).all()
    assert (free.divergences == free.objectives).all()


@given(st.integers(0, 10**6), st.integers(2, 3))
def test_the_objective_never_rises_in_several_channels(seed, channels):
    source, target = aligned_pair(seed, channels)
    result = match(source, target)
    assert (np.diff(result.objectives) <= 0).all()
    assert result.objectives[-1] < result.objectives[0]


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_the_trace_starts_and_ends_with_the_divergences_before_and_after(seed, channels):
    source, target = aligned_pair(seed, channels)
    result = match(source, target)
    near = in_unit_variance(target, target)
    for mixture, traced in ((source, 0), (result.matched, -1)):
        truth = divergence(in_unit_variance(mixture, target), near)
        assert result.divergences[traced] == pytest.approx(truth, rel=1e-8, abs=1e-14)


@given(st.integers(0, 10**6), st.integers(1, 3), st.data())
def test_weights_and_frozen_components_stay_bit_by_bit(seed, channels, data):
    source, target = aligned_pair(seed, channels)
    frozen = data.draw(st.sets(st.integers(0, source.components - 1)))
    result = match(source, target, frozen=sorted(frozen))
    assert result.source == source
    assert result.matched.weights.tobytes() == source.weights.tobytes()
    for k in range(source.components):
        same = (
            result.matched.means[k].tobytes() == source.means[k].tobytes()
            and result.matched.precisions[k].tobytes() == source.precisions[k].tobytes()
        )
        assert same == (k in frozen)


@pytest.mark.parametrize("channels", [1, 2])
def test_with_all_components_frozen_nothing_happens(channels):
    source, target = aligned_pair(3, channels)
    result = match(source, target, frozen=range(source.components))
    assert result.matched == source
    assert result.status.converged
    assert len(set(result.divergences)) == 1


def test_a_frozen_component_still_counts():
    # Two components at the target's places, in the wrong order of weights: with one frozen, the
    # other has to make do with what is left.
    source = GaussianMixture([0.5, 0.5], [-1.0, 0.0], [4.0, 4.0])
    target = GaussianMixture([0.5, 0.5], [-1.0, 1.0], [4.0, 4.0])
    result = match(source, target, frozen=[0])
    assert result.matched.means[1, 0] == pytest.approx(1.0, abs=0.05)
    assert result.matched.means[0, 0] == -1.0


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 2), st.integers(-9, 9))
def test_a_match_is_the_same_in_any_units_bit_by_bit(seed, channels, power):
    source, target = aligned_pair(seed, channels)
    # Powers of two round nothing, so even the optimiser's path is the same.
    units = Affine(2.0**power * np.eye(channels), np.zeros(channels))
    there = match(moved(source, units), moved(target, units))
    here = match(source, target)
    assert there.matched == moved(here.matched, units)
    assert (there.objectives == here.objectives).all()


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 2), st.floats(0.01, 1000), st.floats(-1e3, 1e3))
def test_a_match_is_the_same_where_each_channel_has_units_of_its_own(seed, channels, scale, shift):
    source, target = aligned_pair(seed, channels)
    units = Affine(np.diag([scale, 1 / scale][:channels]), np.full(channels, shift))
    here, there = match(source, target), match(moved(source, units), moved(target, units))
    # The optimiser may stop a step earlier or later, but at the same density.
    ends = [
        in_unit_variance(there.matched, moved(target, units)),
        in_unit_variance(here.matched, target),
    ]
    assert divergence(*ends) < 1e-8
    assert there.objectives[-1] == pytest.approx(here.objectives[-1], rel=1e-5)


@given(mixtures())
def test_a_mixture_that_is_already_there_does_not_move(mixture):
    result = match(mixture, mixture)
    sds = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    assert (np.abs(result.matched.means - mixture.means) / sds).max() < 1e-6
    np.testing.assert_allclose(result.matched.covariances, mixture.covariances, atol=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_the_end_is_a_stationary_point(seed, channels):
    source, target = aligned_pair(seed, channels)
    result = match(source, target)
    assert result.status.converged
    again = match(result.source, target)
    assert again == result  # and the same input gives the same bits
    nudged = [
        GaussianMixture(source.weights, result.matched.means + e, result.matched.precisions)
        for e in (-1e-2, 1e-2)
    ]

    def regularised(mixture):
        near, begun = in_unit_variance(mixture, target), in_unit_variance(source, target)
        held = 0.0
        for k in range(source.components):
            shift = near.means[k] - begun.means[k]
            ratios = np.linalg.eigvals(
                np.linalg.solve(begun.precisions[k], near.precisions[k])
            ).real
            held += source.weights[k] * (
                0.5 * shift @ begun.precisions[k] @ shift + 0.25 * (np.log(ratios) ** 2).sum()
            )
        return divergence(near, in_unit_variance(target, target)) + 1e-3 * held

    end = regularised(result.matched)
    assert end == pytest.approx(result.objectives[-1], rel=1e-6, abs=1e-12)
    assert all(regularised(mixture) > end for mixture in nudged)


def largest_sd_ratio(result: Match) -> float:
    ratios = np.sqrt(result.matched.covariances / result.source.covariances)
    return float(max(ratios.max(), (1 / ratios).max()))


def test_the_regulariser_keeps_an_unmatched_component_from_being_smeared_out():
    # One per cent of bright voxels that the target does not have. Nothing pulls them anywhere, so
    # without a regulariser it pays to smear them over the whole line.
    source = GaussianMixture([0.99, 0.01], [0.0, 6.0], [1.0, 16.0])
    target = GaussianMixture([1.0], [0.0], [1.0])
    assert largest_sd_ratio(match(source, target, regularisation=0)) > 30
    assert largest_sd_ratio(match(source, target, regularisation=1e-3)) < 3
    assert largest_sd_ratio(match(source, target, regularisation=1e-2)) < 1.5


@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_a_match_comes_closer_than_alignment_alone(objective):
    for seed in range(10):
        source, target = aligned_pair(seed, components=4)
        result = match(source, target, objective=objective)
        assert result.divergences[-1] < 0.5 * result.divergences[0]


def test_a_stronger_regulariser_moves_less():
    source, target = aligned_pair(1, components=4)
    moves = [
        np.abs(match(source, target, regularisation=gamma).matched.means - source.means).max()
        for gamma in (1e-3, 1e-1, 1e3)
    ]
    assert moves[0] > moves[1] > moves[2]
    assert moves[2] < 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "kl"}, "objective must be one of l2, cramer"),
        ({"regularisation": -1.0}, "regularisation must be zero or a positive number"),
        ({"regularisation": np.nan}, "regularisation must be finite"),
        ({"frozen": [2]}, "frozen must lie between 0 and 1, not 2"),
        ({"frozen": [-1]}, "frozen must lie between 0 and 1, not -1"),
        ({"frozen": [0.5]}, "frozen"),
        ({"frozen": [True, False]}, "frozen"),  # a mask is not a list of indices
    ],
)
def test_bad_options_are_refused_by_name(options, message):
    source, target = aligned_pair(0, components=2)
    with pytest.raises(InvalidValueError, match=message):
        match(source, target, **options)


def test_mixtures_with_different_channels_are_refused():
    with pytest.raises(InvalidValueError, match="must have the shape"):
        match(aligned_pair(0, 1)[0], aligned_pair(0, 2)[1])
    with pytest.raises(InvalidValueError, match="'cramer' needs one channel"):
        match(*aligned_pair(0, 2), objective="cramer")


def test_a_match_survives_json():
    result = match(*aligned_pair(0))
    assert Match.from_dict(json.loads(json.dumps(result.to_dict()))) == result
    assert not result.objectives.flags.writeable


@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_a_match_converges_to_the_last_digits(objective):
    for seed in range(10):
        source, target = aligned_pair(seed, components=5)
        result = match(source, target, objective=objective)
        # Rounding of the input is all that is left: the end does not depend on when a search stops.
        nudged = GaussianMixture(source.weights, source.means + 1e-14, source.precisions)
        again = match(nudged, target, objective=objective)
        assert result.status.converged
        assert np.abs(result.matched.means - again.matched.means).max() < 1e-8


def test_a_blurred_match_can_lead_out_of_a_poor_one():
    generator = np.random.default_rng(4)
    both = [random_mixture(generator, 6, 2, spread=2.0) for _ in range(2)]
    source, target = (GaussianMixture(m.weights, m.means, 9 * m.precisions) for m in both)
    near = moved(source, align(source, target))
    plain = match(near, target, regularisation=1e-4)
    blurred = match(near, target, regularisation=1e-4, blurs=(1.0, 0.5, 0.25))
    assert blurred.objectives[-1] < 0.6 * plain.objectives[-1]
    assert (np.diff(blurred.objectives) <= 0).all()


def test_a_blur_that_leads_away_is_ignored():
    mixture = GaussianMixture([0.5, 0.5], [[-1.0, 0.0], [1.0, 0.0]], [9 * np.eye(2)] * 2)
    result = match(mixture, mixture, blurs=(3.0,))
    np.testing.assert_array_equal(result.matched.means, mixture.means)


@pytest.mark.parametrize("channels", [1, 2])
def test_a_blurred_divergence_is_that_of_blurred_densities(channels):
    generator = np.random.default_rng(4)
    one, two = (random_mixture(generator, 3, channels) for _ in range(2))

    def wider(mixture):
        covariances = mixture.covariances + 0.3**2 * np.eye(channels)
        return GaussianMixture(mixture.weights, mixture.means, np.linalg.inv(covariances))

    value, *_ = Energy(two, "l2", 0.3)(one.weights, one.means, one.covariances)
    assert value == pytest.approx(divergence(wider(one), wider(two)), rel=1e-9)


def test_blurs_must_be_positive():
    mixture = GaussianMixture([1.0], [0.0], [1.0])
    with pytest.raises(InvalidValueError, match="each of blurs"):
        match(mixture, mixture, blurs=(0.0,))
