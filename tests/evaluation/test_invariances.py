"""What must not change the numbers of a comparison: units, and where maps come from."""

import pytest
from compared_runs import Desk, alike, compared, numbers

pytestmark = pytest.mark.slow


def test_the_scale_does_not_matter(desk: Desk) -> None:
    runs = [desk.run(scale, mode="two-level", scale=scale) for scale in ("standard", "positive")]
    both = numbers(compared(*runs), "age")
    alike(both, both, {"standard": "positive", "affine": "affine"}, rel=1e-4, abs=1e-5)


def test_the_affine_condition_equals_a_study_run_with_the_affine_method(desk: Desk) -> None:
    flow, affine = desk.run("flow"), desk.run("aligned", method="affine")
    both = compared(flow, affine)
    assert [one.name for one in both.conditions] == ["unnormalised", "affine", "flow"]
    assert both.affine.study is not None
    names = {name: name for name in ("unnormalised", "affine", "flow")}
    alike(numbers(compared(flow), "age"), numbers(both, "age"), names, rel=2e-3, abs=1e-4)
