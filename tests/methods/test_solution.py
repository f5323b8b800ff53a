"""Solutions: what is said about a match, and its record."""

import numpy as np
import pytest
from mixtures import random_mixture

from ndflow import Affine
from ndflow.methods.base import (
    Divergence,
    PlainTarget,
    Solution,
    TargetChoice,
)
from ndflow.transport import DETERMINED_RANGE, PiecewiseLinear

SOURCE = random_mixture(np.random.default_rng(0), 3)
AFFINE = Affine(2.0, 1.0)
PLAIN = PlainTarget(0.21, 0.6, Divergence("l2", 0.5, 0.1))
OWN = {"CSF": 0.3, "GM": 0.4, "WM": 0.3}
USUAL = {"CSF": 0.2, "GM": 0.45, "WM": 0.35}
CHOICE = TargetChoice("tissues", OWN, "its tissue probability maps", USUAL, "maps", PLAIN)


def test_what_the_user_should_know_names_the_scan() -> None:
    solution = Solution(AFFINE, AFFINE, "was stopped", False, frozen=())
    stopped, nothing = solution.warnings("a.nii")
    assert stopped == "a.nii: the match to the target was stopped"
    assert "a.nii: --set freeze chooses none of its components" in nothing


def test_the_slopes_are_those_of_the_map_and_relative_to_the_alignment() -> None:
    low, middle, high = SOURCE.quantile([DETERMINED_RANGE[0], 0.5, DETERMINED_RANGE[1]]).tolist()
    curve = PiecewiseLinear([low, middle, high], [0.0, middle - low, 4 * high - 3 * middle - low])
    record = Solution(curve, AFFINE, "matched").record(SOURCE)
    assert record.slopes is not None
    assert record.slopes.range == pytest.approx((1.0, 4.0))
    assert record.slopes.relative_to_affine == pytest.approx((0.5, 2.0))
    assert (record.message, record.divergence, record.target) == ("matched", None, None)
