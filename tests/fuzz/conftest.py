"""The fixture that tries the cases of a class, and hands their number to the summary."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz.cases import Case, Plan, try_cases

Fuzz = Callable[..., None]


@pytest.fixture
def fuzz(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> Fuzz:
    """Return a function that tries the cases of the class that a test is named after."""

    def run(case: Case, bounded: int, *, slow: bool = False, both: bool = True) -> None:
        plan = Plan.given()
        name = request.node.name.removeprefix("test_")
        tally = try_cases(name, case, tmp_path, bounded, plan=plan, slow=slow)
        record_property("fuzz", str(tally))
        assert not tally.failures, "\n\n".join(tally.failures)
        if both and plan.cases is None:  # if all are accepted, or all refused, they show nothing
            assert tally.accepted
            assert tally.refused

    return run
