"""Every value survives a round trip through JSON to the last bit; damaged JSON is rejected."""

import copy
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import mixtures

import ndflow
from ndflow import Affine, Chain, Fit, GaussianMixture, Histogram, IntensityMap, Reference
from ndflow.population import Landmarks, TissueModel, Tissues
from ndflow.transport import (
    Flow,
    InverseTabulated,
    LinearTails,
    Match,
    PiecewiseLinear,
    QuantileMap,
    Tabulated,
)
from ndflow.values import Status, Value

# Every finite double: subnormal, negative zero, 1e308.
doubles = st.floats(allow_nan=False, allow_infinity=False)
traces = st.lists(doubles, max_size=4)
statuses = st.builds(Status, st.booleans(), st.integers(0, 2**53), st.text())


def sized(least: float, most: float) -> st.SearchStrategy[float]:
    return st.floats(least, most, allow_subnormal=least < 1e-307)


@st.composite
def histograms(draw: st.DrawFn) -> Histogram:
    d, n = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    rows = st.lists(doubles, min_size=d, max_size=d)
    counts = st.lists(sized(5e-324, 1e300), min_size=n, max_size=n)
    widths = st.lists(sized(0.0, 1e300), min_size=d, max_size=d)
    values = draw(st.lists(rows, min_size=n, max_size=n))
    return Histogram(values, draw(counts), draw(widths), draw(rows))


@st.composite
def extreme_mixtures(draw: st.DrawFn, shape: GaussianMixture | None = None) -> GaussianMixture:
    """A mixture with means of any size and standard deviations from 1e-140 to 1e140."""
    shape = shape or draw(mixtures(most=4))
    stretch = draw(sized(1e-280, 1e280))
    means = [[draw(doubles) for _ in range(shape.channels)] for _ in range(shape.components)]
    return GaussianMixture(shape.weights, means, shape.precisions * stretch)


@st.composite
def affines(draw: st.DrawFn) -> Affine:
    d = draw(st.integers(1, 3))
    matrix = np.full((d, d), -0.0)
    matrix[np.diag_indices(d)] = [draw(sized(1e-300, 1e300)) for _ in range(d)]
    return Affine(matrix, [draw(doubles) for _ in range(d)])


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    shape = draw(mixtures(most=4))
    source, target = draw(extreme_mixtures(shape)), draw(extreme_mixtures(shape))
    return Flow(source, target, draw(st.integers(1, 100)))


@st.composite
def tables(draw: st.DrawFn) -> Tabulated:
    """Steps up and to the right of any size, and slopes gentle enough to be allowed."""
    step = st.tuples(sized(1e-70, 1e70), sized(1e-70, 1e70))
    steps = np.array(draw(st.lists(step, min_size=1, max_size=5)))
    knots, values = np.concatenate([[[0.0, -0.0]], np.cumsum(steps, axis=0)]).T
    rising = np.concatenate([[True], (np.diff(knots) > 0) & (np.diff(values) > 0)])
    knots, values = knots[rising], values[rising]  # a tiny step after a huge one is none
    gentlest = float((np.diff(values) / np.diff(knots)).min())
    return Tabulated(knots, values, np.full(knots.size, gentlest * draw(sized(1e-50, 2.0))))


one_channel = st.one_of(tables(), st.builds(Affine, sized(1e-300, 1e300), doubles))


@st.composite
def with_tails(draw: st.DrawFn) -> LinearTails:
    low, high = sorted(draw(st.lists(doubles, min_size=2, max_size=2, unique=True)))
    return LinearTails(draw(one_channel), low, high)


