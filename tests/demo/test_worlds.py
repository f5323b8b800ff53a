"""Random simulated studies, and how well maps recover their truth."""

from dataclasses import replace

import numpy as np
import pytest

from ndflow.demo.world_scores import world_scores
from ndflow.demo.world_study import world_maps, world_models
from ndflow.demo.worlds import World, WorldScan, draw_world, world_grid
from ndflow.methods.matching import Matching
from ndflow.preparation.template import load_anatomy
from ndflow.scan.settings import Averaging
from ndflow.transport import Chain, PiecewiseLinear

SEED = 110  # two sites of five people each, one of them with a lesion
OTHER = 118  # five and six, whose masks are tight and wide


def darkening(scan: WorldScan) -> float:
    """Return a factor that depends on age."""
    return 1 - 0.005 * (scan.age - 50)


@pytest.fixture(scope="module")
def world() -> World:
    anatomy = load_anatomy()
    return draw_world(SEED, anatomy, world_grid(anatomy))


@pytest.fixture(scope="module")
def other() -> World:
    anatomy = load_anatomy()
    return draw_world(OTHER, anatomy, world_grid(anatomy))


def test_a_seed_gives_the_same_world_and_another_one_another(world: World, other: World) -> None:
    anatomy = load_anatomy()
    again = draw_world(SEED, anatomy, world_grid(anatomy))
    assert again.sites == world.sites
    for one, before in zip(again.scans, world.scans, strict=True):
        assert np.array_equal(one.values, before.values)
    assert {site.increments for site in world.sites}.isdisjoint(
        site.increments for site in other.sites
    )


def test_scans_are_what_their_curves_make_of_the_truth(world: World) -> None:
    assert len(world.scans) == sum(site.size for site in world.sites)
    for scan in world.scans:
        brain = np.isfinite(scan.canonical)
        assert brain.mean() > 0.85
        clean = scan.curve(scan.canonical[brain].astype(np.float64))
        assert np.corrcoef(clean, scan.values[brain])[0, 1] > 0.95
        np.testing.assert_allclose(scan.tissues[brain].sum(axis=1), 1, atol=1e-4)
        assert not scan.tissues[~brain].any()


def test_masks_of_a_site_hold_as_much_bone_as_its_habit_says(other: World) -> None:
    tight, wide = other.sites
    assert tight.rim < 0 < 0.1 < wide.rim
    bone = {
        site.name: np.mean(
            [np.isnan(scan.canonical).mean() for scan in other.scans if scan.site == site.name]
        )
        for site in other.sites
    }
    assert bone[wide.name] > 0.015 > 0.005 > bone[tight.name]


def test_maps_that_undo_the_curves_are_perfect_in_any_common_scale(world: World) -> None:
    bend = PiecewiseLinear(np.linspace(-1, 2, 301), np.exp(np.linspace(-1, 2, 301)))
    for scale in (None, bend):
        maps = {
            scan.name: scan.curve.inverse()
            if scale is None
            else Chain((scan.curve.inverse(), scale))
            for scan in world.scans
        }
        scores = world_scores(world, maps)
        assert scores.spread < 1e-6
        assert scores.age < 0.02  # what noise, and bone inside the mask, do to the medians


def test_what_maps_do_to_age_and_lesions_is_noticed(world: World) -> None:
    perfect = {scan.name: scan.curve.inverse() for scan in world.scans}
    good = world_scores(world, perfect)
    darker = {
        scan.name: Chain((perfect[scan.name], PiecewiseLinear([0.0, 1.0], [0.0, darkening(scan)])))
        for scan in world.scans
    }
    aged = world_scores(world, darker)
    assert aged.spread > 0.05
    assert aged.age > good.age + 0.02
    knots = [0.0, 0.7, 0.8, 1.1]
    hidden = {
        scan.name: Chain((perfect[scan.name], PiecewiseLinear(knots, [0.3, 0.78, 0.8, 1.1])))
        if scan.lesion.any()
        else perfect[scan.name]
        for scan in world.scans
    }
    assert world_scores(world, hidden).lesion > good.lesion + 0.1


def test_the_methods_of_a_study_run_in_a_world(world: World) -> None:
    few = world._replace(
        scans=tuple(scan for scan in world.scans if int(scan.name[1:]) <= 4),
    )
    models = world_models(few, tissues=True)
    affine = world_maps(few, models, Averaging(), Matching(method="affine"))
    best = world_maps(
        few,
        models,
        Averaging(mode="two-level", average="quantile"),
        Matching(target="tissue", objective="cramer"),
    )
    assert world_scores(few, best).spread < world_scores(few, affine).spread
    bare = {name: replace(model, tissues=None) for name, model in models.items()}
    adaptive = Matching(target="adaptive", objective="cramer")
    world_maps(few, bare, Averaging(mode="two-level"), adaptive)
