"""Joint maps whose channels should be looked at."""

import numpy as np

import ndflow
from ndflow.subject.doubts import joint_doubts


def test_a_channel_whose_contrast_is_reversed_is_doubted() -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(4000, 2)) * [10.0, 2.0] + [100.0, 30.0]
    target = [ndflow.GaussianMixture([1.0], [0.0], [1.0])] * 2
    apart = np.diag([0.1, 0.5])
    plain = ndflow.Affine(apart, -apart @ [100.0, 30.0])
    assert joint_doubts(rows, plain, target) == [(), ()]
    turned = ndflow.Affine(apart * [-1.0, 1.0], -(apart * [-1.0, 1.0]) @ [100.0, 30.0])
    first, second = joint_doubts(rows, turned, target)
    assert [doubt.kind for doubt in first] == ["reversed contrast"]
    assert second == ()
    steep = ndflow.Affine(5 * apart, -5 * apart @ [100.0, 30.0])
    kinds = [[doubt.kind for doubt in doubts] for doubts in joint_doubts(rows, steep, target)]
    assert kinds == [["far from target", "worse than alignment", "steep map"]] * 2
