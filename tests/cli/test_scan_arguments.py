"""Masks and tissue maps are typed in the order of the images they belong to."""

from typing import Any

import pytest

from ndflow.cli.scans import typed_subjects
from ndflow.errors import InvalidValueError
from ndflow.image.mask import AUTO
from ndflow.image.subject import Subject, TissueMaps

TWO, THREE = ["a", "b"], ["a", "b", "c"]


def masks(given: Any, images: Any) -> list[Any]:
    return [scan.mask for scan in typed_subjects(images, mask=given)]


def test_images_alone_are_scans_without_masks() -> None:
    assert typed_subjects(TWO) == [Subject("a"), Subject("b")]


def test_there_is_one_mask_for_each_image() -> None:
    assert masks([], THREE) == [None] * 3
    assert masks([AUTO], THREE) == [AUTO] * 3
    assert masks(["nonzero"], THREE) == [None] * 3
    assert masks(("x", AUTO, "nonzero"), THREE) == ["x", AUTO, None]
    assert masks(["x"], ["a"]) == ["x"]
    for given in (["x"], ["x", "y"], [AUTO, AUTO], ["w", "x", "y", "z"]):
        with pytest.raises(InvalidValueError, match=r"--mask: . given for 3 images; give one for"):
            masks(given, THREE)


def test_what_belongs_to_an_image_becomes_part_of_its_scan() -> None:
    maps = ["csf=c", "gm=g", "wm=w", "wm=x", "csf=d", "gm=h"]
    scans = typed_subjects(TWO, mask=["m", "n"], exclude=["none", "e"], tissue_maps=maps)
    assert scans == [
        Subject("a", "m", None, TissueMaps("c", "g", "w")),
        Subject("b", "n", "e", TissueMaps("d", "h", "x")),
    ]


@pytest.mark.parametrize(
    ("images", "given", "message"),
    [
        (["a"], {"mask": ["m", "n"]}, "--mask: 2 given for 1 image; give one for each, in the"),
        (TWO, {"exclude": [AUTO]}, "--exclude: auto is for --mask only; give a file, or none"),
        (TWO, {"exclude": [AUTO, AUTO]}, "--exclude: auto is for --mask only"),
        (["a"], {"tissue_maps": ["csf=c", "gm=g"]}, "--tissue-maps: 0 of wm for 1 scan; give csf"),
        (["a"], {"tissue_maps": ["csf=c", "gm"]}, "--tissue-maps gm: write csf=FILE gm=FILE wm=FI"),
        ([], {"mask": ["m"]}, "--mask: 1 given for 0 images; give one for each"),
    ],
)
def test_what_does_not_fit_the_images_is_refused(
    images: list[str], given: Any, message: str
) -> None:
    with pytest.raises(InvalidValueError, match=message):
        typed_subjects(images, **given)
