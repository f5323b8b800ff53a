"""What the scans of a site are brought to: by the way of the site, and then by their own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ndflow
from ndflow import Chain, GaussianMixture, align, stack
from ndflow.methods.model import Portrait
from ndflow.methods.modes import site_goal
from ndflow.population import TissueModel, Tissues
from ndflow.settings import Matching

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
DENSITY = brain((500, 1600, 2000), SHARES.tolist())  # of the site, with more fluid
SCAN = Portrait(DENSITY, tissues=Tissues(TISSUES, SHARES))  # only the proportions are looked at


@pytest.mark.parametrize("target", ["average", "tissue", "adaptive"])
def test_a_scan_goes_the_way_of_its_site_and_then_its_own(target: Any) -> None:
    matching = Matching(target=target)
    reference = Portrait(WHOLE, tissues=MODEL)
    once = site_goal(reference, Portrait(SITE), matching).solve(SCAN)
    twice = site_goal(reference, Portrait(SITE), matching, further=True).solve(SCAN)
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


def test_somebody_like_the_site_needs_no_more_than_the_way_of_the_site() -> None:
    reference = Portrait(WHOLE, tissues=MODEL)
    scan = Portrait(SITE.transformed(300.0, 700.0), tissues=Tissues(TISSUES, MODEL.mean))
    once = site_goal(reference, Portrait(SITE), Matching()).solve(scan)
    x = scan.mixture.quantile(LEVELS)
    for target in ("average", "tissue", "adaptive"):
        matching = Matching(target=target)  # type: ignore[arg-type]
        twice = site_goal(reference, Portrait(SITE), matching, further=True).solve(scan)
        assert np.sqrt(np.mean((twice.imap(x) - once.imap(x)) ** 2)) < 0.02


def test_the_way_of_a_site_leads_to_the_average_whatever_the_target() -> None:
    reference = Portrait(WHOLE, tissues=MODEL)
    ways = []
    for target in ("average", "tissue", "adaptive"):
        matching = Matching(target=target)  # type: ignore[arg-type]
        goal = site_goal(reference, Portrait(SITE), matching, further=True)
        assert goal.site is not None
        ways.append(goal.site[1])
    assert all(way.imap == ways[0].imap and way.aim is None for way in ways)


def test_units_of_the_result_do_not_change_what_is_done() -> None:
    matching, scale = Matching(target="tissue"), ndflow.Affine(150.0, 1000.0)
    x = DENSITY.quantile(LEVELS)
    plain, scaled = (
        site_goal(reference, Portrait(SITE), matching, further=True).solve(SCAN).imap(x)
        for reference in (
            Portrait(WHOLE, tissues=MODEL),
            Portrait(WHOLE, tissues=MODEL).transformed(scale),
        )
    )
    np.testing.assert_allclose(scaled, scale(plain), atol=0.15)  # a thousandth of the spread