@st.composite
def matches(draw: st.DrawFn) -> Match:
    flow = draw(flows())
    return Match(flow.source, flow.target, draw(traces), draw(traces), draw(statuses))


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "Histogram": histograms(),
    "GaussianMixture": extreme_mixtures(),
    "Status": statuses,
    "Fit": st.builds(Fit, extreme_mixtures(), traces, statuses),
    "Match": matches(),
    "Affine": affines(),
    "Flow": flows(),
    "QuantileMap": st.builds(QuantileMap, *[mixtures(1).flatmap(extreme_mixtures)] * 2),
    "LinearTails": with_tails(),
    "Tabulated": tables(),
    "InverseTabulated": st.builds(InverseTabulated, tables()),
    "PiecewiseLinear": tables().map(lambda table: PiecewiseLinear(table.knots, table.knots)),
    "Landmarks": tables().map(lambda table: Landmarks("nyul", table.values)),
    "Chain": st.builds(Chain, st.lists(one_channel | with_tails(), min_size=1, max_size=3)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def through_json(value: Value) -> Value:
    return type(value).from_dict(json.loads(json.dumps(value.to_dict())))


def bits(item: Any) -> Any:
    """The dictionary of a value with every double spelt out, so that -0.0 and 0.0 differ."""
    if isinstance(item, dict):
        return {key: bits(part) for key, part in item.items()}
    if isinstance(item, list):
        return [bits(part) for part in item]
    return item.hex() if isinstance(item, float) else item


@every_kind
@given(data=st.data())
def test_a_value_is_the_same_bit_by_bit_after_a_round_trip_through_json(
    kind: str, data: st.DataObject
) -> None:
    value = data.draw(KINDS[kind])
    rebuilt = through_json(value)
    assert type(rebuilt).__name__ == kind
    assert rebuilt == value
    assert bits(rebuilt.to_dict()) == bits(value.to_dict())


@given(seed=st.integers(0, 2**32 - 1), ends=st.tuples(mixtures(1), mixtures(1)))
def test_a_rebuilt_map_gives_the_same_bytes(
    seed: int, ends: tuple[GaussianMixture, GaussianMixture]
) -> None:
    whole = ndflow.normalising_map(*ends)
    flow = ndflow.normalising_map(*ends, solver="rk4", steps=4)
    table = ndflow.transport.tabulate(whole, -3.0, 3.0, points=20)
    maps = [whole, *whole.maps, *flow.maps, table, table.inverse()]
    x = np.random.default_rng(seed).normal(0, 2, 100)
    for imap in [*maps, *(part.inverse() for part in maps)]:
        rebuilt = through_json(imap)
        assert isinstance(rebuilt, IntensityMap)
        assert rebuilt(x).tobytes() == imap(x).tobytes()
        assert rebuilt.log_det_jacobian(x).tobytes() == imap.log_det_jacobian(x).tobytes()


@given(ends=st.tuples(mixtures(2), mixtures(2)))
def test_a_rebuilt_map_of_two_channels_gives_the_same_bytes(
    ends: tuple[GaussianMixture, GaussianMixture],
) -> None:
    imap = ndflow.normalising_map(*ends, steps=4)
    x = np.random.default_rng(0).normal(0, 2, (20, 2))
    assert through_json(imap)(x).tobytes() == imap(x).tobytes()


MIXTURE = GaussianMixture([0.5, 0.5], [0.0, 3.0], [1.0, 2.0])
TABLE = Tabulated([0.0, 1.0], [0.0, 2.0], [2.0, 2.0])
SHIFT = Affine(1.0, 0.0)
STANDARD = GaussianMixture([1.0], [0.0], [1.0])
DONE = Status(True, 3, "done")
EXAMPLES: list[Value] = [
    Histogram([1.0, 2.0], [3.0, 4.0]),
    MIXTURE,
    DONE,
    Fit(MIXTURE, [1.0, 2.0], DONE),
    Match(MIXTURE, MIXTURE, [0.0], [0.0], DONE),
    SHIFT,
    Flow(MIXTURE, MIXTURE, 2),
    QuantileMap(MIXTURE, MIXTURE),
    LinearTails(SHIFT, 0.0, 1.0),
    TABLE,
    InverseTabulated(TABLE),
    PiecewiseLinear([0.0, 1.0], [2.0, 5.0]),
    Landmarks("nyul", [1.0, 2.0]),
    Chain((SHIFT, LinearTails(TABLE, 0.0, 1.0))),
    Tissues((MIXTURE, MIXTURE, MIXTURE), [0.25, 0.5, 0.25]),
    TissueModel((MIXTURE, MIXTURE, MIXTURE), [0.25, 0.5, 0.25], np.zeros((3, 3))),
    Reference(STANDARD, ("T1w",), 3, landmarks=Landmarks("nyul", [-1.0, 1.0])),
]


def test_equality_sees_every_bit() -> None:
    assert Affine(1.0, 0.0) != Affine(1.0, -0.0)
    assert Affine(1.0, 0.0) != Affine(np.nextafter(1.0, 2.0), 0.0)
    assert LinearTails(SHIFT, 0.0, 1.0) != LinearTails(SHIFT, -0.0, 1.0)
    assert LinearTails(SHIFT, 0, 1) == LinearTails(SHIFT, 0.0, 1.0)


def test_numbers_that_come_from_numpy_can_be_stored() -> None:
    for value in (
        LinearTails(SHIFT, np.float32(0.0), np.int64(1)),
        Flow(MIXTURE, MIXTURE, np.int64(2)),
    ):
        assert through_json(value) == value


def test_a_file_of_the_wrong_kind_is_named() -> None:
    with pytest.raises(ndflow.InvalidValueError, match="expected a Histogram, got a Affine"):
        Histogram.from_dict(SHIFT.to_dict())
    assert IntensityMap.from_dict(SHIFT.to_dict()) == SHIFT


@pytest.mark.parametrize("kind", ["Nonsense", "IntensityMap", "Value", "", None, 3, ["Affine"]])
def test_an_unknown_type_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(ndflow.InvalidValueError, match="not a type of value that ndflow knows"):
        Affine.from_dict({"type": kind, "matrix": [[1.0]], "offset": [0.0]})


@pytest.mark.parametrize("data", [None, 3, 1.5, "Affine", [], [{}], {}, {"matrix": 1.0}])
def test_anything_but_the_dictionary_of_a_value_is_refused(data: Any) -> None:
    with pytest.raises(ndflow.InvalidValueError):
        Affine.from_dict(data)


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_missing_and_unknown_entries_are_named(value: Value) -> None:
    data = value.to_dict()
    optional = {
        f.name
        for f in dataclasses.fields(value)
        if not (f.default is f.default_factory is dataclasses.MISSING)
    }
    for name in data.keys() - {"type"} - optional:
        with pytest.raises(ndflow.InvalidValueError, match=f"it has no '{name}'"):
            type(value).from_dict({key: item for key, item in data.items() if key != name})
    with pytest.raises(ndflow.InvalidValueError, match="unknown entries: extra"):
        type(value).from_dict(data | {"extra": 1})


def test_missing_entries_of_fields_with_a_default_take_that_default() -> None:
    assert Flow.from_dict(without(Flow(MIXTURE, MIXTURE, 2), "steps")).steps == 100
    bare = without(Histogram([1.0, 2.0], [3.0, 4.0]), "widths", "origin")
    assert Histogram.from_dict(bare) == Histogram([1.0, 2.0], [3.0, 4.0])


def without(value: Value, *names: str) -> dict[str, Any]:
    return {key: item for key, item in value.to_dict().items() if key not in names}


def nested(depth: int, inner: Any, wrap: Any) -> Any:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def in_chain(data: Any) -> Any:
    return {"type": "Chain", "maps": [data]}


def in_tails(data: Any) -> Any:
    return {"type": "LinearTails", "inner": data, "low": 0.0, "high": 1.0}


@pytest.mark.parametrize("depth", [50, 400, 100_000])
def test_endless_nesting_is_refused(depth: int) -> None:
    lists = nested(depth, 1.0, lambda inner: [inner])
    for data in (
        SHIFT.to_dict() | {"matrix": lists},
        SHIFT.to_dict() | {"type": lists},
        in_tails(SHIFT.to_dict()) | {"low": lists},
        DONE.to_dict() | {"message": lists},
        in_chain(lists),
        nested(depth, 1.0, in_chain),
        nested(depth, 1.0, in_tails),
        nested(depth, SHIFT.to_dict() | {"offset": [float("nan")]}, in_tails),
    ):
        with pytest.raises(ndflow.InvalidValueError):
            Value.from_dict(data)


# Damage: one entry of a valid dictionary, anywhere in it, is replaced, removed or added.

numbers = st.floats() | st.integers() | st.sampled_from([10**400, -(10**400), 1.7e308, 5e-324])
leaves = st.none() | st.booleans() | numbers | st.text(max_size=3) | st.sampled_from(["1", "nan"])
known = st.sampled_from([value.to_dict() for value in EXAMPLES])
damage = st.recursive(
    leaves | known | st.lists(numbers, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.just("type"), inner, max_size=2)
    ),
    max_leaves=5,
)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything inside a dictionary."""
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield (*path, key)
            yield from places(data[key], (*path, key))


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
@given(data=st.data())
def test_damaged_json_is_refused_or_read_as_what_it_says(value: Value, data: st.DataObject) -> None:
    broken = copy.deepcopy(value.to_dict())
    *way, last = data.draw(st.sampled_from(list(places(broken))))
    inside = broken
    for key in way:
        inside = inside[key]
    if data.draw(st.sampled_from(["replace", "replace", "replace", "remove"])) == "replace":
        inside[last] = data.draw(damage)
    else:
        del inside[last]
    try:
        read = type(value).from_dict(broken)
    except ndflow.InvalidValueError:
        return
    except ndflow.DegenerateDataError:
        assert isinstance(value, Histogram)  # one that counts nothing
        return
    assert type(read) is type(value)
    assert through_json(read) == read
