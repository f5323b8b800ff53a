"""Simulated subjects and scanners."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.interpolate import RegularGridInterpolator

from ndflow.demo.simulate import (
    MEANS,
    REACH,
    Fields,
    SimulatedSubject,
    draw_fields,
    grid_over,
    make_subject,
    simulate_scan,
)
from ndflow.preparation.registration import Anatomy
from ndflow.transport import PiecewiseLinear

LENGTH = 72
SITE = np.array([34.0, 36.0, 35.0])
LATTICE = (10, 10, 10)  # 8 mm apart, over 72 mm
CURVE = PiecewiseLinear(np.array([0.0, 0.5, 1.1]), np.array([10.0, 300.0, 900.0]))


@lru_cache
def ball() -> Anatomy:
    """Return a ventricle within WM within GM, each fading into the next."""
    places = np.indices((LENGTH,) * 3).reshape(3, -1).T
    radius = np.linalg.norm(places - SITE, axis=1).reshape((LENGTH,) * 3)
    brain = radius < 31
    csf = np.interp(radius, [3, 7, 28, 31], [1, 0, 0, 0.6])
    wm = np.interp(radius, [3, 7, 20, 26], [0, 1, 1, 0])
    gm = np.clip(1 - csf - wm, 0, 1)
    texture = 0.02 * np.sin(places.sum(axis=1).reshape(radius.shape) / 3)
    t1 = np.where(brain, csf * MEANS[0] + gm * MEANS[1] + wm * MEANS[2] + texture, 0)
    maps = (part.astype(np.float32) for part in (t1, gm, wm, brain))
    return Anatomy(*maps, np.eye(4))


def still(displacement: tuple[float, float, float] = (0, 0, 0)) -> Fields:
    moved = np.zeros((3, *LATTICE)) + np.array(displacement)[:, None, None, None]
    return Fields(moved, np.zeros(LATTICE))


def subject(fields: Fields, atrophy: float = 0.0, mm: float = 1.0) -> SimulatedSubject:
    grid = grid_over(ball(), mm)
    return make_subject(ball(), fields, grid, atrophy=atrophy, lesion=False)


def flat(n: int, canonical: float) -> SimulatedSubject:
    return SimulatedSubject(
        np.zeros((n, 3), np.intp),
        np.full(n, canonical, np.float32),
        np.ones((n, 3), np.float32) / 3,
        np.zeros(n, bool),
        np.linspace(-2, 2, n, dtype=np.float32),
    )


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_deformation_never_folds_and_is_bounded(seed: int) -> None:
    generator = np.random.default_rng(seed)
    displacement = draw_fields((197, 233, 189), generator).displacement
    axes = [8.0 * np.arange(n) for n in displacement.shape[1:]]
    at = RegularGridInterpolator(axes, np.moveaxis(displacement, 0, -1))
    places = generator.uniform(1, 180, (2000, 3))
    step = 1e-4
    jacobian = np.stack(
        [(at(places + step * e) - at(places - step * e)) / (2 * step) for e in np.eye(3)], axis=-1
    )
    rows = np.abs(jacobian).sum(axis=2).max()
    assert rows < 0.8 + 1e-6
    assert np.linalg.det(np.eye(3) + jacobian).min() > 0
    assert np.linalg.norm(displacement, axis=0).max() <= REACH * (1 + 1e-12)


@pytest.mark.parametrize("shift", [(0, 0, 0), (3, -2, 1)])
def test_a_displacement_says_where_in_the_template_to_look(shift: tuple[int, int, int]) -> None:
    anatomy, body = ball(), subject(still(shift))
    assert np.array_equal(body.voxels, np.argwhere(anatomy.brain) - shift)
    at = tuple((body.voxels + shift).T)
    gm, wm, t1 = (part[at].astype(np.float64) for part in (anatomy.gm, anatomy.wm, anatomy.t1))
    blurred = np.stack([1 - gm - wm, gm, wm], axis=1).clip(0, 1)
    tissues = blurred**3 / (blurred**3).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(body.tissues, tissues, atol=1e-5)
    canonical = tissues @ MEANS + 0.7 * (t1 - blurred @ MEANS)
    np.testing.assert_allclose(body.canonical, canonical, atol=1e-5)


@pytest.mark.parametrize("atrophy", [-2.0, 0.7, 3.0])
def test_atrophy_multiplies_the_odds_of_csf(atrophy: float) -> None:
    before, after = subject(still(), mm=4.0), subject(still(), atrophy, mm=4.0)
    mixed = (before.tissues[:, :2] > 0.01).all(axis=1) & (after.tissues[:, :2] > 0.01).all(axis=1)
    assert mixed.any()
    odds = [b.tissues[mixed, 0] / b.tissues[mixed, 1] for b in (before, after)]
    np.testing.assert_allclose(np.log(odds[1] / odds[0]), atrophy, atol=1e-3)


def test_a_scan_shows_the_curve_times_the_bias_field() -> None:
    body = flat(500, 0.0)._replace(canonical=np.linspace(0, 1.1, 500, dtype=np.float32))
    shown = simulate_scan(body, CURVE, np.random.default_rng(0), bias=0.04, noise=0)
    np.testing.assert_allclose(shown, CURVE(body.canonical) * np.exp(0.04 * body.bias), rtol=1e-5)


@pytest.mark.parametrize("canonical", [0.0, 0.05, 0.6])
def test_noise_is_rician(canonical: float) -> None:
    noise = 0.05
    body = flat(20_000, canonical)
    shown = simulate_scan(body, CURVE, np.random.default_rng(7), bias=0, noise=noise)
    sd = noise * float(CURVE(MEANS[2]))
    law = stats.rice(float(CURVE(canonical)) / sd, scale=sd)
    assert stats.kstest(shown, law.cdf).pvalue > 0.01
