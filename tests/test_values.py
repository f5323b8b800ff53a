"""Values are frozen, own their arrays, and reject what makes no sense, wherever it comes from."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from mixtures import random_mixture

import ndflow
import ndflow.population
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
    "Match": ndflow.transport.Match(MIXTURE, OTHER, [0.5, 0.25], [0.5, 0.375], STATUS),
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


REPRS = {
    "Histogram": "Histogram(levels=3, voxels=9)",
    "GaussianMixture": "GaussianMixture(components=2, channels=1)",
    "GaussianMixture in the plane": "GaussianMixture(components=2, channels=2)",
    "Status": "Status(converged=True, iterations=3, message='converged after 3 sweeps')",
    "Fit": "Fit(components=2, converged=True)",
    "Match": "Match(components=2, converged=True)",
    "Affine": "Affine(matrix=2, offset=-1)",
    "Flow": "Flow(components=2, steps=4)",
    "QuantileMap": "QuantileMap(source={0}, target={0})".format(repr(MIXTURE)),
    "LinearTails": "LinearTails(inner=Flow(components=2, steps=4), low=-1.0, high=4.0)",
    "Tabulated": "Tabulated(3 points from 0 to 3)",
    "InverseTabulated": "InverseTabulated(3 points from -1 to 1)",
    "Chain": "Chain(Affine, Tabulated)",
    "PiecewiseLinear": "PiecewiseLinear(3 points from 0 to 3)",
    "Landmarks": "Landmarks(nyul, 3 values from 1 to 5)",
    "Reference": "Reference(T1w, 3 scans, 1 component)",
    "Tissues": "Tissues(CSF 25%, GM 50%, WM 25%)",
    "TissueModel": "TissueModel(CSF 25%, GM 50%, WM 25%, from maps)",
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_shown_in_one_short_line(name: str) -> None:
    assert repr(VALUES[name]) == REPRS[name]


def test_a_repr_stays_short_however_large_the_value() -> None:
    many = ndflow.density.stack([MIXTURE] * 1000)
    plane = ndflow.Affine(np.eye(2), np.zeros(2))
    bins = np.arange(3000.0).reshape(-1, 2)
    names = ("x" * 1000, "y" * 1000)
    large: list[Value] = [
        many,
        plane,
        ndflow.Histogram(bins, np.ones(1500)),
        ndflow.Reference(ndflow.GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)]), names, 3),
    ]
    for value in large:
        assert len(repr(value)) <= 100
        assert "\n" not in repr(value)
    assert repr(plane) == "Affine(channels=2)"
    assert repr(large[2]) == "Histogram(levels=1500, voxels=1.5e+03, channels=2)"


def test_every_public_value_is_tested_here() -> None:
    things = {name: getattr(ndflow, name) for name in ndflow.__all__}
    public = {
        name
        for name, thing in things.items()
        if dataclasses.is_dataclass(thing) and issubclass(thing, Value)
    }
    assert {type(value).__name__ for value in VALUES.values()} >= public


@every_value
def test_no_attribute_can_be_replaced(value: Value) -> None:
    for name in fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)


@every_value
def test_arrays_are_read_only(value: Value) -> None:
    derived = [name for name in ("covariances",) if hasattr(value, name)]
    for item in [*fields(value).values(), *(getattr(value, name) for name in derived)]:
        if isinstance(item, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                item[...] = 0


@every_value
def test_a_value_is_not_equal_to_anything_else(value: Value) -> None:
    for other in VALUES.values():
        assert (value == other) == (value is other)
    assert value != value.to_dict()


@every_value
def test_the_arrays_of_the_caller_are_neither_frozen_nor_shared(value: Value) -> None:
    given = {
        name: item.copy() if isinstance(item, np.ndarray) else item
        for name, item in fields(value).items()
    }
    made = type(value)(**given)
    for item in given.values():
        if isinstance(item, np.ndarray):
            item += 100  # still ours to write to
    assert made == value


NAN, INF = float("nan"), float("inf")
MILLION = np.full(1_000_000, 1e-6)

# Type, the entries that are wrong (the others come from VALUES), what the message says.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Histogram", {"values": [1.0, NAN, 4.0]}, "values must be finite"),
    ("Histogram", {"values": [1.0, 2.0]}, r"counts must have the shape \(2\)"),
    ("Histogram", {"values": [[[1.0]], [[2.0]], [[3.0]]]}, "values must have the shape"),
    ("Histogram", {"values": [[], [], []], "widths": [], "origin": []}, "at least one channel"),
    ("Histogram", {"values": [["a"], ["b"], ["c"]]}, "values must be an array of real numbers"),
    ("Histogram", {"values": ["1", "2", "3"]}, "values must be an array of real numbers"),
    ("Histogram", {"values": [10**400, 2, 3]}, "values must be"),
    ("Histogram", {"counts": [1.0, -1.0, 2.0]}, "counts must not be negative"),
    ("Histogram", {"counts": [1.0, INF, 2.0]}, "counts must be finite"),
    ("Histogram", {"counts": STATUS}, "counts must be an array of real numbers"),
    ("Histogram", {"widths": [-1.0]}, "widths must not be negative"),
    ("Histogram", {"widths": [1.0, 2.0]}, "widths must have the shape"),
    ("Histogram", {"widths": [[1.0], [1.0, 2.0]]}, "widths must be an array of real numbers"),
    ("Histogram", {"origin": [NAN]}, "origin must be finite"),
    ("GaussianMixture", {"weights": [0.4, NAN]}, "weights must be finite"),
    ("GaussianMixture", {"weights": [0.4, 0.5]}, "weights must sum to 1, but sum to 0.9"),
    ("GaussianMixture", {"weights": [-0.5, 1.5]}, "weights must not be negative"),
    ("GaussianMixture", {"weights": [1.7e308, 1.7e308]}, "weights must sum to 1"),
    ("GaussianMixture", {"weights": []}, "weights must name between 1 and"),
    (
        "GaussianMixture",
        {"weights": MILLION, "means": MILLION, "precisions": MILLION},
        "weights must name between 1 and 100000 components, not 1000000|"
        "of 1,000,000 weights, where at most 512 may be stored",
    ),
    ("GaussianMixture", {"means": [0.0, INF]}, "means must be finite"),
    ("GaussianMixture", {"means": [0.0, 1.0, 2.0]}, r"means must have the shape \(2, any\)"),
    ("GaussianMixture", {"precisions": [1.0, NAN]}, "precisions must be finite"),
    ("GaussianMixture", {"precisions": [1.0, 0.0]}, "precisions must be positive definite"),
    ("GaussianMixture", {"precisions": [1.0, -4.0]}, "precisions must be positive definite"),
    # A standard deviation of 1e160 is beyond what doubles can square.
    ("GaussianMixture", {"precisions": [1.0, 1e-320]}, "precisions must be positive definite"),
    ("GaussianMixture", {"precisions": [[[1.0]], [[1.0, 0.0]]]}, "precisions must be an array"),
    ("GaussianMixture in the plane", {"precisions": [1.0, 1.0]}, r"shape \(2, 2, 2\)"),
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
    ("Fit", {"bounds": [1.0, NAN]}, "bounds must be finite"),
    ("Fit", {"bounds": [[1.0, 2.0]]}, "bounds must have the shape"),
    ("Match", {"divergences": [NAN]}, "divergences must be finite"),
    ("Match", {"objectives": "none"}, "objectives must be an array"),
    ("Affine", {"matrix": 0.0}, "matrix must be invertible"),
    ("Affine", {"matrix": [[1.0, 2.0], [2.0, 4.0]], "offset": [0.0, 0.0]}, "must be invertible"),
    ("Affine", {"matrix": [[1.0, 2.0]]}, r"matrix must have the shape \(1, 1\)"),
    ("Affine", {"matrix": INF}, "matrix must be finite"),
    ("Affine", {"offset": NAN}, "offset must be finite"),
    ("Affine", {"matrix": [], "offset": []}, "offset|matrix"),
    ("Flow", {"source": PLANE}, "same weights and channels"),
    (
        "Flow",
        {"target": ndflow.GaussianMixture([0.5, 0.5], [0.0, 1.0], [1.0, 1.0])},
        "same weights",
    ),
    ("Flow", {"steps": 0}, "steps must"),
    ("Flow", {"steps": 10**9}, "steps must"),
    ("Flow", {"steps": 2.5}, "steps must"),
    ("Flow", {"steps": "4"}, "steps must"),
    ("QuantileMap", {"source": PLANE}, "source and target must have one channel"),
    (
        "LinearTails",
        {"inner": ndflow.transport.Flow(PLANE, PLANE)},
        "inner must have one channel, not 2",
    ),
    ("LinearTails", {"low": 5.0}, "low must be less than high"),
    ("LinearTails", {"low": NAN}, "low"),
    ("LinearTails", {"low": "-1"}, "low"),
    ("LinearTails", {"high": [4.0]}, "high"),
    ("LinearTails", {"high": None}, "high"),
    ("Tabulated", {"knots": [0.0, 1.0, 1.0]}, "knots must be strictly increasing"),
    ("Tabulated", {"knots": [0.0]}, "knots must number between 2 and"),
    ("Tabulated", {"knots": MILLION.cumsum()}, "knots must number between 2 and"),
    ("Tabulated", {"values": [0.0, 1.0]}, "values must have the shape"),
    ("Tabulated", {"values": [-1.0, 0.0, -0.5]}, "values must be strictly increasing"),
    ("Tabulated", {"values": [-1.0, NAN, 1.0]}, "values must be finite"),
    ("Tabulated", {"slopes": [1.0, 0.0, 0.5]}, "slopes must be positive"),
    ("Tabulated", {"slopes": [1.0, 9.0, 0.5]}, "slopes must not be so steep"),
    ("Chain", {"maps": ()}, "maps must hold at least one map"),
    (
        "Chain",
        {"maps": (AFFINE, MIXTURE)},
        "IntensityMap",
    ),
    ("Chain", {"maps": (AFFINE, 1.0)}, "maps"),
    ("Chain", {"maps": (AFFINE, ndflow.transport.Flow(PLANE, PLANE))}, "same number of channels"),
]
# Wrong types, which type checkers find in programs, and `from_dict` in files.
WRONG_TYPES: list[tuple[str, dict[str, Any], str]] = [
    ("Status", {"converged": "yes"}, "converged"),
    ("Status", {"iterations": 2.5}, "iterations"),
    ("Status", {"message": 3}, "message"),
    ("Fit", {"mixture": AFFINE}, "mixture"),
    ("Fit", {"mixture": 1.0}, "mixture"),
    ("Fit", {"status": "converged"}, "status"),
    ("Match", {"source": STATUS}, "source"),
    ("Match", {"matched": None}, "matched"),
    ("Match", {"status": True}, "status"),
    ("Flow", {"source": AFFINE}, "source"),
    ("Flow", {"target": 1.0}, "target"),
    ("QuantileMap", {"target": AFFINE}, "target"),
    ("LinearTails", {"inner": MIXTURE}, "inner"),
    ("InverseTabulated", {"table": AFFINE}, "table"),
    ("InverseTabulated", {"table": 1.0}, "table"),
    ("Chain", {"maps": AFFINE}, "maps"),
    ("Chain", {"maps": 1.0}, "maps"),
]
nonsense = pytest.mark.parametrize(
    ("name", "wrong", "message"),
    REFUSED,
    ids=[f"{name}: {', '.join(wrong)} {i}" for i, (name, wrong, _) in enumerate(REFUSED)],
)


@nonsense
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


@pytest.mark.parametrize(("name", "wrong", "message"), REFUSED + WRONG_TYPES)
def test_nonsense_is_refused_from_a_file(name: str, wrong: dict[str, Any], message: str) -> None:
    value = VALUES[name]
    data = value.to_dict() | {key: plain(item) for key, item in wrong.items()}
    with pytest.raises(ndflow.InvalidValueError, match=message):
        type(value).from_dict(data)


def test_a_histogram_without_voxels_is_degenerate() -> None:
    with pytest.raises(ndflow.DegenerateDataError, match="no voxel to count"):
        ndflow.Histogram([1.0, 2.0], [0.0, 0.0])
