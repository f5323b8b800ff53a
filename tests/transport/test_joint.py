"""The map of several channels, flows on a mesh, and the sliced distance that judges both."""

import json

import numpy as np
import pytest
from mixtures import random_mixture, regularised_match
from scipy import stats

from ndflow import GaussianMixture, IntensityMap, InvalidValueError
from ndflow.density import fit, histogram
from ndflow.transport import Flow
from ndflow.transport.flow import with_far_field
from ndflow.transport.joint import Meshed, Slices, joint_map, meshed

COUNT = 10_000

# Two tissues that one channel cannot tell apart, and the other can.
TARGET = GaussianMixture(
    [0.3, 0.4, 0.3],
    [[-1.2, 1.0], [0.3, 0.6], [0.9, -1.6]],
    np.linalg.inv([[[0.2, 0.1], [0.1, 0.2]], [[0.3, -0.15], [-0.15, 0.2]], 0.15 * np.eye(2)]),
)
SCAN = GaussianMixture(
    [0.35, 0.4, 0.25],
    [[40.0, 900.0], [70.0, 700.0], [90.0, 300.0]],
    np.linalg.inv([[[60.0, 0.0], [0.0, 2e4]], [[90.0, 300.0], [300.0, 2e4]], [[50, 0], [0, 1e4]]]),
)


def voxels_of(mixture, seed=0, count=COUNT):
    return mixture.sample(count, np.random.default_rng(seed))


def marginals_of(voxels):
    return [fit(histogram(column)).mixture for column in voxels.T]


def spread(mixture):
    return np.sqrt(np.diagonal(mixture.covariance()))


# ── the map of several channels ──────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def found():
    voxels = voxels_of(SCAN)
    return joint_map(voxels, marginals_of(voxels), TARGET)


def test_mapped_voxels_have_the_density_of_the_target(found):
    fresh = voxels_of(SCAN, seed=1, count=20_000)  # others than those the map was found with
    mapped = found.map(fresh)
    assert Slices(TARGET).distance(mapped) < 0.03
    # Shares of the mass in boxes, by Monte Carlo from the target itself.
    edges = [np.linspace(-2.5, 2.5, 6)] * 2
    own, *_ = np.histogram2d(*mapped.T, bins=edges)
    true, *_ = np.histogram2d(*voxels_of(TARGET, seed=2, count=200_000).T, bins=edges)
    assert np.abs(own / 20_000 - true / 200_000).max() < 0.02
    # Maps of each channel alone do not get there.
    assert found.figures.channelwise > 3 * found.figures.finished
    assert found.figures.aligned > found.figures.channelwise
    assert found.figures.kept


def test_it_comes_back_from_a_file(found):
    written = json.dumps(found.map.to_dict())
    assert len(written) < 100_000  # of the mesh, only what it is made from
    assert IntensityMap.from_dict(json.loads(written)) == found.map


def test_the_jacobian_and_the_inverse_are_those_of_the_map(found):
    x = voxels_of(SCAN, seed=3, count=30)
    h = 1e-3 * spread(SCAN)
    columns = [
        (found.map(x + h * e) - found.map(x - h * e)) / (2 * h[i]) for i, e in enumerate(np.eye(2))
    ]
    determinants = np.linalg.det(np.stack(columns, axis=-1))
    y, log_det = found.map.with_log_det_jacobian(x)
    assert (determinants > 0).all()
    np.testing.assert_allclose(np.log(determinants), log_det, atol=0.1)
    assert (np.abs(found.map.inverse()(y) - x) / spread(SCAN)).max() < 5e-3


def test_exchanged_channels_in_other_units_give_the_same_map(found):
    voxels, swap = voxels_of(SCAN), [1, 0]
    units, offset = np.array([4.0, 0.5]), np.array([-100.0, 32.0])  # powers of two: bins nest
    turned = GaussianMixture(
        TARGET.weights, TARGET.means[:, swap], TARGET.precisions[:, swap][:, :, swap]
    )
    there = (voxels * units + offset)[:, swap]
    other = joint_map(there, marginals_of(there), turned)
    x = voxels_of(SCAN, seed=6, count=1000)
    off = np.abs(other.map((x * units + offset)[:, swap])[:, swap] - found.map(x))
    assert np.quantile(off, 0.95) < 0.1
    assert other.figures.finished == pytest.approx(found.figures.finished, abs=0.005)


