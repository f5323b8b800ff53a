"""The map of several channels: mass, marginals, equivariance, and never worse than one by one."""

import json

import numpy as np
import pytest
from mixtures import regularised_match

from ndflow import GaussianMixture, IntensityMap, InvalidValueError, fit, histogram
from ndflow.transport import Flow
from ndflow.transport.joint import Slices, joint_map

COUNT = 20_000

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


@pytest.fixture(scope="module")
def found():
    voxels = voxels_of(SCAN)
    return joint_map(voxels, marginals_of(voxels), TARGET)


def test_mapped_voxels_have_the_density_of_the_target(found):
    fresh = voxels_of(SCAN, seed=1)  # other voxels than those the map was found with
    mapped = found.map(fresh)
    assert Slices(TARGET).distance(mapped) < 0.03
    # Shares of the mass in boxes, by Monte Carlo from the target itself.
    edges = [np.linspace(-2.5, 2.5, 6)] * 2
    own, *_ = np.histogram2d(*mapped.T, bins=edges)
    true, *_ = np.histogram2d(*voxels_of(TARGET, seed=2, count=200_000).T, bins=edges)
    assert np.abs(own / COUNT - true / 200_000).max() < 0.02


def test_maps_of_each_channel_alone_do_not_get_there(found):
    assert found.figures.channelwise > 3 * found.figures.finished
    assert found.figures.aligned > found.figures.channelwise
    assert found.figures.kept


def test_the_jacobian_is_that_of_the_map(found):
    x = voxels_of(SCAN, seed=3, count=30)
    h = 1e-3 * np.sqrt(np.diagonal(SCAN.covariance()))
    columns = [
        (found.map(x + h * e) - found.map(x - h * e)) / (2 * h[i]) for i, e in enumerate(np.eye(2))
    ]
    determinants = np.linalg.det(np.stack(columns, axis=-1))
    assert (determinants > 0).all()
    log_det = found.map.log_det_jacobian(x)
    np.testing.assert_allclose(np.log(determinants), log_det, atol=0.1)


def test_the_inverse_brings_voxels_back(found):
    x = voxels_of(SCAN, seed=4, count=5000)
    off = np.abs(found.map.inverse()(found.map(x)) - x) / np.sqrt(np.diagonal(SCAN.covariance()))
    assert off.max() < 5e-3


def test_it_comes_back_from_a_file(found):
    x = voxels_of(SCAN, seed=5, count=100)
    again = IntensityMap.from_dict(json.loads(json.dumps(found.map.to_dict())))
    np.testing.assert_array_equal(again(x), found.map(x))


def test_independent_channels_are_mapped_as_if_each_were_alone():
    generator = np.random.default_rng(0)
    one = GaussianMixture([0.5, 0.5], [20.0, 60.0], [1 / 36, 1 / 64])
    two = GaussianMixture([0.3, 0.7], [300.0, 500.0], [1e-3, 4e-4])
    voxels = np.concatenate([one.sample(COUNT, generator), two.sample(COUNT, generator)], axis=1)
    goal = product(
        GaussianMixture([0.5, 0.5], [-0.8, 1.2], [9.0, 4.0]),
        GaussianMixture([0.3, 0.7], [-1.2, 0.8], [5.0, 9.0]),
    )
    found = joint_map(voxels, marginals_of(voxels), goal)
    alone = found.map.maps[0](voxels)
    off = np.abs(found.map(voxels) - alone) / np.sqrt(np.diagonal(goal.covariance()))
    assert np.quantile(off, 0.95) < 0.06


def product(one, two):
    """The density of two independent channels."""
    pairs = [(i, j) for i in range(one.components) for j in range(two.components)]
    return GaussianMixture(
        [one.weights[i] * two.weights[j] for i, j in pairs],
        [[one.means[i, 0], two.means[j, 0]] for i, j in pairs],
        [np.diag([one.precisions[i, 0, 0], two.precisions[j, 0, 0]]) for i, j in pairs],
    )


def test_the_flow_of_a_product_is_the_product_of_the_flows():
    generator = np.random.default_rng(2)
    ends = [regularised_match(generator), regularised_match(generator)]
    flows = [Flow(end.source, end.matched, 50) for end in ends]
    both = Flow(
        product(*(flow.source for flow in flows)),
        product(*(flow.target for flow in flows)),
        50,
    )
    x = np.column_stack([flow.source.quantile(np.linspace(0.01, 0.99, 50)) for flow in flows])
    np.testing.assert_allclose(both(x)[:, 0], flows[0](x[:, 0]), atol=1e-6)
    np.testing.assert_allclose(both(x)[:, 1], flows[1](x[:, 1]), atol=1e-6)


def test_exchanged_channels_give_the_same_map(found):
    voxels = voxels_of(SCAN)
    swap = [1, 0]
    turned = GaussianMixture(
        TARGET.weights, TARGET.means[:, swap], TARGET.precisions[:, swap][:, :, swap]
    )
    other = joint_map(voxels[:, swap], marginals_of(voxels[:, swap]), turned)
    x = voxels_of(SCAN, seed=6, count=2000)
    off = np.abs(other.map(x[:, swap])[:, swap] - found.map(x))
    assert np.quantile(off, 0.95) < 0.1
    assert other.figures.finished == pytest.approx(found.figures.finished, abs=0.005)


def test_other_units_of_the_scan_give_the_same_result(found):
    voxels = voxels_of(SCAN)
    units, offset = np.array([4.0, 0.5]), np.array([-100.0, 32.0])  # powers of two: bins nest
    other = joint_map(voxels * units + offset, marginals_of(voxels * units + offset), TARGET)
    x = voxels_of(SCAN, seed=7, count=2000)
    off = np.abs(other.map(x * units + offset) - found.map(x))
    assert np.quantile(off, 0.95) < 0.05


@pytest.mark.parametrize("seed", range(4))
def test_it_never_ends_further_away_than_the_maps_of_each_channel(seed):
    generator = np.random.default_rng(seed)
    voxels = generator.normal(size=(3000, 3)) @ generator.normal(size=(3, 3))
    goal = voxels_of(TARGET, seed, 500)
    three = np.column_stack([goal, generator.normal(size=500)])
    target = GaussianMixture([1.0], [three.mean(axis=0)], [np.linalg.inv(np.cov(three.T))])
    for regularisation in (3e-4, 100.0):
        found = joint_map(voxels, marginals_of(voxels), target, regularisation=regularisation)
        assert Slices(target).distance(found.map(voxels)) <= found.figures.channelwise + 1e-9


def test_if_the_flow_does_not_help_it_is_left_out():
    normal = GaussianMixture([1.0], [0.0], [1.0])
    goal = product(normal, normal)
    levels = normal.quantile((np.arange(120) + 0.5) / 120)
    exact = np.stack(np.meshgrid(levels, levels), axis=-1).reshape(-1, 2)  # nothing left to gain
    found = joint_map(exact, [normal, normal], goal, effective_count=30)
    assert not found.figures.kept
    assert repr(found.map) == "Chain(Channelwise)"


def test_channels_must_fit():
    with pytest.raises(InvalidValueError, match="2 channels"):
        joint_map(np.zeros((10, 3)), [SCAN] * 3, TARGET)
