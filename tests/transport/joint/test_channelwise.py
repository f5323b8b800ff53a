"""Maps side by side."""

import json

import numpy as np
import pytest

from ndflow import Affine, Chain, IntensityMap, InvalidValueError
from ndflow.transport import Tabulated
from ndflow.transport.maps import Channelwise

TABLE = Tabulated([0.0, 1.0, 3.0], [-1.0, 0.0, 1.0], [1.0, 0.5, 0.5])
BOTH = Channelwise((TABLE, Affine(3.0, 1.0)))
POINTS = np.random.default_rng(0).uniform(-1, 4, size=(20, 2))


def test_each_channel_goes_through_its_own_map():
    np.testing.assert_array_equal(BOTH(POINTS)[:, 0], TABLE(POINTS[:, 0]))
    np.testing.assert_array_equal(BOTH(POINTS)[:, 1], 3 * POINTS[:, 1] + 1)


def test_the_jacobian_is_the_product_of_the_slopes():
    expected = TABLE.log_det_jacobian(POINTS[:, 0]) + np.log(3)
    np.testing.assert_allclose(BOTH.log_det_jacobian(POINTS), expected)


def test_the_inverse_undoes_each_channel():
    np.testing.assert_allclose(BOTH.inverse()(BOTH(POINTS)), POINTS, atol=1e-12)


def test_it_is_part_of_chains_and_files():
    chain = Chain((BOTH, Affine(np.eye(2), np.ones(2))))
    again = IntensityMap.from_dict(json.loads(json.dumps(chain.to_dict())))
    np.testing.assert_array_equal(again(POINTS), chain(POINTS))


def test_maps_must_have_one_channel():
    with pytest.raises(InvalidValueError, match="one map of one channel"):
        Channelwise((Affine(np.eye(2), np.zeros(2)),))
    with pytest.raises(InvalidValueError, match="one map of one channel"):
        Channelwise(())
