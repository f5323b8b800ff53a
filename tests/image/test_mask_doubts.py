"""The bounds beyond which a mask is doubtful."""

from dataclasses import replace
from typing import Any

import pytest

from ndflow.image.mask_doubts import MaskFigures, mask_doubts

BRAIN = MaskFigures(0.15, 0.0, 0.0, 1.0, 0.03, 1400.0, 9000.0, 0.62)

# What is doubtful, whether a mask was given, what was measured, and what is just not doubtful.
CASES: list[tuple[str, bool, dict[str, Any], dict[str, Any]]] = [
    ("whole head", False, {"volume": 2001.0}, {"volume": 2000.0}),
    ("whole head", False, {"faces": 0.11}, {"faces": 0.1}),
    ("whole head", False, {"noise": 0.11}, {"noise": 0.1}),
    ("mask too wide", True, {"volume": 2001.0}, {"volume": 2000.0}),
    ("mask too wide", True, {"rim": 0.49}, {"rim": 0.5}),
    ("mask too wide", False, {"rim": 0.49}, {"rim": 0.5}),
    ("mask too small", True, {"volume": 599.0}, {"volume": 600.0}),
    ("mask too small", True, {"volume": 50.0}, {"volume": 50.0, "field_of_view": 1999.0}),
    ("mask touches the border", True, {"faces": 0.11}, {"faces": 0.1}),
    ("zeros inside the mask", True, {"zeros": 0.031}, {"zeros": 0.03}),
    ("mask in pieces", True, {"largest": 0.89}, {"largest": 0.9}),
]


@pytest.mark.parametrize("given", [False, True])
def test_a_brain_is_not_doubted(given: bool) -> None:
    assert mask_doubts(BRAIN, given=given) == ()


@pytest.mark.parametrize(("kind", "given", "wrong", "right"), CASES)
def test_each_bound(kind: str, given: bool, wrong: dict[str, Any], right: dict[str, Any]) -> None:
    (doubt,) = mask_doubts(replace(BRAIN, **wrong), given=given)
    assert doubt.kind == kind
    assert mask_doubts(replace(BRAIN, **right), given=given) == ()


def test_a_brain_that_deepbet_found_may_have_more_csf_at_its_rim() -> None:
    assert mask_doubts(replace(BRAIN, rim=0.4), given=True, found=True) == ()
    (doubt,) = mask_doubts(replace(BRAIN, rim=0.39), given=True, found=True)
    assert doubt.kind == "mask too wide"


def test_the_noise_around_a_mask_that_was_given_does_not_matter() -> None:
    assert mask_doubts(replace(BRAIN, noise=0.9), given=True) == ()


@pytest.mark.parametrize("given", [False, True])
def test_phantoms_are_not_judged_by_size_border_pieces_or_rim(given: bool) -> None:
    small = MaskFigures(0.9, 0.8, 0.0, 0.5, 0.9, 199.0, 250.0, 0.1)
    assert mask_doubts(small, given=given) == ()
    unknown = MaskFigures(0.9, 0.8, 0.0, 0.5, 0.9)
    assert mask_doubts(unknown, given=given) == ()


def test_a_head_is_called_a_head_and_nothing_else() -> None:
    head = MaskFigures(0.8, 0.9, 0.0, 0.98, 0.0, 8000.0, 10000.0, 0.05)
    (doubt,) = mask_doubts(head, given=False)
    assert doubt.kind == "whole head"
    assert "8,000 ml" in doubt.text