@pytest.mark.parametrize("regularisation", [3e-4, 100.0])
def test_it_never_ends_further_away_than_the_maps_of_each_channel(regularisation):
    generator = np.random.default_rng(0)
    voxels = generator.normal(size=(3000, 3)) @ generator.normal(size=(3, 3))
    three = np.column_stack([voxels_of(TARGET, 0, 500), generator.normal(size=500)])
    target = GaussianMixture([1.0], [three.mean(axis=0)], [np.linalg.inv(np.cov(three.T))])
    found = joint_map(voxels, marginals_of(voxels), target, regularisation=regularisation)
    assert Slices(target).distance(found.map(voxels)) <= found.figures.channelwise + 1e-9


def test_if_the_flow_does_not_help_it_is_left_out():
    normal = GaussianMixture([1.0], [0.0], [1.0])
    goal = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    levels = normal.quantile((np.arange(100) + 0.5) / 100)
    exact = np.stack(np.meshgrid(levels, levels), axis=-1).reshape(-1, 2)  # nothing left to gain
    found = joint_map(exact, [normal, normal], goal, effective_count=30)
    assert not found.figures.kept
    assert repr(found.map) == "Chain(Channelwise)"


# ── flows on a mesh ──────────────────────────────────────────────────────────────────────────────


def flow_of(seed, d):
    result = regularised_match(np.random.default_rng(seed), d)
    return Flow(*with_far_field(result.source, result.matched))


@pytest.mark.parametrize("seed", [4, 10])
def test_a_mesh_agrees_with_the_flow_at_points_it_was_not_made_for(seed):
    flow = flow_of(seed, 2)
    points = flow.source.sample(1000, np.random.default_rng(seed))
    mesh = meshed(flow, points, tolerance=1e-3 * spread(flow.target), voxels=10_000_000)
    fresh = flow.source.sample(1000, np.random.default_rng(99))
    assert isinstance(mesh, Meshed)
    assert mesh.interpolated(fresh).mean() > 0.3
    mapped = mesh(fresh)
    assert (np.abs(mapped - flow(fresh)) / spread(flow.target)).max() < 1e-3
    assert (np.abs(mesh.inverse()(mapped) - fresh) / spread(flow.source)).max() < 5e-3
    beyond = mesh.high + 1.0
    np.testing.assert_array_equal(mesh([beyond]), mesh.flow([beyond]))


def test_with_four_channels_no_mesh_pays():
    flow = flow_of(4, 4)
    points = flow.source.sample(200, np.random.default_rng(0))
    plain = meshed(flow, points, tolerance=1e-3 * spread(flow.target), voxels=10_000_000)
    assert isinstance(plain, Flow)
    back = plain.inverse()(plain(points))
    assert (np.abs(back - points) / spread(flow.source)).max() < 5e-3


def test_a_mesh_that_makes_no_sense_is_refused():
    flow = flow_of(0, 2)
    with pytest.raises(InvalidValueError, match="nodes at most"):
        Meshed(flow, [0.0, 0.0], [1.0, 1.0], [1e-6, 1e-6], [1.0, 1.0])
    with pytest.raises(InvalidValueError, match="high must exceed low"):
        Meshed(flow, [0.0, 0.0], [0.0, 1.0], [0.1, 0.1], [1.0, 1.0])


# ── the sliced Wasserstein distance ──────────────────────────────────────────────────────────────


def test_it_agrees_with_scipy_on_samples_in_any_units():
    generator = np.random.default_rng(2)
    mixture, other = random_mixture(generator, 3, 2), random_mixture(generator, 3, 2)
    points, sample = other.sample(5000, generator), mixture.sample(5000, generator)
    vectors = np.random.default_rng(5).normal(size=(100, 2))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) * spread(mixture)
    expected = np.mean([stats.wasserstein_distance(points @ v, sample @ v) for v in vectors])
    found = Slices(mixture).distance(points)
    assert found == pytest.approx(expected, rel=0.15)
    units, offset = np.diag([3.0, 500.0]), np.array([7.0, -1e3])
    there = Slices(mixture.transformed(units, offset)).distance(points @ units + offset)
    assert there == pytest.approx(found, rel=1e-9)
