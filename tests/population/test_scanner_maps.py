"""Random scanners: maps that rise and can be undone, and vary as sites and scans do."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ndflow import Affine, GaussianMixture, InvalidValueError, ScannerMaps, Tabulated
from ndflow.population import contrast_curve, contrast_grid, scanner_maps

REFERENCE = GaussianMixture([0.2, 0.5, 0.3], [-1.7, 0.0, 1.1], [8.0, 8.0, 20.0])
REFERENCE = REFERENCE.transformed(
    1 / np.sqrt(REFERENCE.covariance()), -REFERENCE.mean() / np.sqrt(REFERENCE.covariance()[0])
)
GRID = contrast_grid(REFERENCE)
SITES = ["Aachen"] * 4 + ["Bonn"] * 3 + ["Celle"] * 5
SHARES = np.diff(REFERENCE.cdf(0.5 * (GRID[1:] + GRID[:-1])), prepend=0.0, append=1.0)


def curves(seed: int = 0, sites: list[str] = SITES) -> NDArray[np.float64]:
    """Return smooth contrast curves: one bend per site, and a smaller one per scan."""
    generator = np.random.default_rng(seed)
    bends = {site: generator.normal(0, 0.4, 3) for site in sorted(set(sites))}
    numbers = np.array([bends[site] + generator.normal(0, 0.1, 3) for site in sites])
    found = numbers @ np.stack([np.sin(GRID), np.cos(GRID), np.sin(2 * GRID)])
    return found - (found @ SHARES)[:, np.newaxis]


TABLE = curves()
SCANNERS = scanner_maps(REFERENCE, GRID, list(TABLE), SITES, channel="T1w")


def curve_of(imap: Tabulated) -> NDArray[np.float64]:
    return contrast_curve(imap, REFERENCE, GRID)


# ── single draws ─────────────────────────────────────────────────────────────────────────────────

seeds = st.integers(0, 2**32 - 1)
strengths = st.floats(0, 5)
places = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20, unique=True)


@given(seeds, strengths, strengths, places)
def test_a_drawn_map_rises_and_can_be_undone(
    seed: int, between: float, within: float, at: list[float]
) -> None:
    imap = SCANNERS.draw(seed, between=between, within=within)
    x = np.sort(np.round(at, 6))
    x = x[np.diff(x, prepend=-np.inf) > 1e-5]
    y = imap(x)
    assert (np.diff(y) > 0).all()
    assert np.allclose(imap.inverse()(y), x, rtol=1e-8, atol=1e-6)


@given(seeds, st.floats(0, 2), st.floats(0, 2))
def test_a_drawn_map_keeps_mean_and_standard_deviation_of_the_reference(
    seed: int, between: float, within: float
) -> None:
    imap = SCANNERS.draw(seed, between=between, within=within)
    z = np.linspace(-8, 8, 20_001)
    density = REFERENCE.pdf(z) * (z[1] - z[0])
    moments = []
    for values in (z, imap(z)):
        mean = (values * density).sum()
        moments.append((mean, np.sqrt(((values - mean) ** 2 * density).sum())))
    assert np.allclose(moments[0], moments[1], atol=0.01)


def test_tails_are_straight() -> None:
    imap = SCANNERS.draw(3)
    for end in (GRID[0], GRID[-1]):
        out = end + np.sign(end) * np.array([0.0, 1.0, 2.0, 3.0])
        steps = np.diff(imap(out))
        assert np.allclose(steps, steps[0])


def test_the_same_seed_gives_the_same_map_and_another_one_another() -> None:
    assert SCANNERS.draw(7) == SCANNERS.draw(7)
    assert SCANNERS.draw(7) == SCANNERS.draw(np.random.default_rng(7))
    assert SCANNERS.draw(7) != SCANNERS.draw(8)
    generator = np.random.default_rng(7)
    assert SCANNERS.draw(generator) != SCANNERS.draw(generator)


def test_a_seed_means_the_same_scanner_at_any_strength() -> None:
    mean, one, half = (
        curve_of(SCANNERS.draw(5, between=size, within=0.0)) for size in (0.0, 1.0, 0.5)
    )
    assert np.allclose(half - mean, 0.5 * (one - mean), atol=1e-9)


def test_without_variation_every_draw_is_the_mean() -> None:
    imap = SCANNERS.draw(1, between=0.0, within=0.0)
    sites = [TABLE[np.array(SITES) == site].mean(axis=0) for site in sorted(set(SITES))]
    assert np.allclose(curve_of(imap), np.mean(sites, axis=0), atol=1e-5)


def test_a_scanner_with_the_contrast_of_the_reference_changes_nothing() -> None:
    imap = SCANNERS.map_of(np.full(GRID.size, 0.3))  # a gain is no contrast
    assert np.allclose(imap([-9.0, -1.0, 0.2, 9.0]), [-9.0, -1.0, 0.2, 9.0])


def test_units_are_those_of_the_images() -> None:
    units = Affine(125.0, 500.0)
    z = np.linspace(-5, 5, 11)
    imap = SCANNERS.draw(2, units=units)
    assert np.allclose(imap(500 + 125 * z), 500 + 125 * SCANNERS.draw(2)(z))


def test_a_map_gives_its_own_contrast_curve_back() -> None:
    curve = TABLE[3]
    assert np.allclose(curve_of(SCANNERS.map_of(curve)), curve, atol=1e-9)


def test_gain_and_offset_of_a_scan_are_no_contrast() -> None:
    imap = SCANNERS.draw(4)
    louder = Tabulated(imap.knots, 7 * imap.values - 300, 7 * imap.slopes)
    assert np.allclose(curve_of(imap), curve_of(louder), atol=1e-9)


# ── many draws ───────────────────────────────────────────────────────────────────────────────────


def covariance_of_sites() -> Any:
    """Return what numpy says about the site maps, and about scans around them."""
    names = sorted(set(SITES))
    means = np.stack([TABLE[np.array(SITES) == site].mean(axis=0) for site in names])
    centred = TABLE - means[[names.index(site) for site in SITES]]
    within = centred.T @ centred / (len(SITES) - len(names))
    return means.mean(axis=0), np.cov(means, rowvar=False), within


def test_the_distribution_has_the_empirical_mean_and_covariance() -> None:
    mean, between, within = covariance_of_sites()
    assert np.allclose(SCANNERS.mean, mean, atol=1e-5)
    assert np.allclose(SCANNERS.between.T @ SCANNERS.between, between, atol=1e-5)
    assert np.allclose(SCANNERS.within.T @ SCANNERS.within, within, atol=1e-5)
    assert len(SCANNERS.between) == 2  # three sites
    assert len(SCANNERS.within) == 3  # three bends, however many scans


@pytest.mark.parametrize(("b", "w"), [(1.0, 1.0), (2.0, 0.5), (0.0, 1.0)])
def test_many_draws_have_the_empirical_mean_and_covariance(b: float, w: float) -> None:
    mean, between, within = covariance_of_sites()
    expected = b**2 * between + w**2 * within
    generator = np.random.default_rng(0)
    drawn = np.array([curve_of(SCANNERS.draw(generator, between=b, within=w)) for _ in range(1500)])
    sd = np.sqrt(np.diag(expected).max())
    assert np.abs(drawn.mean(axis=0) - mean).max() < 0.12 * sd  # four standard errors
    assert np.abs(np.cov(drawn, rowvar=False) - expected).max() < 0.15 * sd**2


def test_one_site_varies_as_its_scans_do_and_single_scans_as_sites_do() -> None:
    alone = scanner_maps(REFERENCE, GRID, list(TABLE[:5]), ["Aachen"] * 5)
    assert (alone.sites, len(alone.between)) == (1, 0)
    assert np.allclose(alone.within.T @ alone.within, np.cov(TABLE[:5], rowvar=False), atol=1e-5)
    single = scanner_maps(REFERENCE, GRID, list(TABLE[:5]), list("ABCDE"))
    assert (single.sites, len(single.within)) == (5, 0)
    assert np.allclose(
        single.between.T @ single.between, np.cov(TABLE[:5], rowvar=False), atol=1e-5
    )
    for one in (alone, single):
        assert ScannerMaps.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_the_order_of_scans_makes_no_difference() -> None:
    order = np.random.default_rng(2).permutation(len(SITES))
    other = scanner_maps(REFERENCE, GRID, list(TABLE[order]), [SITES[i] for i in order])
    assert np.allclose(other.mean, SCANNERS.mean, atol=1e-5)
    assert np.allclose(SCANNERS.draw(3).values, other.draw(3).values, atol=1e-4)


# ── values and files ─────────────────────────────────────────────────────────────────────────────


def test_it_survives_json() -> None:
    again = ScannerMaps.from_dict(json.loads(json.dumps(SCANNERS.to_dict())))
    assert again == SCANNERS
    assert again.draw(11) == SCANNERS.draw(11)


def test_it_says_what_it_is() -> None:
    assert repr(SCANNERS) == "ScannerMaps(T1w, 12 scans of 3 sites)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": [1.0, 0.0]}, "strictly increasing"),
        ({"grid": [0.0]}, "2 to 1024"),
        ({"mean": [0.0]}, "mean must have the shape"),
        ({"within": [[0.0]]}, "within must have the shape"),
        ({"between": [[np.nan] * GRID.size]}, "between must be finite"),
        ({"mean": [31.0] * GRID.size}, "mean must lie within ±30"),
        ({"grid": np.linspace(10, 11, GRID.size)}, "grid must cover"),
        ({"scans": 0}, "scans must lie"),
        ({"sites": 99}, "sites must lie"),
        ({"channel": 3}, "channel must be"),
        ({"reference": 3}, "reference must be"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    parts = dict(SCANNERS._parts()) | changes
    with pytest.raises(InvalidValueError, match=message):
        ScannerMaps(**parts)


def test_too_few_scans_or_straight_maps_are_refused() -> None:
    with pytest.raises(
        InvalidValueError, match="4 scans cannot show how scanners differ; at least 5"
    ):
        scanner_maps(REFERENCE, GRID, list(TABLE[:4]), SITES[:4])
    with pytest.raises(InvalidValueError, match="straight lines"):
        scanner_maps(REFERENCE, GRID, [np.zeros(GRID.size)] * 6, ["A"] * 6)
    with pytest.raises(InvalidValueError, match="sites must be 12"):
        scanner_maps(REFERENCE, GRID, list(TABLE), SITES[1:])
    with pytest.raises(InvalidValueError, match="between must be zero or a positive number"):
        SCANNERS.draw(1, between=-1.0)


def test_one_curve_for_all_scans_is_not_called_straight() -> None:
    message = "all scans have the same contrast curve.*; use a study of several sites, or the mode"
    with pytest.raises(InvalidValueError, match=message):
        scanner_maps(REFERENCE, GRID, [TABLE[0]] * 6, ["A"] * 6)


@pytest.mark.parametrize("strengths", [{"between": 100.0}, {"within": 100}, {"between": 1e300}])
def test_strengths_beyond_sense_are_refused_by_name(strengths: dict[str, float]) -> None:
    with pytest.raises(InvalidValueError, match="between and within must be at most 10, not 1"):
        SCANNERS.draw(1, **strengths)  # type: ignore[arg-type]


@pytest.mark.parametrize("units", [None, Affine(125.0, 500.0)])
def test_the_strongest_draws_of_a_wild_study_still_rise(units: Affine | None) -> None:
    wild = 10 * np.random.default_rng(5).normal(size=(12, GRID.size))
    scanners = scanner_maps(REFERENCE, GRID, list(wild), SITES)
    for seed in range(50):
        imap = scanners.draw(seed, between=10.0, within=10.0, units=units)
        assert (np.diff(imap.values) > 0).all()
