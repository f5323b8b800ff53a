"""Covariates of scans as numbers or categories."""

from collections.abc import Mapping

import numpy as np
import pytest

from ndflow.errors import InvalidValueError
from ndflow.image.subject import Subject
from ndflow.study.weights import columns_of, known_in


def scans(*covariates: Mapping[str, str]) -> list[Subject]:
    return [
        Subject(f"{number}.nii", covariates=own, origin=f"row {number + 2}")
        for number, own in enumerate(covariates)
    ]


def test_numbers_and_categories_are_told_apart() -> None:
    listed = scans({"age": "34.5", "sex": "F"}, {"age": "61"}, {"age": "7e1", "sex": "m"})
    found = columns_of(listed, ["age", "sex"])
    np.testing.assert_array_equal(found["age"], [34.5, 61, 70])
    assert found["sex"].tolist() == ["F", "", "m"]
    assert known_in(found, 3).tolist() == [True, False, True]


def test_categories_that_differ_in_case_are_the_same() -> None:
    found = columns_of(scans({"sex": "F"}, {"sex": "f"}, {"sex": "M"}), ["sex"])
    assert found["sex"].tolist() == ["F", "F", "M"]


def test_what_is_no_number_among_numbers_is_refused_by_row() -> None:
    listed = scans({"age": "34"}, {"age": "89+"}, {"age": "61"}, {"age": "12"}, {"age": "inf"})
    words = r"age are no numbers: '89\+' \(row 3\), 'inf' \(row 6\); correct them, or write n/a"
    with pytest.raises(InvalidValueError, match=words):
        columns_of(listed, ["age"])


def test_a_covariate_that_no_scan_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidValueError, match=r"no scan has a covariate 'Age'.*are: age, sex"):
        columns_of(scans({"age": "1", "sex": "F"}), ["Age"])


def test_names_of_people_are_no_categories() -> None:
    listed = scans(*({"id": f"s{number}"} for number in range(11)))
    with pytest.raises(InvalidValueError, match="id has 11 different values"):
        columns_of(listed, ["id"])
