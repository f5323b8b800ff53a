"""Landmarks as values: what is refused whatever the method, and how units change."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow import Affine, InvalidValueError
from ndflow.population import Landmarks


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "values of any must be one or more, not 0"),
        ([1.0, 3.0, 2.0], "landmarks must rise; check image and mask"),
        ([2.0, 2.0, 2.0], "landmarks must rise"),
        ([1.0, np.nan], "values must be finite"),
        ([[1.0, 2.0]], r"values must have the shape \(any\)"),
        (["a", "b"], "values must be an array of real numbers"),
    ],
)
def test_what_cannot_be_landmarks_is_refused(values, message):
    with pytest.raises(InvalidValueError, match=message):
        Landmarks("any", values)


@pytest.mark.parametrize("values", [[0.0], [-5.0], [1.0, 1.0, 2.0]])
def test_one_landmark_may_lie_anywhere_and_neighbours_may_be_equal(values):
    found = Landmarks("of a method that nobody has written yet", values)
    again = Landmarks.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found
    assert found != Landmarks("another", values)


@given(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_units_change_as_those_of_the_scan_do(factor, offset):
    moved = Landmarks("any", [-1.0, 0.0, 4.0]).transformed(Affine(factor, offset))
    np.testing.assert_array_equal(moved.values, factor * np.array([-1.0, 0.0, 4.0]) + offset)
