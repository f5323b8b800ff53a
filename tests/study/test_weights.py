"""Covariates of scans, the weights that follow from them, and what they leave."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndflow.errors import InvalidValueError
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.study.plan import Study
from ndflow.study.weights import (
    OTHER_AGES,
    age_doubts,
    ages_by_site,
    balance_doubts,
    check_balance,
    columns_of,
    scan_weights,
    traveller_doubts,
    travellers,
)

# ── covariates ────────────────────────────────────────────────────────────────────────────────────


def test_what_is_no_number_among_numbers_is_refused_by_row() -> None:
    listed = [
        Subject(f"{row}.nii", covariates={"age": age}, origin=f"row {row}")
        for row, age in enumerate(("34", "89+", "61", "12", "inf"), 2)
    ]
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


def test_weights_are_1_on_average_and_give_sites_the_same_mean() -> None:
    listed = scans(**AGES)
    assert scan_weights(plan(listed), listed).for_scans(listed) is None
    found = scan_weights(plan(listed, "age"), listed)
    for site, ages in AGES.items():
        own = found.for_scans([scan for scan in listed if scan.site == site])
        assert own is not None
        assert np.mean(own) == pytest.approx(1)
        assert np.average(ages, weights=own) == pytest.approx(found.target["age"])
    assert balance_doubts(found, listed, ["age"]) == ()
    few = {site: replace(own, effective=5.5) for site, own in found.sites.items()}
    (doubt,) = balance_doubts(found._replace(sites=few), listed, ["age"])
    assert "5.5 of 8 at A and 5.5 of 8 at B" in doubt.text


def test_a_scan_whose_covariate_is_not_known_has_no_part() -> None:
    listed = scans(A=[*AGES["A"], None], B=AGES["B"], C=[None, None])
    found = scan_weights(plan(listed, "age"), listed)
    assert [name for name, weight in found.of.items() if weight == 0] == ["A8"]
    assert [found.of["C0"], found.of["C1"]] == [1, 1]  # of a site of which nothing is known
    others = scans(**AGES)
    known = {name: weight for name, weight in found.of.items() if name not in ("A8", "C0", "C1")}
    assert scan_weights(plan(others, "age"), others).of == known


@pytest.mark.parametrize(
    ("ages", "balance", "more", "message"),
    [
        (AGES, ("iq",), {}, "covariate 'iq'; the covariates are: age, sex"),
        (AGES, ("age",), {"given": "r.json"}, "--reference gives one"),
        ({"A": AGES["A"]}, ("age",), {}, "all scans are from one, A"),
        ({**AGES, "C": [None, None]}, ("age", "sex"), {}, "no scan from C has all of age, sex"),
    ],
)
def test_what_cannot_be_balanced_is_refused_before_any_work(
    ages: Any, balance: tuple[str, ...], more: Any, message: str
) -> None:
    check_balance(plan(scans(**AGES), "age", "sex"))
    with pytest.raises(InvalidValueError, match=message):
        check_balance(plan(scans(**ages), *balance, **more))


# ── people who travelled ──────────────────────────────────────────────────────────────────────────


def travellers_at(*seen: str, **more: Any) -> Study:
    """A study of people who were scanned at sites of one letter, and others who stayed at home."""
    listed = [
        Subject(f"/{person}{site}.nii", site=site, person=str(person), name=f"{person}{site}")
        for person, sites in enumerate(seen)
        for site in sites
    ]
    return plan(listed, "subject", **more)


def test_people_connect_sites_directly_or_through_others() -> None:
    for seen in (["AB", "AB", "AB"], ["AB", "BC", "CD", "A", "D"], ["ABC"]):
        check_balance(travellers_at(*seen))
    for seen, groups in (
        (["AB", "CD", "A"], r"A, B \| C, D;"),
        (["AB", "C"], r"A, B \| C;"),
        (["A", "B"], r"A \| B;"),
    ):
        with pytest.raises(InvalidValueError, match=groups):
            check_balance(travellers_at(*seen))
    two = plan(travellers_at("AB").scans, "age", "subject")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="no covariates beside it"):
        check_balance(two)
    alone = travellers_at("AB")
    alone = replace(alone, options=replace(alone.options, mode="individual"))
    with pytest.raises(InvalidValueError, match="--mode two-level, --method ndflow"):
        check_balance(alone)


def test_few_travelling_people_are_doubted() -> None:
    for seen, words in ((["AB", "AB", "A"], "2 at A and 2 at B"), (["AB"] * 3, "")):
        study = travellers_at(*seen)
        doubts = traveller_doubts(travellers(study, study.scans))
        assert [words in doubt.text for doubt in doubts] == [True] * bool(words)


# ── sites whose people differ ─────────────────────────────────────────────────────────────────────


def drawn(seed: int, *means: float, sd: float = 12.0, scans: int = 15) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    return {f"S{k}": generator.normal(mean, sd, scans) for k, mean in enumerate(means)}


def test_sites_of_different_ages_are_named_and_others_are_not() -> None:
    (doubt,) = age_doubts(drawn(0, 30, 45, 65))
    assert doubt.kind == OTHER_AGES
    assert "at S0 and" in doubt.text
    assert "at S2: site explains" in doubt.text
    assert sum(bool(age_doubts(drawn(seed, 50, 50, 50))) for seed in range(300)) <= 2


@pytest.mark.parametrize("column", ["age", "Age", "age_at_scan", "AGE (years)"])
def test_ages_are_found_by_what_their_column_is_called(column: str) -> None:
    scans = [
        Subject(f"{number}.nii", site=site, covariates={column: age, "wage": "3"})
        for number, (site, age) in enumerate([("A", "34"), ("A", "n.k."), (None, "50")])
    ]
    name, ages = ages_by_site(scans)
    assert (name, {site: own.tolist() for site, own in ages.items()}) == (column, {"A": [34]})
