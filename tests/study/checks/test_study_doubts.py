"""What is unusual about a scan among those of its study, and how doubts are counted."""

import pytest

from ndflow.doubt import Doubt
from ndflow.study.checks import Compared, compared_doubts, doubt_counts


def alone(scan: Compared) -> list[Doubt]:
    """Return the doubts about a scan among eight without any."""
    others = {f"o{number}": Compared(1e-5, 100_000, "A") for number in range(8)}
    found = compared_doubts(others | {"s": scan})
    assert set(found) <= {"s"}
    return list(found.get("s", ()))


@pytest.mark.parametrize(
    ("scan", "kind", "words"),
    [
        (Compared(1e-2, 100_000, "A"), "unusual divergence", ("0.01", "1000 times", "lesion")),
        (Compared(1e-5, 30_000, "A"), "few voxels", ("30,000 voxels", "mask")),
        (Compared(None, 4_000, "B"), "few voxels", ("4,000 voxels",)),
    ],
)
def test_an_unusual_scan_is_doubtful(scan: Compared, kind: str, words: tuple[str, ...]) -> None:
    (doubt,) = alone(scan)
    assert doubt.kind == kind
    assert [word for word in words if word not in str(doubt)] == []


@pytest.mark.parametrize(
    "scan",
    [
        Compared(9e-5, 100_000, "A"),  # more than usual, but negligible
        Compared(None, 50_000, "A"),
        Compared(1e-5, None, "A"),
        Compared(1e-5, 12_000, "B"),  # another site, perhaps with larger voxels
        Compared(),
    ],
)
def test_values_within_bounds_or_unknown_are_not(scan: Compared) -> None:
    assert alone(scan) == []


def test_divergence_is_measured_against_the_other_scans() -> None:
    poor = {f"p{number}": Compared(0.02) for number in range(5)}
    assert compared_doubts(poor) == {}
    assert list(compared_doubts(poor | {"worse": Compared(0.2)})) == ["worse"]
    assert compared_doubts({}) == {}


def test_a_divergence_among_scans_that_have_none_left_is_doubtful() -> None:
    found = compared_doubts(
        {**{f"o{number}": Compared(0.0) for number in range(4)}, "s": Compared(0.01)}
    )
    ((doubt,),) = found.values()
    assert "a divergence of 0.01" in doubt.text
    assert "times" not in doubt.text


def test_few_voxels_are_few_also_where_all_scans_have_few() -> None:
    assert len(compared_doubts({name: Compared(voxels=4000) for name in "abc"})) == 3
    assert compared_doubts({"a": Compared(voxels=6000)}) == {}


def test_doubts_are_counted_by_kind_the_most_frequent_first() -> None:
    head, steep = Doubt("whole head", "1", "mask it"), Doubt("steep map", "2", "look")
    again = Doubt("steep map", "3", "look")
    counts = doubt_counts({"a": (head,), "b": (steep, again), "c": (head, steep), "d": (steep,)})
    assert counts == [
        ("steep map", ["b", "c", "d"], "look"),
        ("whole head", ["a", "c"], "mask it"),
    ]
    assert doubt_counts({}) == []
