"""The weights of scans in the references of a study."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.study.plan import Study
from ndflow.study.weights import check_balance, scan_weights

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
