"""Records: typed values that go to JSON and back, and refuse what is not of their types."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import pytest

from ndflow import Affine, GaussianMixture, IntensityMap, InvalidValueError
from ndflow.values import Record


@dataclass(frozen=True)
class Inner(Record):
    name: str
    share: float = 0.5


@dataclass(frozen=True)
class Everything(Record):
    """One field of each kind that records have."""

    text: str
    number: float
    count: int
    flag: bool
    mixture: GaussianMixture
    imap: IntensityMap
    inner: Inner
    pair: tuple[float, float]
    words: tuple[str, ...]
    parts: tuple[Inner, ...]
    shares: dict[str, float]
    files: dict[str, tuple[Inner, ...]]
    anything: dict[str, Any]
    maybe: int | None = None
    maybe_inner: Inner | None = None


EXAMPLE = Everything(
    *("é", 0.1, 3, True),
    *(GaussianMixture([0.5, 0.5], [0.0, 3.0], [1.0, 2.0]), Affine(2.0, -0.0), Inner("a")),
    *((1.0, 2.5), ("x", "y"), (Inner("b", 0.25), Inner("c"))),
    {"CSF": 0.2},
    {"image": (Inner("d"),), "mask": ()},
    {"range": [0, 1], "deep": {"list": [1, "two", None]}},
    maybe_inner=Inner("e"),
)


def test_a_record_is_the_same_after_a_round_trip() -> None:
    again = Everything.from_dict(json.loads(json.dumps(EXAMPLE.to_dict())))
    assert again == EXAMPLE
    assert again.to_dict() == EXAMPLE.to_dict()
    for one in dataclasses.fields(EXAMPLE):
        assert type(getattr(again, one.name)) is type(getattr(EXAMPLE, one.name)), one.name
    assert isinstance(again.imap, Affine)  # of the type that was written


def test_unknown_keys_are_ignored_also_in_nested_records() -> None:
    data = EXAMPLE.to_dict()
    later = {**data, "invented": [1], "inner": {**data["inner"], "later": {"x": 1}}}
    assert Everything.from_dict(later) == EXAMPLE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": 10**400}, "^number must be a number that fits a double"),
        ({"count": True}, r"^count must be of the type int, not True"),
        ({"flag": 1}, r"flag must be of the type bool, not 1"),
        ({"pair": [1.0]}, r"pair must be a list of 2, not \[1\.0\]"),
        ({"pair": "ab"}, r"pair must be a list, not 'ab'"),
        ({"shares": {"CSF": "a"}}, r"shares\.CSF must be of the type float"),
        ({"inner": {}}, "inner: it has no 'name'"),
        ({"parts": [{"name": 3}]}, "parts: name must be of the type str, not 3"),
        ({"mixture": Affine(1.0, 0.0).to_dict()}, "type must be GaussianMixture, not 'Affine'"),
        ({"mixture": {"means": 0.5}}, "^mixture: its type must be GaussianMixture, not None"),
        ({"imap": {"type": "os.system"}}, "type must be IntensityMap, not 'os.system'"),
    ],
)
def test_wrong_types_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        Everything.from_dict({**EXAMPLE.to_dict(), **changes})
