"""Image formats by file name."""

import pytest

from ndflow.image.read import kind_of, pair_names


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.nii", ".nii"),
        ("x.NII.GZ", ".nii"),
        ("a.b/x.mgz", ".mgh"),
        ("x.mgh.gz", ".mgh"),
        ("x.img.gz", ".img"),
        ("x.nii.bz2", ".bz2"),
        ("nii", ""),
    ],
)
def test_the_kind_is_the_extension_without_that_of_the_compression(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("x.hdr", ("x.hdr", "x.img")),
        ("x.img.gz", ("x.hdr.gz", "x.img.gz")),
        ("X.IMG", ("X.HDR", "X.IMG")),
        ("x.nii", None),
        ("x.mgz", None),
    ],
)
def test_header_and_data_have_the_same_stem(name: str, pair: tuple[str, str] | None) -> None:
    assert pair_names(name) == pair
