"""Flows on a mesh, and far out: against the flow itself."""

import json
from functools import cache

import numpy as np
import pytest
from mixtures import regularised_match

from ndflow import IntensityMap, InvalidValueError
from ndflow.transport import Flow
from ndflow.transport.flow import with_far_field
from ndflow.transport.joint import Meshed, meshed


@cache
def flow_of(seed, d):
    result = regularised_match(np.random.default_rng(seed), d)
    return Flow(*with_far_field(result.source, result.matched))


def spread(mixture):
    return np.sqrt(np.diagonal(mixture.covariance()))


@cache
def mesh_of(seed, d, count=1500):
    flow = flow_of(seed, d)
    points = flow.source.sample(count, np.random.default_rng(seed))
    tolerance = 1e-3 * spread(flow.target)
    return meshed(flow, points, tolerance=tolerance, voxels=10_000_000), points


@pytest.mark.parametrize(("seed", "d"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_a_mesh_agrees_with_the_flow_at_points_it_was_not_made_for(seed, d):
    found, _ = mesh_of(seed, d)
    fresh = found.flow.source.sample(1500, np.random.default_rng(99))
    off = np.abs(found.map(fresh) - flow_of(seed, d)(fresh)) / spread(found.flow.target)
    assert isinstance(found.map, Meshed)
    assert found.share > 0.3
    assert found.error <= 1
    assert off.max() < 1e-3


@pytest.mark.parametrize(("seed", "d"), [(0, 2), (3, 3), (4, 4)])
def test_there_and_back_ends_where_it_began(seed, d):
    found, points = mesh_of(seed, d)
    back = found.map.inverse()(found.map(points))
    assert (np.abs(back - points) / spread(found.flow.source)).max() < 5e-3


@pytest.mark.parametrize("d", [2, 3, 4])
def test_far_out_the_map_is_the_identity_and_one_to_one(d):
    flow = flow_of(5, d)
    sd = spread(flow.target)
    directions = np.random.default_rng(0).normal(size=(50, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    far = flow.target.mean() + 50 * sd * directions
    y, log_det = flow.with_log_det_jacobian(far)
    np.testing.assert_allclose(y, far, atol=1e-9 * 50 * sd.max())
    np.testing.assert_allclose(log_det, 0, atol=1e-9)
    ray = flow.target.mean() + np.linspace(0, 50, 200)[:, np.newaxis] * sd * directions[0]
    fine = flow.with_steps(200)
    mapped = fine(ray)
    assert np.isfinite(mapped).all()
    assert np.abs(fine.inverse()(mapped) - ray).max() < 1e-2 * sd.max()


def test_no_finite_point_is_lost_however_far_out():
    flow = flow_of(5, 2)
    far = np.array([[1e30, 0.0], [-1e100, 1.0], [3.0, 1e160], [1e300, -1e300]])
    np.testing.assert_allclose(flow(far), far, atol=1.0)
    np.testing.assert_allclose(flow.inverse()(flow(far)), far, atol=2.0)
    np.testing.assert_allclose(flow.log_det_jacobian(far[:2]), 0, atol=1e-9)


def test_where_the_voxels_are_the_far_field_changes_little():
    result = regularised_match(np.random.default_rng(6), 2)
    points = result.source.sample(2000, np.random.default_rng(0))
    plain, fading = Flow(result.source, result.matched), flow_of(6, 2)
    off = np.abs(plain(points) - fading(points)) / spread(result.matched)
    assert np.quantile(off, 0.95) < 0.02


def test_points_beyond_the_mesh_are_integrated():
    found, _ = mesh_of(0, 2)
    assert isinstance(found.map, Meshed)
    beyond = found.map.high + np.array([1.0, 2.0])
    np.testing.assert_array_equal(found.map([beyond]), found.flow([beyond]))


def test_a_mesh_comes_back_from_a_file_to_the_last_bit():
    found, points = mesh_of(1, 2)
    again = IntensityMap.from_dict(json.loads(json.dumps(found.map.to_dict())))
    np.testing.assert_array_equal(again(points), found.map(points))
    assert len(json.dumps(found.map.to_dict())) < 20_000


def test_a_mesh_of_too_many_nodes_is_refused():
    flow = flow_of(0, 2)
    with pytest.raises(InvalidValueError, match="nodes at most"):
        Meshed(flow, [0.0, 0.0], [1.0, 1.0], [1e-6, 1e-6], [1.0, 1.0])
    with pytest.raises(InvalidValueError, match="high must exceed low"):
        Meshed(flow, [0.0, 0.0], [0.0, 1.0], [0.1, 0.1], [1.0, 1.0])
    with pytest.raises(InvalidValueError, match="must be positive"):
        Meshed(flow, [0.0, 0.0], [1.0, 1.0], [0.1, -0.1], [1.0, 1.0])
