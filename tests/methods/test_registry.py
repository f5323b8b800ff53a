"""The contract that every method of the registry keeps."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from every_method import EVERY_METHOD
from phantoms import head

import ndflow
from ndflow import Histogram, IntensityMap, InvalidValueError, Reference
from ndflow.methods.base import DensityModel, Method, Solution, build_reference, method_of
from ndflow.options import METHODS, Options

every_method = pytest.mark.parametrize("name", METHODS)

# Contrasts that no straight line makes equal.
HEADS = [
    head(seed, gain=gain, tissues=((csf, 60.0), (gm, 50.0), (1000.0, 40.0)))
    for seed, (csf, gm, gain) in enumerate(
        [(300.0, 700.0, 1.0), (250.0, 760.0, 2.5), (350.0, 650.0, 0.6), (300.0, 720.0, 1.3)]
    )
]
OTHER: dict[str, Any] = {  # an option of each kind that is not the default
    "proportions": "adaptive",
    "freeze": ("weight<0.01",),
    "objective": "cramer",
    "regularisation": 1e-2,
    "solver": "rk4",
    "landmarks": 7,
}


@cache
def histograms() -> list[Histogram]:
    return [ndflow.histogram(scan, scan != 0) for scan in HEADS]


@cache
def fits() -> list[ndflow.GaussianMixture]:
    return [ndflow.fit(histogram).mixture for histogram in histograms()]


def models(method: Method, options: Options) -> list[DensityModel]:
    return [
        DensityModel(mixture, method.measure(histogram, options))
        for mixture, histogram in zip(fits(), histograms(), strict=True)
    ]


def reference(method: Method, options: Options) -> Reference:
    return build_reference(models(method, options)[1:], method)


def goal(method: Method, options: Options) -> DensityModel:
    """Return the reference of some scans, as a target."""
    made = reference(method, options)
    found = method.target_landmarks(made.landmarks, made.mixture, options, averaged=True)
    return DensityModel(made.mixture, found)


def solved(method: Method, options: Options) -> Solution:
    return method.solve(models(method, options)[0], goal(method, options), options)


# ── the contract ─────────────────────────────────────────────────────────────────────────────────


@every_method
def test_a_method_finds_an_increasing_map_that_can_be_undone(name: str) -> None:
    method, options = EVERY_METHOD[name], Options(method=name)
    solution = solved(method, options)
    assert isinstance(solution.imap, IntensityMap)
    assert solution.imap.channels == 1
    values = histograms()[0].values[:, 0]
    x = np.linspace(values[0] - np.ptp(values), values[-1] + np.ptp(values), 2001)
    y = solution.imap(x)
    assert np.isfinite(y).all()
    assert (np.diff(y) > 0).all()
    np.testing.assert_allclose(solution.imap.inverse()(y), x, atol=1e-6 * np.ptp(x))
    slope = np.diff(y) / np.diff(x)
    assert np.exp(solution.imap.log_det_jacobian(x)).min() > 0
    assert slope.max() < 100 * slope.min()


@every_method
def test_scans_come_nearer_to_each_other(name: str) -> None:
    method, options = EVERY_METHOD[name], Options(method=name)
    target = goal(method, options)
    brains = [scan[scan != 0].astype(float) for scan in HEADS]
    after = [
        method.solve(model, target, options).imap(voxels)
        for model, voxels in zip(models(method, options), brains, strict=True)
    ]

    def disagreement(scans: list[Any]) -> float:
        medians = [np.median(scan) for scan in scans]
        return float(np.std(medians) / np.mean([np.std(scan) for scan in scans]))

    assert disagreement(after) < 0.2 * disagreement(brains)


@every_method
def test_the_same_scans_give_the_same_map(name: str) -> None:
    method, options = EVERY_METHOD[name], Options(method=name)
    one, two = (solved(method, options) for _ in range(2))
    assert (one.imap, one.affine, one.message) == (two.imap, two.affine, two.message)
    assert reference(method, options) == reference(method, options)


@every_method
def test_what_was_measured_can_be_fingerprinted(name: str) -> None:
    options = EVERY_METHOD[name].measure_options(Options(method=name))
    assert all(isinstance(value, str | int) for value in options.values())
    measured = EVERY_METHOD[name].measure(histograms()[0], Options(method=name))
    assert (measured is None) == (options == {})
    assert measured is None or measured.method == name


@every_method
@pytest.mark.parametrize("option", OTHER)
def test_options_that_a_method_does_not_use_are_refused(name: str, option: str) -> None:
    method = EVERY_METHOD[name]
    options = Options(method=name, **{option: OTHER[option]})
    if option in method.uses:
        assert method_of(options) is method
        return
    with pytest.raises(InvalidValueError, match=f"{option} is not an option of the method '{name}"):
        method_of(options)
