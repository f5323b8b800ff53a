"""Modes: through the map of a scan's site, by its own map, or by both."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from every_method import EVERY_METHOD

import ndflow
from ndflow import Chain, GaussianMixture, InvalidValueError
from ndflow.density import stack
from ndflow.methods.base import DensityModel, method_of
from ndflow.methods.modes import MODES, Goal, SiteMap
from ndflow.options import Options
from ndflow.population import TissueModel, Tissues
from ndflow.transport import align

LEVELS = (np.arange(199) + 0.5) / 199


def brain(means: Sequence[float], shares: Sequence[float]) -> GaussianMixture:
    tissues = [GaussianMixture([1.0], [m], [(0.05 * 1000) ** -2]) for m in means]
    return stack(tissues, shares)


def units(mixture: GaussianMixture) -> GaussianMixture:
    own = align(mixture)
    return mixture.transformed(own.matrix, own.offset)


WHOLE = units(brain((300, 700, 1000), (0.2, 0.45, 0.35)))
SITE = units(brain((250, 800, 1000), (0.2, 0.45, 0.35)))
TISSUES = tuple(
    GaussianMixture([1.0], WHOLE.means[k : k + 1], WHOLE.precisions[k : k + 1]) for k in range(3)
)
MODEL = TissueModel(TISSUES, [0.2, 0.45, 0.35], 0.05**2 * (np.eye(3) - 1 / 3))
SHARES = np.array([0.35, 0.37, 0.28])
DENSITY = brain((500, 1600, 2000), SHARES.tolist())  # of the site, with more CSF
SCAN = DensityModel(DENSITY, tissues=Tissues(TISSUES, SHARES))  # only the proportions are used
REFERENCE = DensityModel(WHOLE, tissues=MODEL)
TARGETS = ("average", "tissue", "adaptive")


def goal(mode: str, options: Options, reference: DensityModel = REFERENCE) -> Goal:
    """Return what a scan of the site Aachen is brought to."""
    sites = {"Aachen": SiteMap.to(reference, DensityModel(SITE), options)}
    chosen = MODES[mode]
    return chosen.goal_of(chosen.goals(reference, sites, options), "Aachen")


@pytest.mark.parametrize("target", TARGETS)
def test_a_scan_goes_through_the_map_of_its_site_and_then_its_own(target: Any) -> None:
    options = Options(proportions=target)
    once = goal("site", options).solve(SCAN)
    twice = goal("two-level", options).solve(SCAN)
    assert isinstance(once.imap, Chain)
    assert isinstance(twice.imap, Chain)
    assert twice.imap.maps[: len(once.imap.maps)] == once.imap.maps
    assert len(twice.imap.maps) == len(once.imap.maps) + 1
    # Where it arrives, by points and not by densities.
    aim = WHOLE if target == "average" else MODEL.target(SHARES)
    x, there = DENSITY.quantile(LEVELS), aim.quantile(LEVELS)
    left = [np.sqrt(np.mean((one.imap(x) - there) ** 2)) for one in (once, twice)]
    assert left[1] < (0.7 if target == "average" else 0.5) * left[0]
    assert (np.diff(twice.imap(np.linspace(x[0], x[-1], 500))) > 0).all()


def test_a_scan_like_its_site_needs_no_more_than_the_map_of_the_site() -> None:
    scan = DensityModel(SITE.transformed(300.0, 700.0), tissues=Tissues(TISSUES, MODEL.mean))
    once = goal("site", Options()).solve(scan)
    x = scan.mixture.quantile(LEVELS)
    for target in TARGETS:
        twice = goal("two-level", Options(proportions=target)).solve(scan)  # type: ignore[arg-type]
        assert np.sqrt(np.mean((twice.imap(x) - once.imap(x)) ** 2)) < 0.02


def test_a_site_with_other_proportions_needs_no_map_where_these_are_adapted() -> None:
    site = MODEL.target(MODEL.mean + np.array([0.05, -0.02, -0.03]))
    units = ndflow.transport.align(site)
    x = site.quantile(LEVELS)
    left = {}
    for target in ("average", "adaptive"):
        own = DensityModel(site.transformed(units.matrix, units.offset))
        way = SiteMap.to(REFERENCE, own, Options(proportions=target)).solution.imap  # type: ignore[arg-type]
        left[target] = np.sqrt(np.mean((way(units(x)) - x) ** 2))
    assert left["adaptive"] < 0.35 * left["average"]


def test_units_of_the_result_do_not_change_what_is_done() -> None:
    options, scale = Options(proportions="tissue"), ndflow.Affine(150.0, 1000.0)
    x = DENSITY.quantile(LEVELS)
    plain, scaled = (
        goal("two-level", options, reference).solve(SCAN).imap(x)
        for reference in (REFERENCE, REFERENCE.transformed(scale))
    )
    np.testing.assert_allclose(scaled, scale(plain), atol=0.15)  # a thousandth of the sd


# ── which goal a scan has ────────────────────────────────────────────────────────────────────────


def test_the_alignment_of_a_scan_is_its_own_and_the_rest_that_of_its_site() -> None:
    found = goal("site", Options())
    assert found.site is not None
    solution, way, own = found.solve(SCAN), found.site.solution, align(DENSITY)
    x = DENSITY.quantile(LEVELS)
    np.testing.assert_array_equal(solution.imap(x), way.imap(own(x)))
    np.testing.assert_allclose(solution.affine(x), way.affine(own(x)), atol=1e-12)


def test_each_scan_by_itself_is_the_plain_method() -> None:
    options = Options()
    found = goal("individual", options)
    assert found.site is None
    assert found.solve(SCAN).imap == method_of(options).solve(SCAN, REFERENCE, options).imap


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize(
    ("chosen", "by_scan"),
    [
        ({"freeze": ("3",)}, "densities of single scans; leave out --mode"),
        ({"proportions": "tissue"}, "is for each scan, but --mode site treats all scans"),
        ({"proportions": "adaptive"}, "is for each scan, but --mode site treats all scans"),
        ({}, None),
    ],
)
def test_choices_about_single_scans_are_refused_where_a_site_has_one_map(
    mode: Any, chosen: dict[str, Any], by_scan: str | None
) -> None:
    options = Options(**chosen)
    allowed = by_scan is None or not mode.by_site or ("proportions" in chosen and mode.per_scan)
    if allowed:
        mode.check(options)
        return
    with pytest.raises(InvalidValueError, match=by_scan):
        mode.check(options)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("method", EVERY_METHOD)
def test_only_methods_that_match_densities_work_by_site(mode: Any, method: str) -> None:
    options = Options(method=method)
    if mode.by_site and not EVERY_METHOD[method].matches_densities:
        message = f"method '{method}' does not work by site; leave out --mode {mode.name}"
        with pytest.raises(InvalidValueError, match=message):
            mode.check(options)
    else:
        mode.check(options)


def test_the_map_of_a_site_leads_to_the_average_or_to_tissues_in_its_own_proportions() -> None:
    ways = {}
    for target in TARGETS:
        found = goal("two-level", Options(proportions=target))  # type: ignore[arg-type]
        assert found.site is not None
        assert found.site.solution.target is None
        ways[target] = found.site.solution.imap
    assert ways["average"] == ways["tissue"] != ways["adaptive"]
