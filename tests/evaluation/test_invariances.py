"""Where the alignment comes from must not change the numbers of a comparison."""

import pytest
from compared_runs import Desk, compared, numbers


@pytest.mark.slow
def test_the_affine_condition_equals_a_study_run_with_the_affine_method(desk: Desk) -> None:
    flow, affine = desk.run("flow"), desk.run("aligned", method="affine")
    both = compared(flow, affine)
    assert [one.name for one in both.conditions] == ["unnormalised", "affine", "flow"]
    assert both.affine.study is not None
    alone, found = numbers(compared(flow), "age"), numbers(both, "age")
    for table, rows in alone.items():
        for key, row in rows.items():
            for column, number in row.items():
                if isinstance(number, float):
                    number = pytest.approx(number, rel=2e-3, abs=1e-4)
                assert found[table][key][column] == number, (table, key, column)
