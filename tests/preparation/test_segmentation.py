"""Tissue maps from intensities and a template that is right about places only."""

import numpy as np
from scipy import ndimage

from ndflow.preparation import segmentation
from ndflow.preparation.segmentation import segment

SHAPE = (40, 40, 40)
MEANS = np.array([110.0, 75.0, 30.0, 0.0])


def ball(noise=4.0):
    """Return a brain in shells, WM inside GM inside CSF, and what the template expects of it."""
    away = np.linalg.norm(np.indices(SHAPE) - 19.5, axis=0)
    truth = np.digitize(away, [9, 13, 16])  # WM, GM, CSF, air
    values = MEANS[truth] + noise * np.random.default_rng(0).standard_normal(SHAPE)
    wm, gm, csf = (ndimage.gaussian_filter((truth == kind) * 1.0, 1.2) for kind in range(3))
    return np.abs(values).astype(np.float32), truth, np.stack([csf, gm, wm]).astype(np.float32)


def test_tissues_are_found():
    values, truth, expected = ball()
    found = segment(values, truth < 3, expected)
    likely = np.where(truth < 3, found.argmax(axis=0), -1)
    for kind, tissue in ((0, 2), (1, 1), (2, 0)):
        here, there = likely == tissue, truth == kind
        assert 2 * (here & there).sum() / (here.sum() + there.sum()) > 0.97, kind


def test_probabilities_sum_to_one_inside_and_are_zero_outside():
    values, truth, expected = ball()
    mask = truth < 3
    mask[19:21, 19:21, 19:21] = False  # a mask may have holes
    tissues = segment(values, mask, expected)
    np.testing.assert_allclose(tissues.sum(axis=0)[mask], 1, rtol=1e-5)
    assert not tissues[:, ~mask].any()
    assert tissues.min() >= 0


def test_lesions_are_not_seen():
    values, truth, expected = ball()
    mask = truth < 3
    lesion = np.zeros(SHAPE, bool)
    lesion[22:30, 14:26, 14:26] = True
    lesion &= mask
    one = segment(np.where(lesion, 5, values), mask, expected, lesion)
    other = segment(np.where(lesion, 90, values), mask, expected, lesion)
    np.testing.assert_array_equal(one[:, ~lesion], other[:, ~lesion])
    np.testing.assert_allclose(one.sum(axis=0)[lesion], 1, rtol=1e-5)
    seen = segment(np.where(lesion, 5, values), mask, expected)
    assert not np.allclose(seen[:, ~lesion], one[:, ~lesion])


def test_neighbours_help_where_there_is_noise(monkeypatch):
    values, truth, expected = ball(noise=16)

    def wrong():
        tissues = segment(values, truth < 3, expected).argmax(axis=0)
        return np.mean((tissues != 2 - truth)[truth < 3])

    with_neighbours = wrong()
    monkeypatch.setattr(segmentation, "_BETA", np.float32(0))
    assert with_neighbours < 0.95 * wrong()


def test_neighbours_are_six():
    maps = np.random.default_rng(0).random((4, 5, 6, 7)).astype(np.float32)
    cross = ndimage.generate_binary_structure(3, 1).astype(float)
    cross[1, 1, 1] = 0
    truth = [ndimage.convolve(part.astype(float), cross, mode="constant") for part in maps]
    np.testing.assert_allclose(segmentation._neighbours(maps), truth, rtol=1e-5)
