"""Choosing components by rules that users write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import mixtures

from ndflow import GaussianMixture, InvalidValueError
from ndflow.transport.match import components_by_rule

MIXTURE = GaussianMixture([0.01, 0.49, 0.3, 0.2], [-20.0, 100.0, 950.0, 1200.0], [1.0] * 4)


@pytest.mark.parametrize(
    ("rules", "indices"),
    [
        ([], ()),
        (["3"], (3,)),
        ([" 0 "], (0,)),
        (["weight<0.02"], (0,)),
        (["weight < 0.3"], (0, 3)),  # less, and not equal
        (["weight>0.3"], (1,)),
        (["weight>0.9"], ()),
        (["900:1200"], (2, 3)),  # ends included
        ([":50"], (0,)),
        (["1000:"], (3,)),
        (["-20:-20"], (0,)),
        (["1e2:9.5e2"], (1, 2)),
        (["5000:6000"], ()),
        (["3", "weight<0.02", "900:1000", "3"], (0, 2, 3)),
    ],
)
def test_a_rule_chooses_what_it_says(rules, indices):
    assert components_by_rule(MIXTURE, rules) == indices


@given(mixtures(channels=1), st.floats(-3, 3), st.floats(0, 1))
def test_opposite_rules_choose_every_component_once(mixture, cut, weight):
    everything = tuple(range(mixture.components))
    one, other = (components_by_rule(mixture, [rule]) for rule in (f":{cut!r}", f"{cut!r}:"))
    assert tuple(sorted(one + other)) == everything
    assert all(mixture.means[k, 0] <= cut for k in one)
    one, other = (components_by_rule(mixture, [f"weight{sign}{weight!r}"]) for sign in "<>")
    assert tuple(sorted(one + other)) == everything
    assert all(mixture.weights[k] < weight for k in one)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("4", "does not exist; write an index from 0 to 3"),
        ("99999999999", "is not understood; write an index"),
        ("-1", "is not understood; write an index"),
        ("", "is not understood; write an index"),
        (":", "is not understood; write an index"),
        ("bright", "is not understood; write an index"),
        ("weight<=0.2", "is not understood; write an index"),
        ("weight<", "is not understood"),
        ("weight<a lot", "is not understood"),
        ("weight>20", "a weight from 0 to 1"),
        ("nan:3", "is not understood"),
        ("1:inf", "is not understood"),
        ("1:2:3", "is not understood"),
        ("900:100", "lower end first"),
    ],
)
def test_a_rule_that_cannot_be_followed_says_what_to_write(rule, message):
    with pytest.raises(InvalidValueError, match=message):
        components_by_rule(MIXTURE, [rule])


def test_one_string_is_not_a_list_of_rules():
    with pytest.raises(InvalidValueError, match="must be a list of strings"):
        components_by_rule(MIXTURE, "12")
