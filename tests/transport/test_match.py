"""Matching: what moves, what does not, and that it ends at a minimum in any units."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import moved, random_mixture

from ndflow import Affine, GaussianMixture, InvalidValueError
from ndflow.transport import align, divergence, match
from ndflow.transport.match import components_by_rule

seeds = st.integers(0, 10**6)


def aligned_pair(seed, channels=1, components=None):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 6, 2) if components is None else (components, components)
    source, target = (random_mixture(generator, int(k), channels) for k in sizes)
    return moved(source, align(source, target)), target


def in_unit_variance(mixture, target):
    """The space in which `match` measures divergences."""
    scale = np.sqrt(np.diagonal(target.covariance()))
    return mixture.transformed(np.diag(1 / scale), -target.mean() / scale)


def objective_at(mixture, source, target, gamma=1e-3):
    """The divergence from the target and the documented regulariser, from parameters alone."""
    near, begun = in_unit_variance(mixture, target), in_unit_variance(source, target)
    held = 0.0
    for k in range(source.components):
        shift = near.means[k] - begun.means[k]
        ratios = np.linalg.eigvals(np.linalg.solve(begun.precisions[k], near.precisions[k])).real
        held += source.weights[k] * (
            0.5 * shift @ begun.precisions[k] @ shift + 0.25 * (np.log(ratios) ** 2).sum()
        )
    return divergence(near, in_unit_variance(target, target)) + gamma * held


@settings(max_examples=15)
@given(seeds, st.integers(1, 3))
def test_the_end_is_a_minimum_and_the_trace_leads_there(seed, channels):
    source, target = aligned_pair(seed, channels)
    result = match(source, target)
    assert result.status.converged
    assert result.divergences.size == result.status.iterations + 1
    near = in_unit_variance(target, target)
    for mixture, traced in ((source, 0), (result.matched, -1)):
        truth = divergence(in_unit_variance(mixture, target), near)
        assert result.divergences[traced] == pytest.approx(truth, rel=1e-8, abs=1e-14)
    end = objective_at(result.matched, source, target)
    assert end < objective_at(source, source, target)
    for nudge in (-1e-2, 1e-2):
        means = result.matched.means + nudge
        nudged = GaussianMixture(source.weights, means, result.matched.precisions)
        assert objective_at(nudged, source, target) > end


@settings(max_examples=20)
@given(seeds, st.integers(1, 3), st.data())
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


@settings(max_examples=8)
@given(seeds, st.integers(1, 2), st.floats(0.01, 1000), st.floats(-1e3, 1e3))
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


@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_a_match_converges_to_the_last_digits_and_comes_closer_than_alignment(objective):
    for seed in range(5):
        source, target = aligned_pair(seed, components=4)
        result = match(source, target, objective=objective)
        assert result.divergences[-1] < 0.5 * result.divergences[0]
        # Rounding of the input is all that is left: the end does not depend on when a search stops.
        nudged = GaussianMixture(source.weights, source.means + 1e-14, source.precisions)
        again = match(nudged, target, objective=objective)
        assert np.abs(result.matched.means - again.matched.means).max() < 1e-8


def test_a_blurred_match_can_lead_out_of_a_poor_one():
    generator = np.random.default_rng(4)
    both = [random_mixture(generator, 6, 2, spread=2.0) for _ in range(2)]
    source, target = (GaussianMixture(m.weights, m.means, 9 * m.precisions) for m in both)
    near = moved(source, align(source, target))
    plain = match(near, target, regularisation=1e-4)
    blurred = match(near, target, regularisation=1e-4, blurs=(1.0, 0.5, 0.25))
    ends = [objective_at(one.matched, near, target, gamma=1e-4) for one in (plain, blurred)]
    assert ends[1] < 0.6 * ends[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frozen": [2]}, "frozen must lie between 0 and 1, not 2"),
        ({"frozen": [True, False]}, "frozen"),  # a mask is not a list of indices
        ({"blurs": (0.0,)}, "each of blurs"),
    ],
)
def test_bad_options_are_refused_by_name(options, message):
    source, target = aligned_pair(0, components=2)
    with pytest.raises(InvalidValueError, match=message):
        match(source, target, **options)


# ── rules that choose components ─────────────────────────────────────────────────────────────────

MIXTURE = GaussianMixture([0.01, 0.49, 0.3, 0.2], [-20.0, 100.0, 950.0, 1200.0], [1.0] * 4)


@pytest.mark.parametrize(
    ("rules", "indices"),
    [
        ([], ()),
        ([" 3 "], (3,)),
        (["weight < 0.3"], (0, 3)),  # less, and not equal
        (["weight>0.3"], (1,)),
        (["weight>0.9"], ()),
        (["900:1200"], (2, 3)),  # ends included
        ([":50"], (0,)),
        (["1000:"], (3,)),
        (["-20:-20"], (0,)),
        (["1e2:9.5e2"], (1, 2)),
        (["3", "weight<0.02", "900:1000", "3"], (0, 2, 3)),
    ],
)
def test_a_rule_chooses_what_it_says(rules, indices):
    assert components_by_rule(MIXTURE, rules) == indices


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("4", "no component 4; write 0 to 3"),
        ("99999999999", "is not understood; write an index"),
        ("", "is not understood"),
        ("bright", "is not understood"),
        ("weight<=0.2", "is not understood"),
        ("weight>20", "a weight from 0 to 1"),
        ("nan:3", "is not understood"),
        ("900:100", "lower end first"),
    ],
)
def test_a_rule_that_cannot_be_followed_says_what_to_write(rule, message):
    with pytest.raises(InvalidValueError, match=message):
        components_by_rule(MIXTURE, [rule])
