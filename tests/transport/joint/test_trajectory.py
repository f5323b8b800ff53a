"""The way that a match took, as a flow."""

import json
from itertools import pairwise

import numpy as np
import pytest
from mixtures import moved, random_mixture

from ndflow import Flow, GaussianMixture, IntensityMap, InvalidValueError, align, fit, histogram
from ndflow.transport import match
from ndflow.transport.far_field import with_far_field
from ndflow.transport.joint import joint_map, sliced_distance, trajectory


def matched(seed, channels=2, **options):
    generator = np.random.default_rng(seed)
    source, target = (random_mixture(generator, 4, channels) for _ in range(2))
    return match(moved(source, align(source, target)), target, trajectory=True, **options)


def flow_along(found, legs=50, count=3000):
    points = found.source.sample(count, np.random.default_rng(0))
    sd = np.sqrt(np.diagonal(found.matched.covariance()))
    return trajectory(found.trajectory, points, tolerance=1e-3 * sd, legs=legs), points, sd


@pytest.mark.parametrize("options", [{}, {"blurs": (1.0, 0.5)}, {"optimiser": "descent"}])
def test_a_match_keeps_what_it_went_through(options):
    found = matched(0, **options)
    plain = match(found.source, found.matched, **options)
    assert plain.trajectory == ()
    way = found.trajectory
    assert way[0] is found.source
    assert way[-1] is found.matched
    assert len(way) >= len(found.divergences) > 3
    for mixture in way:
        np.testing.assert_array_equal(mixture.weights, found.source.weights)
    steps = [np.abs(b.means - a.means).max() for a, b in pairwise(way)]
    assert all(step > 0 for step in steps[:5])


def test_frozen_components_stay_all_the_way():
    found = matched(1, frozen=[2])
    for mixture in found.trajectory:
        np.testing.assert_array_equal(mixture.means[2], found.source.means[2])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("channels", [2, 3])
def test_mass_is_conserved_and_the_end_is_the_matched_mixture(seed, channels):
    found = matched(seed, channels, blurs=(1.0,))
    flow, points, _ = flow_along(found)
    y, log_det = flow.with_log_det_jacobian(points)
    start, end = with_far_field(found.source, found.matched)
    # p(x) = q(f(x)) |det Df(x)|, with the densities at both ends
    np.testing.assert_allclose(end.logpdf(y) + log_det, start.logpdf(points), atol=5e-3)
    assert sliced_distance(y, found.matched) < 0.05


def test_the_inverse_goes_the_way_back():
    found = matched(3)
    flow, points, sd = flow_along(found)
    assert (np.abs(flow.inverse()(flow(points)) - points) / sd).max() < 3e-3


def test_in_several_channels_it_ends_elsewhere_than_the_straight_way_and_in_one_it_does_not():
    found = matched(4)
    flow, points, sd = flow_along(found)
    straight = Flow(*with_far_field(found.source, found.matched))
    assert (np.abs(flow(points) - straight(points)) / sd).max() > 0.01
    alone = matched(4, channels=1)
    flow, points, sd = flow_along(alone)
    straight = Flow(*with_far_field(alone.source, alone.matched))
    np.testing.assert_allclose(flow(points), straight(points), atol=3e-3 * sd[0])


def test_few_legs_are_kept_at_about_equal_distances():
    means = np.linspace(0, 1, 201) ** 3
    way = [GaussianMixture([1.0], [[m, 0.0]], [np.eye(2)]) for m in means]
    flow = trajectory(way, np.zeros((10, 2)), tolerance=np.full(2, 1e-3), legs=10)
    assert len(flow.maps) == 10
    lengths = [leg.target.means[0, 0] - leg.source.means[0, 0] for leg in flow.maps]
    np.testing.assert_allclose(lengths, 0.1, atol=0.02)


def test_one_mixture_is_no_way():
    with pytest.raises(InvalidValueError, match="at least 2"):
        trajectory([matched(0).source], np.zeros((10, 2)), tolerance=np.ones(2))


def test_joint_maps_along_the_trajectory():
    generator = np.random.default_rng(5)
    source, target = (random_mixture(generator, 3, 2) for _ in range(2))
    voxels = source.sample(5000, generator)
    marginals = [fit(histogram(column)).mixture for column in voxels.T]
    found = joint_map(voxels, marginals, target, path="trajectory")
    assert found.figures.kept
    assert found.figures.finished < found.figures.channelwise
    assert found.figures.determinants[0] > 0
    few = voxels[:50]
    again = IntensityMap.from_dict(json.loads(json.dumps(found.map.to_dict())))
    np.testing.assert_array_equal(again(few), found.map(few))
    sd = voxels.std(axis=0)
    assert (np.abs(found.map.inverse()(found.map(few)) - few) / sd).max() < 5e-3
    with pytest.raises(InvalidValueError, match="sigma, precision, trajectory"):
        joint_map(voxels, marginals, target, path="shortest")
