"""Tissue maps from intensities and a template that is right about places only."""

import numpy as np
from scipy import ndimage

from ndflow.preparation import segmentation
from ndflow.preparation.segmentation import segment

SHAPE = (34, 34, 34)
MEANS = np.array([110.0, 75.0, 30.0, 0.0])


def ball(noise=4.0):
    """Return a brain in shells, WM inside GM inside CSF, and what the template expects of it."""
    away = np.linalg.norm(np.indices(SHAPE) - 16.5, axis=0)
    truth = np.digitize(away, [9, 13, 16])  # WM, GM, CSF, air
    values = MEANS[truth] + noise * np.random.default_rng(0).standard_normal(SHAPE)
    wm, gm, csf = (ndimage.gaussian_filter((truth == kind) * 1.0, 1.2) for kind in range(3))
    return np.abs(values).astype(np.float32), truth, np.stack([csf, gm, wm]).astype(np.float32)


def test_tissues_are_found_and_sum_to_one_inside_and_to_zero_outside():
    values, truth, expected = ball()
    mask = truth < 3
    mask[16:18, 16:18, 16:18] = False  # a mask may have holes
    tissues = segment(values, mask, expected)
    likely = np.where(mask, tissues.argmax(axis=0), -1)
    for tissue in range(3):
        here, there = likely == tissue, (truth == 2 - tissue) & mask
        assert 2 * (here & there).sum() / (here.sum() + there.sum()) > 0.97, tissue
    np.testing.assert_allclose(tissues.sum(axis=0)[mask], 1, rtol=1e-5)
    assert not tissues[:, ~mask].any()
    assert tissues.min() >= 0


def test_lesions_are_not_seen():
    values, truth, expected = ball()
    mask = truth < 3
    lesion = np.zeros(SHAPE, bool)
    lesion[19:27, 11:23, 11:23] = True
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
