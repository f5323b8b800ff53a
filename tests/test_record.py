"""Records: typed values that go to JSON and back, and refuse what is not of their types."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import mixtures

import ndflow.subject.records as records
from ndflow import Affine, GaussianMixture, IntensityMap, InvalidValueError
from ndflow.methods.solution import MatchRecord
from ndflow.population import Landmarks
from ndflow.study import finished, prepare_step  # noqa: F401  (their records are tested)
from ndflow.values import Record, Value


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
    maybe_words: tuple[str, ...] | None = None
    more: dict[str, int] = field(default_factory=dict)


MIXTURE = GaussianMixture([0.5, 0.5], [0.0, 3.0], [1.0, 2.0])
EXAMPLE = Everything(
    "é",
    0.1,
    3,
    True,
    MIXTURE,
    Affine(2.0, -0.0),
    Inner("a"),
    (1.0, 2.5),
    ("x", "y"),
    (Inner("b", 0.25), Inner("c")),
    {"CSF": 0.2},
    {"image": (Inner("d"),), "mask": ()},
    {"range": [0, 1], "deep": {"list": [1, "two", None]}},
    maybe_inner=Inner("e"),
)


def through_json(record: Record) -> Any:
    return type(record).from_dict(json.loads(json.dumps(record.to_dict())))


# ── there and back ───────────────────────────────────────────────────────────────────────────────


def test_a_record_is_the_same_after_a_round_trip() -> None:
    again = through_json(EXAMPLE)
    assert again == EXAMPLE
    assert again.to_dict() == EXAMPLE.to_dict()
    for one in dataclasses.fields(EXAMPLE):
        assert type(getattr(again, one.name)) is type(getattr(EXAMPLE, one.name)), one.name
    assert isinstance(again.imap, Affine)  # of the type that was written


def test_fields_that_are_none_are_left_out_and_come_back() -> None:
    data = EXAMPLE.to_dict()
    assert not {"maybe", "maybe_words"} & data.keys()
    assert (through_json(EXAMPLE).maybe, through_json(EXAMPLE).maybe_words) == (None, None)
    given_none = Everything.from_dict({**data, "maybe": None, "maybe_inner": None})
    assert (given_none.maybe, given_none.maybe_inner) == (None, None)


def test_fields_with_a_default_may_be_missing_and_others_may_not() -> None:
    data = EXAMPLE.to_dict()
    optional = {"maybe", "maybe_inner", "maybe_words", "more"}
    bare = Everything.from_dict({key: part for key, part in data.items() if key not in optional})
    assert (bare.maybe, bare.more) == (None, {})
    for name in {one.name for one in dataclasses.fields(Everything)} - optional:
        lacking = {key: part for key, part in data.items() if key != name}
        with pytest.raises(InvalidValueError, match=f"it has no '{name}'"):
            Everything.from_dict(lacking)
        with pytest.raises(InvalidValueError, match=f"it has no '{name}'"):
            Everything.from_dict(lacking | {name: None})


def test_unknown_keys_are_ignored_also_in_nested_records() -> None:
    data = EXAMPLE.to_dict()
    later = {**data, "invented": [1], "inner": {**data["inner"], "later": {"x": 1}}}
    assert Everything.from_dict(later) == EXAMPLE


def test_whole_numbers_may_stand_for_real_ones_but_not_the_other_way_round() -> None:
    data = EXAMPLE.to_dict()
    found = Everything.from_dict({**data, "number": 2, "pair": [1, 2]})
    assert (found.number, found.pair) == (2.0, (1.0, 2.0))
    assert isinstance(found.number, float)
    assert isinstance(found.pair[0], float)
    with pytest.raises(InvalidValueError, match=r"^count must be of the type int"):
        Everything.from_dict({**data, "count": 3.0})


def test_arrays_of_numpy_become_lists() -> None:
    @dataclass(frozen=True)
    class Numbers(Record):
        values: Any

    assert Numbers(np.arange(3)).to_dict() == {"values": [0, 1, 2]}


@given(
    st.text(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53), 2**53),
    st.booleans(),
    mixtures(1, most=4),
    st.lists(st.text(), max_size=4).map(tuple),
    st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False), max_size=4),
    st.lists(st.builds(Inner, st.text(), st.floats(0, 1)), max_size=3).map(tuple),
    st.none() | st.integers(0, 9),
)
def test_any_record_survives_json(
    text: str,
    number: float,
    count: int,
    flag: bool,
    mixture: GaussianMixture,
    words: tuple[str, ...],
    shares: dict[str, float],
    parts: tuple[Inner, ...],
    maybe: int | None,
) -> None:
    record = dataclasses.replace(
        EXAMPLE,
        text=text,
        number=number,
        count=count,
        flag=flag,
        mixture=mixture,
        words=words,
        shares=shares,
        parts=parts,
        files=dict.fromkeys(words, parts),
        maybe=maybe,
    )
    assert through_json(record) == record


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": 10**400}, "^number must be a number that fits a double"),
        ({"text": 3}, r"text must be of the type str, not 3"),
        ({"number": "0.1"}, r"number must be of the type float, not '0\.1'"),
        ({"number": True}, r"number must be of the type float, not True"),
        ({"count": True}, r"^count must be of the type int, not True"),
        ({"flag": 1}, r"flag must be of the type bool, not 1"),
        ({"pair": [1.0]}, r"pair must be a list of 2, not \[1\.0\]"),
        ({"pair": "ab"}, r"pair must be a list, not 'ab'"),
        ({"pair": [1.0, "b"]}, r"pair must be of the type float, not 'b'"),
        ({"words": "xy"}, r"words must be a list, not 'xy'"),
        ({"words": ["x", 2]}, r"words must be of the type str, not 2"),
        ({"shares": [0.2]}, r"shares must be a JSON object, not \[0\.2\]"),
        ({"shares": {"CSF": "a"}}, r"shares\.CSF must be of the type float"),
        ({"files": {"image": 3}}, r"files\.image must be a list"),
        ({"maybe": "1"}, r"maybe must be of the type int, not '1'"),
        ({"inner": 3}, "inner: it must be a JSON object, not 3"),
        ({"inner": {}}, "inner: it has no 'name'"),
        ({"parts": [{"name": 3}]}, "parts: name must be of the type str, not 3"),
        ({"mixture": 3}, "mixture: it must be a JSON object, not 3"),
        ({"mixture": Affine(1.0, 0.0).to_dict()}, "expected a GaussianMixture, got a Affine"),
        ({"imap": MIXTURE.to_dict()}, "expected a IntensityMap, got a GaussianMixture"),
        ({"imap": {"type": "os.system"}}, "not a type of value that ndflow knows"),
    ],
)
def test_wrong_types_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        Everything.from_dict({**EXAMPLE.to_dict(), **changes})


@pytest.mark.parametrize("data", [None, 3, "text", [], [1]])
def test_anything_but_a_json_object_is_refused(data: Any) -> None:
    with pytest.raises(InvalidValueError, match="it must be a JSON object"):
        Inner.from_dict(data)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
damage = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@given(st.sampled_from([one.name for one in dataclasses.fields(Everything)]), damage)
def test_damage_is_refused_or_read_as_what_it_says(name: str, wrong: Any) -> None:
    try:
        read = Everything.from_dict({**EXAMPLE.to_dict(), name: wrong})
    except InvalidValueError:
        return
    again = Everything.from_dict(read.to_dict())
    assert repr(again) == repr(read)  # where NaN is like NaN


# ── the records of files ─────────────────────────────────────────────────────────────────────────


def of_files(kind: type[Any] = Record) -> list[type[Any]]:
    """Return every record of the package."""
    known = [one for one in kind.__subclasses__() if one.__module__.startswith("ndflow.")]
    found = [one for one in known if not issubclass(one, Value)]
    return [one for part in found for one in (part, *of_files(part))]


@pytest.mark.parametrize("kind", of_files(), ids=lambda kind: kind.__name__)
def test_every_record_of_the_package_is_a_frozen_dataclass_with_known_types(kind: Any) -> None:
    if kind is records.FileRecord:
        return
    assert dataclasses.is_dataclass(kind)
    with pytest.raises(InvalidValueError, match="it must be a JSON object"):
        kind.from_dict([])
    # Types are looked up, so that a field of a type that cannot be rebuilt is noticed here.
    unlike = {one.name: object() for one in dataclasses.fields(kind)}
    with pytest.raises(InvalidValueError, match=r"it has no|must be|expected a"):
        kind.from_dict(unlike)


def test_the_records_of_files_say_which_kind_they_are() -> None:
    kinds = [kind.kind for kind in of_files(records.FileRecord)]
    assert len({*kinds}) == len(kinds)
    assert {"mixture", "reference", "map", "study", "evaluation", "preparation"} <= {*kinds}


def test_a_whole_sidecar_survives_json() -> None:
    landmarks = Landmarks("nyul", [0.0, 1.0])
    record = records.MapRecord(
        Affine(2.0, 1.0),
        ("ndflow", "normalise"),
        {"range": (0.0, 1.0), "method": "nyul"},
        {"image": (records.FileHash("a.nii", "00"),)},
        {"a.nii": "ff"},
        "Aachen",
        records.TargetRecord("r.json", MIXTURE, landmarks),
        MIXTURE,
        match=MatchRecord("aligned", frozen=(1, 2)),
        warnings=("a warning",),
    )
    again = through_json(record)
    plain = dataclasses.replace(record, settings={"range": [0.0, 1.0], "method": "nyul"})
    assert again == plain
