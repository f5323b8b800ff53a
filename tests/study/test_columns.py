"""The columns of a table of scans: known ones, and those that were probably meant to be known."""

import pytest

from ndflow.errors import FileError
from ndflow.study.table import column_names, misunderstood, nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("masks", "mask"),
        ("Sites", "site"),
        ("images", "image"),
        ("subject_id", "subject"),
        ("lesions", "lesion"),
        *((name, None) for name in ("age", "sex", "gender", "side", "task", "size", "date", "")),
        *((name, None) for name in ("diagnosis", "wmh", "has_lesion", "脳", "iq", "group")),
    ],
)
def test_the_nearest_known_column(name: str, meant: str | None) -> None:
    assert nearest(name) == meant


def test_only_what_holds_images_or_names_sites_is_misunderstood() -> None:
    assert misunderstood("brainmask", ["m.nii.gz"], ["image"])
    assert misunderstood("T2", ["t2.mgz"], ["image"])
    assert not misunderstood("masks", ["yes", "no"], ["image"])
    assert misunderstood("Sites", ["Prisma"], ["image"])
    assert not misunderstood("Sites", ["Prisma"], ["image", "site"])
    assert not misunderstood("lesion_volume", ["3.4"], ["image"])


def test_known_columns_are_in_lower_case() -> None:
    assert column_names("t.tsv", ["IMAGE", " Lesion ", "Age"]) == ["image", "lesion", "Age"]


def test_a_table_without_images_says_which_column_may_hold_them() -> None:
    with pytest.raises(FileError) as caught:
        column_names("t.tsv", ["subject", "images"])
    assert caught.value.hint == "rename 'images' to 'image'"
    with pytest.raises(FileError, match="--channels"):
        column_names("t.tsv", ["subject", "T1w", "FLAIR"])
