"""The figure of joint densities: what it draws."""

import numpy as np
import pytest

from ndflow.figures.joint import JointVoxels, joint_figure
from ndflow.figures.style import svg


def voxels(d, names=None):
    generator = np.random.default_rng(0)
    before = generator.normal(size=(3000, d))
    return JointVoxels(
        names or [f"channel {i}" for i in range(d)],
        before,
        0.5 * before + 1.0,
        np.full(3000, d * np.log(0.5)),
        generator.normal(1.0, 0.5, size=(3000, d)),
    )


def test_mapped_voxels_lie_within_the_lines_of_the_target():
    before, after, _ = joint_figure(voxels(2)).axes[:3]
    target, filled = width(after.collections[-1]), width(after.collections[0])
    assert filled == pytest.approx(target, rel=0.25)
    assert width(before.collections[0]) > 1.4 * target


def width(contours):
    vertices = np.concatenate([path.vertices for path in contours.get_paths()])
    return np.ptp(vertices[:, 0])


def test_arrows_and_shades_are_those_of_the_map():
    way = joint_figure(voxels(2)).axes[2]
    arrows = way.collections[0]
    np.testing.assert_allclose(arrows.U, 1 - 0.5 * arrows.X, atol=1e-6)
    np.testing.assert_allclose(arrows.V, 1 - 0.5 * arrows.Y, atol=1e-6)
    shades = way.images[0].get_array()
    assert np.ma.masked_invalid(shades).compressed() == pytest.approx(2 * np.log(0.5))


def test_the_same_voxels_give_the_same_bytes():
    assert svg(joint_figure(voxels(2))) == svg(joint_figure(voxels(2)))


def test_names_are_text_and_never_a_formula():
    assert b"$x_1$" in svg(joint_figure(voxels(2, ["$x_1$", "b"])))
