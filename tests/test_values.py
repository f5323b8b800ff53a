"""Values own their arrays, refuse nonsense, and survive JSON to the last bit."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixtures import random_mixture

import ndflow
import ndflow.population
from ndflow import Affine, Histogram
from ndflow.transport import LinearTails
from ndflow.values import Value

MIXTURE = ndflow.GaussianMixture([0.4, 0.6], [0.0, 3.0], [1.0, 4.0])
OTHER = ndflow.GaussianMixture([0.4, 0.6], [0.5, 2.0], [2.0, 2.0])
PLANE = random_mixture(np.random.default_rng(0), 2, channels=2)
STATUS = ndflow.values.Status(True, 3, "converged after 3 sweeps")
AFFINE = ndflow.Affine(2.0, -1.0)
TABLE = ndflow.transport.Tabulated([0.0, 1.0, 3.0], [-1.0, 0.0, 1.0], [1.0, 0.5, 0.5])
FLOW = ndflow.transport.Flow(MIXTURE, OTHER, 4)
STANDARD = ndflow.GaussianMixture([1.0], [0.0], [1.0])

VALUES: dict[str, Value] = {
    "Histogram": ndflow.Histogram([1.0, 2.0, 4.0], [3.0, 5.0, 1.0], [1.0], [0.5]),
    "GaussianMixture": MIXTURE,
    "GaussianMixture in the plane": PLANE,
    "Status": STATUS,
    "Fit": ndflow.Fit(MIXTURE, [-3.0, -2.0], STATUS),
    "Match": ndflow.transport.Match(MIXTURE, OTHER, [0.5, 0.25], STATUS),
    "Affine": AFFINE,
    "Flow": FLOW,
    "QuantileMap": ndflow.transport.QuantileMap(MIXTURE, OTHER),
    "LinearTails": ndflow.transport.LinearTails(FLOW, -1.0, 4.0),
    "Tabulated": TABLE,
    "InverseTabulated": ndflow.transport.InverseTabulated(TABLE),
    "Chain": ndflow.Chain((AFFINE, TABLE)),
    "PiecewiseLinear": ndflow.transport.PiecewiseLinear([0.0, 1.0, 3.0], [-1.0, 0.0, 1.0]),
    "Landmarks": ndflow.population.Landmarks("nyul", [1.0, 2.0, 5.0]),
    "Reference": ndflow.Reference(STANDARD, ("T1w",), 3, {"average": "density"}),
    "Tissues": ndflow.population.Tissues((MIXTURE, OTHER, STANDARD), [0.25, 0.5, 0.25]),
    "TissueModel": ndflow.population.TissueModel(
        (MIXTURE, OTHER, STANDARD), [0.25, 0.5, 0.25], 1e-3 * (np.eye(3) - 1 / 3)
    ),
}
every_value = pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)


def fields(value: Value) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


@every_value
def test_arrays_are_read_only_and_not_shared_with_the_caller(value: Value) -> None:
    given = {
        name: item.copy() if isinstance(item, np.ndarray) else item
        for name, item in fields(value).items()
    }
    made = type(value)(**given)
    for name, item in given.items():
        if isinstance(item, np.ndarray):
            item += 100  # still ours to write to
            with pytest.raises(ValueError, match="read-only"):
                getattr(made, name)[...] = 0
    assert made == value


MILLION = np.full(1_000_000, 1e-6)

# Type, the entries that are wrong (the others come from VALUES), what the message says.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Histogram", {"values": [1.0, float("nan"), 4.0]}, "values must be finite"),
    ("Histogram", {"values": [1.0, 2.0]}, r"counts must have the shape \(2\)"),
    ("Histogram", {"counts": [1.0, -1.0, 2.0]}, "counts must not be negative"),
    ("GaussianMixture", {"weights": [0.4, 0.5]}, "weights must sum to 1, but sum to 0.9"),
    ("GaussianMixture", {"weights": [-0.5, 1.5]}, "weights must not be negative"),
    (
        "GaussianMixture",
        {"weights": MILLION, "means": MILLION, "precisions": MILLION},
        "weights must be 1 to 100000, not 1000000|of 1,000,000 weights, at most 512",
    ),
    # A standard deviation of 1e160 is beyond what doubles can square.
    ("GaussianMixture", {"precisions": [1.0, 1e-320]}, "precisions must be positive definite"),
    (
        "GaussianMixture in the plane",
        {"precisions": [[[1.0, 0.5], [0.0, 1.0]]] * 2},
        "precisions must be symmetric",
    ),
    (
        "GaussianMixture in the plane",
        {"precisions": [[[1.0, 2.0], [2.0, 1.0]]] * 2},
        "precisions must be positive definite",
    ),
    ("Affine", {"matrix": [[1.0, 2.0], [0.0, 0.0]], "offset": [0.0, 0.0]}, "must be invertible"),
    # Singular but for rounding.
    ("Affine", {"matrix": [[0.1, 0.3], [0.7, 2.1]], "offset": [0.0, 0.0]}, "must be invertible"),
    ("Reference", {"mixture": MIXTURE}, "zero mean and unit variance"),
    ("Reference", {"channel_names": ["T1w", "T2w"]}, "channel_names must be 1 different names"),
    ("Reference", {"scans": 0}, "scans must lie between 1 and"),
    ("Flow", {"source": PLANE}, "same weights and channels"),
    ("Flow", {"steps": 10**9}, "steps must"),
    ("QuantileMap", {"source": PLANE}, "source and target must have one channel"),
    ("LinearTails", {"low": 5.0}, "low must be less than high"),
    ("Tabulated", {"knots": [0.0, 1.0, 1.0]}, "knots must be strictly increasing"),
    ("Tabulated", {"knots": MILLION.cumsum()}, "knots must number between 2 and"),
    ("Tabulated", {"values": [-1.0, 0.0, -0.5]}, "values must be strictly increasing"),
    ("Tabulated", {"slopes": [1.0, 9.0, 0.5]}, "slopes must not be so steep"),
    ("PiecewiseLinear", {"knots": [-1e200, 0.0, 1e200]}, "knots must be .*within"),
    ("PiecewiseLinear", {"knots": [0.0, 1e-120, 1.0]}, "slopes must lie"),
    ("TissueModel", {"densities": (MIXTURE, OTHER, PLANE)}, "with one channel each"),
    ("TissueModel", {"mean": [0.5, 0.5, 0.0]}, "three positive numbers"),
    ("TissueModel", {"mean": [0.2, 0.3, 0.4]}, "that sum to 1"),
    ("TissueModel", {"covariance": 1 / 3 - np.eye(3)}, "must be positive semidefinite"),
    ("TissueModel", {"covariance": np.eye(3)}, "rows of sum 0"),
    ("Chain", {"maps": ()}, "maps must hold at least one map"),
    ("Chain", {"maps": (AFFINE, ndflow.transport.Flow(PLANE, PLANE))}, "same number of channels"),
]
# Wrong types, which type checkers find in programs, and `from_dict` in files.
WRONG_TYPES: list[tuple[str, dict[str, Any], str]] = [
    ("Status", {"converged": "yes"}, "converged"),
    ("Fit", {"mixture": AFFINE}, "mixture"),
    ("LinearTails", {"inner": MIXTURE}, "inner"),
    ("Chain", {"maps": 1.0}, "maps"),
]


@pytest.mark.parametrize(("name", "wrong", "message"), REFUSED)
def test_nonsense_is_refused_where_a_value_is_made(
    name: str, wrong: dict[str, Any], message: str
) -> None:
    value = VALUES[name]
    with pytest.raises(ndflow.InvalidValueError, match=message):
        type(value)(**(fields(value) | wrong))


def plain(item: Any) -> Any:
    if isinstance(item, Value):
        return item.to_dict()
    if isinstance(item, np.ndarray):
        return item.tolist()
    return [plain(part) for part in item] if isinstance(item, tuple) else item


@pytest.mark.parametrize(("name", "wrong", "message"), REFUSED[::4] + WRONG_TYPES)
def test_nonsense_is_refused_from_a_file(name: str, wrong: dict[str, Any], message: str) -> None:
    value = VALUES[name]
    data = value.to_dict() | {key: plain(item) for key, item in wrong.items()}
    with pytest.raises(ndflow.InvalidValueError, match=message):
        type(value).from_dict(data)


def through_json(value: Value) -> Value:
    return type(value).from_dict(json.loads(json.dumps(value.to_dict())))


def bits(item: Any) -> Any:
    """The dictionary of a value with every double spelt out, so that -0.0 and 0.0 differ."""
    if isinstance(item, dict):
        return {key: bits(part) for key, part in item.items()}
    if isinstance(item, list):
        return [bits(part) for part in item]
    return item.hex() if isinstance(item, float) else item


def same_after_json(value: Value) -> bool:
    rebuilt = through_json(value)
    assert rebuilt == value
    return bits(rebuilt.to_dict()) == bits(value.to_dict())


@every_value
def test_a_value_is_the_same_bit_by_bit_after_a_round_trip_through_json(value: Value) -> None:
    assert same_after_json(value)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_every_double_survives_json(doubles: list[float]) -> None:
    assert same_after_json(Histogram(doubles, np.ones(len(doubles))))
    assert same_after_json(Affine(1.0, doubles[0]))


def test_equality_sees_every_bit() -> None:
    assert Affine(1.0, 0.0) != Affine(1.0, -0.0)
    assert Affine(1.0, 0.0) != Affine(np.nextafter(1.0, 2.0), 0.0)
    assert LinearTails(AFFINE, 0.0, 1.0) != LinearTails(AFFINE, -0.0, 1.0)
    assert LinearTails(AFFINE, 0, 1) == LinearTails(AFFINE, 0.0, 1.0)


@pytest.mark.parametrize("depth", [400, 100_000])
def test_endless_nesting_is_refused(depth: int) -> None:
    lists: Any = 1.0
    chains: Any = AFFINE.to_dict()
    for _ in range(depth):
        lists, chains = [lists], {"type": "Chain", "maps": [chains]}
    for data in (AFFINE.to_dict() | {"matrix": lists}, AFFINE.to_dict() | {"type": lists}, chains):
        with pytest.raises(ndflow.InvalidValueError):
            Value.from_dict(data)
