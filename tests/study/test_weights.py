"""Covariates of scans, the weights that follow from them, and what they leave."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.population.balancing import SiteBalance
from ndflow.study.plan import Study
from ndflow.study.weights import (
    NOT_BALANCED,
    NOT_KNOWN,
    OTHER_AGES,
    ScanWeights,
    age_doubts,
    ages_by_site,
    balance_doubts,
    check_balance,
    columns_of,
    known_in,
    scan_weights,
)

# ── covariates ────────────────────────────────────────────────────────────────────────────────────


def with_covariates(*covariates: Mapping[str, str]) -> list[Subject]:
    return [
        Subject(f"{number}.nii", covariates=own, origin=f"row {number + 2}")
        for number, own in enumerate(covariates)
    ]


def test_numbers_and_categories_are_told_apart() -> None:
    listed = with_covariates({"age": "34.5", "sex": "F"}, {"age": "61"}, {"age": "7e1", "sex": "m"})
    found = columns_of(listed, ["age", "sex"])
    np.testing.assert_array_equal(found["age"], [34.5, 61, 70])
    assert found["sex"].tolist() == ["F", "", "m"]
    assert known_in(found, 3).tolist() == [True, False, True]


def test_what_is_no_number_among_numbers_is_refused_by_row() -> None:
    listed = with_covariates(
        {"age": "34"}, {"age": "89+"}, {"age": "61"}, {"age": "12"}, {"age": "inf"}
    )
    words = r"age are no numbers: '89\+' \(row 3\), 'inf' \(row 6\); correct them, or write n/a"
    with pytest.raises(InvalidValueError, match=words):
        columns_of(listed, ["age"])


# ── weights ───────────────────────────────────────────────────────────────────────────────────────


AGES = {"A": [20, 30, 40, 50, 60, 70, 35, 45], "B": [40, 50, 60, 70, 80, 65, 30, 55]}


def scans(**ages: list[int | None]) -> list[Subject]:
    return [
        Subject(
            f"/{site}{number}.nii",
            site=site,
            name=f"{site}{number}",
            covariates={} if age is None else {"age": str(age), "sex": "FM"[number % 2]},
            origin=f"row {number + 2}",
        )
        for site, own in ages.items()
        for number, age in enumerate(own)
    ]


def plan(listed: list[Subject], *balance: str, **more: Any) -> Study:
    return Study(Path("/out"), listed, Options(mode="site", balance=balance), **more)


def test_all_scans_count_the_same_by_default() -> None:
    listed = scans(**AGES)
    assert scan_weights(plan(listed), listed).for_scans(listed) is None


def test_weights_are_1_on_average_and_give_sites_the_same_mean() -> None:
    listed = scans(**AGES)
    found = scan_weights(plan(listed, "age"), listed)
    for site, ages in AGES.items():
        own = found.for_scans([scan for scan in listed if scan.site == site])
        assert own is not None
        assert np.mean(own) == pytest.approx(1)
        assert np.average(ages, weights=own) == pytest.approx(found.target["age"])
        assert found.sites[site].effective < len(ages)
        assert found.sites[site].unknown == 0


def test_a_scan_whose_covariate_is_not_known_has_no_part() -> None:
    listed = scans(A=[*AGES["A"], None], B=AGES["B"])
    found = scan_weights(plan(listed, "age"), listed)
    assert [name for name, weight in found.of.items() if weight == 0] == ["A8"]
    assert len(found.weighted(listed)) == len(listed) - 1
    assert (found.sites["A"].scans, found.sites["A"].unknown) == (8, 1)
    without = scan_weights(plan(listed, "age"), [scan for scan in listed if scan.name != "A8"])
    assert without.of == {name: weight for name, weight in found.of.items() if name != "A8"}


def test_a_site_of_which_nothing_is_known_is_not_weighted() -> None:
    listed = scans(**AGES, C=[None, None])
    found = scan_weights(plan(listed, "age"), listed)
    assert [found.of["C0"], found.of["C1"]] == [1, 1]
    assert set(found.sites) == {"A", "B"}


def test_what_cannot_be_balanced_is_refused_before_any_work() -> None:
    listed = scans(**AGES)
    check_balance(plan(listed))
    check_balance(plan(listed, "age", "sex"))
    with pytest.raises(InvalidValueError, match="covariate 'iq'; the covariates are: age, sex"):
        check_balance(plan(listed, "iq"))
    with pytest.raises(InvalidValueError, match="--reference gives one"):
        check_balance(plan(listed, "age", given="r.json"))
    with pytest.raises(InvalidValueError, match="all scans are from one, A"):
        check_balance(plan(listed[:8], "age"))
    with pytest.raises(FileError, match=r"site is not known \(row 2\)"):
        check_balance(plan([replace(listed[0], site=None), *listed[1:]], "age"))
    with pytest.raises(InvalidValueError, match="no scan from C has all of age"):
        check_balance(plan(scans(**AGES, C=[None, None]), "age"))
    with pytest.raises(InvalidValueError, match=r"--balance age: it is 40.0 for all scans"):
        check_balance(plan(scans(A=[40], B=[40, 40]), "age"))
    apart = [replace(one, covariates={}) for one in listed[8:]]
    apart[0] = replace(apart[0], covariates={"age": "50"})
    apart[1] = replace(apart[1], covariates={"sex": "F"})
    with pytest.raises(InvalidValueError, match="no scan from B has all of age, sex"):
        check_balance(plan([*listed[:8], *apart], "age", "sex"))


# ── sites whose people differ ─────────────────────────────────────────────────────────────────────


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
