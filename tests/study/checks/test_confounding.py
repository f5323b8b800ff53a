"""Sites that differ in age, and sites that could not be balanced."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ndflow.image.subject import Subject
from ndflow.population.balancing import SiteBalance
from ndflow.study.weights import (
    NOT_BALANCED,
    NOT_KNOWN,
    OTHER_AGES,
    ScanWeights,
    age_doubts,
    ages_by_site,
    balance_doubts,
)


def drawn(seed: int, *means: float, sd: float = 12.0, scans: int = 15) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    return {f"S{k}": generator.normal(mean, sd, scans) for k, mean in enumerate(means)}


def test_sites_of_different_ages_are_named() -> None:
    (doubt,) = age_doubts(drawn(0, 30, 45, 65))
    assert doubt.kind == OTHER_AGES
    assert "at S0 and" in doubt.text
    assert "at S2: site explains" in doubt.text
    assert doubt.hint == "weight the scans with --balance age"


def test_sites_of_the_same_ages_are_not() -> None:
    assert sum(bool(age_doubts(drawn(seed, 50, 50, 50))) for seed in range(300)) <= 2
    assert sum(bool(age_doubts(drawn(seed, 48, 50, 52))) for seed in range(100)) <= 5


@pytest.mark.parametrize("unit", [1.0, 12.0, 365.25])
def test_units_do_not_matter(unit: float) -> None:
    ages = drawn(1, 30, 60)
    (doubt,) = age_doubts({site: unit * own for site, own in ages.items()})
    assert doubt.text.split(":")[1] == age_doubts(ages)[0].text.split(":")[1]


def test_students_of_almost_the_same_age_are_of_the_same_age() -> None:
    assert not age_doubts(drawn(0, 21, 22.5, sd=0.3))
    assert age_doubts(drawn(0, 21, 27, sd=0.3))


def test_few_ages_say_nothing() -> None:
    assert not age_doubts({})
    assert not age_doubts({"A": np.array([20.0, 21, 22])})
    assert not age_doubts({"A": np.array([20.0, 21]), "B": np.array([80.0, 81])})


@pytest.mark.parametrize("column", ["age", "Age", "age_at_scan", "AGE (years)"])
def test_ages_are_found_by_what_their_column_is_called(column: str) -> None:
    scans = [
        Subject("a.nii", site="A", covariates={column: "34", "wage": "3"}),
        Subject("b.nii", site="A", covariates={column: "n.k."}),
        Subject("c.nii", covariates={column: "50"}),
    ]
    name, ages = ages_by_site(scans)
    assert name == column
    assert {site: own.tolist() for site, own in ages.items()} == {"A": [34]}
    assert ages_by_site([Subject("a.nii", site="A", covariates={"wage": "3"})])[1] == {}


def weights(**changes: Any) -> ScanWeights:
    own = SiteBalance(
        scans=9,
        effective=5.0,
        reach="approximate",
        outside=True,
        before={"age": 25.7, "sex F": 0.5},
        after={"age": 31.2, "sex F": 0.55},
    )
    good = replace(own, reach="means", outside=False, after={"age": 38.0, "sex F": 0.6})
    target = {"age": 38.0, "sex F": 0.6}
    sites = {"A": replace(own, **changes), "B": good}
    return ScanWeights({"a": 1.0, "b": 0.0}, sites, target, {"age": 12.0, "sex F": 0.5})


SCANS = [Subject("a.nii", name="a"), Subject("b.nii", name="b")]


def test_a_site_that_could_not_be_balanced_is_named_with_what_is_left() -> None:
    doubt, missing = balance_doubts(weights(), SCANS, ("age", "sex"))
    assert doubt.kind == NOT_BALANCED
    assert doubt.text == (
        "At A, weights change the mean age from 25.7 to 31.2 only: no weights give it 38, as at "
        "the other sites."
    )
    assert missing.kind == NOT_KNOWN
    assert missing.text == "Age or sex of 1 scan is not known: b."
    (few, _) = balance_doubts(weights(outside=False), SCANS, ("age", "sex"))
    assert few.text.endswith(
        "with 38, as at the other sites, too few effective scans would be left."
    )


def test_the_share_of_a_category_is_named_as_such() -> None:
    after = {"age": 38.0, "sex F": 0.54}
    doubt, _ = balance_doubts(weights(after=after), SCANS, ("age", "sex"))
    assert "weights change the share of sex F from 50 % to 54 % only" in doubt.text


def test_balanced_sites_are_beyond_doubt() -> None:
    near = weights(after={"age": 38.5, "sex F": 0.58})._replace(of={})  # 0.04 standard deviations
    assert not balance_doubts(near, SCANS, ("age", "sex"))
