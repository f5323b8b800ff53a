"""Simulated worlds of several channels, and how well maps recover their truth."""

import numpy as np
import pytest

from ndflow.demo.channels.channel_scores import channel_scores
from ndflow.demo.channels.channel_worlds import MIXING, ChannelWorld, draw_channel_world
from ndflow.demo.worlds import world_grid
from ndflow.errors import InvalidValueError
from ndflow.preparation.template import load_anatomy
from ndflow.transport import Affine, Chain, IntensityMap
from ndflow.transport.joint import Channelwise

CSF, GM, WM = range(3)


def world_of(kind: str, channels: int = 2, mixing: float = MIXING) -> ChannelWorld:
    anatomy = load_anatomy()
    return draw_channel_world(0, kind, channels, anatomy, world_grid(anatomy), mixing=mixing)


@pytest.fixture(scope="module")
def worlds() -> dict[str, ChannelWorld]:
    return {kind: world_of(kind) for kind in ("curves", "mixing", "people")}


def perfect(world: ChannelWorld) -> list[IntensityMap]:
    """The maps that undo each scanner, and do what that of the reference does."""
    home = world.reference[0].scanner
    return [
        Chain(
            (
                Channelwise(tuple(curve.inverse() for curve in scan.scanner.curves)),
                Affine(np.linalg.inv(scan.scanner.mixing), np.zeros(2)),
                Channelwise(home.curves),
            )
        )
        for scan in world.scans
    ]


def test_a_seed_gives_the_same_people_in_all_kinds_and_the_same_world_again(worlds):
    again = world_of("mixing")
    for one, other, curves in zip(
        again.scans, worlds["mixing"].scans, worlds["curves"].scans, strict=True
    ):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.canonical, curves.canonical)
        np.testing.assert_array_equal(one.scanner.curves[1].values, curves.scanner.curves[1].values)


def test_tissues_overlap_in_one_channel_and_are_apart_in_another(worlds):
    scan = worlds["people"].scans[1]
    assert scan.lesion.sum() > 50
    pure = (scan.tissues > 0.9) & ~scan.lesion[:, np.newaxis]
    gm, wm, csf = (scan.values[pure[:, tissue]] for tissue in (GM, WM, CSF))
    lesion = scan.values[scan.lesion]

    def apart(one, other):
        return np.abs(one.mean(axis=0) - other.mean(axis=0)) / one.std(axis=0)

    assert apart(gm, wm)[0] > apart(gm, wm)[1]
    assert apart(lesion, gm)[1] > 3 > apart(lesion, gm)[0]
    assert csf[:, 0].mean() < gm[:, 0].mean() < wm[:, 0].mean()
    bright = world_of("people", 3).scans[0]
    pure_csf = bright.values[bright.tissues[:, CSF] > 0.9]
    assert pure_csf[:, 2].mean() > bright.values[:, 2].mean() + bright.values[:, 2].std()
    assert pure_csf[:, 1].mean() < bright.values[:, 1].mean() - bright.values[:, 1].std()


def test_scanners_mix_channels_only_in_one_kind(worlds):
    for kind, world in worlds.items():
        for scan in world.scans:
            mixing = scan.scanner.mixing
            np.testing.assert_allclose(mixing.sum(axis=1), 1)
            assert (mixing == np.eye(2)).all() == (kind != "mixing")
            clean = scan.scanner.shown(scan.canonical)
            for column, true in zip(scan.values.T, clean.T, strict=True):
                assert np.corrcoef(column, true)[0, 1] > 0.9


def test_scanners_mix_channels_by_as_much_as_is_asked_for(worlds):
    less = world_of("mixing", mixing=MIXING / 3)
    for one, other in zip(less.scans, worlds["mixing"].scans, strict=True):
        np.testing.assert_allclose(
            3 * (one.scanner.mixing - np.eye(2)), other.scanner.mixing - np.eye(2), atol=1e-12
        )
        assert np.abs(one.scanner.mixing - np.eye(2)).max() <= MIXING / 3
    np.testing.assert_array_equal(less.reference[0].scanner.mixing, np.eye(2))


def test_nobody_in_the_reference_has_a_lesion(worlds):
    world = worlds["curves"]
    assert not any(scan.lesion.any() for scan in world.reference)
    assert [bool(scan.lesion.any()) for scan in world.scans] == [False, True, False, True]


@pytest.mark.parametrize("kind", ["curves", "mixing"])
def test_maps_that_undo_the_scanners_are_perfect(worlds, kind):
    world = worlds[kind]
    best = channel_scores(world, perfect(world))
    assert max(*best.spread, *best.error) < 1e-6
    assert max(best.tissues) < 1e-6
    assert best.kept == pytest.approx(1, abs=0.05)
    assert best.lesion < 0.1


def test_what_maps_leave_or_do_is_noticed(worlds):
    world = worlds["people"]
    good = perfect(world)
    shift = 0.2 * world.reference[0].values.std(axis=0)
    shifts = (shift * [1, 0], -shift * [1, 0], shift * [1, 0], -shift * [1, 0])
    off = channel_scores(
        world, [Chain((one, Affine(np.eye(2), by))) for one, by in zip(good, shifts, strict=True)]
    )
    assert off.spread[0] == pytest.approx(0.2, rel=0.1)
    assert off.error[0] == pytest.approx(0.2, rel=0.1)
    assert off.tissues[0] > 0.15
    assert max(off.spread[1], off.error[1]) < 1e-6
    together = channel_scores(world, [Chain((one, Affine(np.eye(2), shift))) for one in good])
    assert max(together.spread) < 1e-6  # all scans agree, on something else than the truth
    assert min(together.error) > 0.15
    flat = channel_scores(world, [Chain((one, Affine(0.5 * np.eye(2), shift))) for one in good])
    assert flat.kept == pytest.approx(0.5, abs=0.05)
    assert flat.lesion > 0.4


def test_other_kinds_and_numbers_of_channels_are_refused():
    with pytest.raises(InvalidValueError, match="curves, mixing, people"):
        world_of("scanners")
    with pytest.raises(InvalidValueError, match="2 or 3"):
        world_of("people", 4)
    with pytest.raises(InvalidValueError, match="mixing"):
        world_of("mixing", mixing=0.9)
