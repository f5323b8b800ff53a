"""The columns of a table of scans: known ones, and those that were probably meant to be known."""

import pytest

from ndflow.errors import FileError
from ndflow.study.listing.columns import in_our_spelling, misunderstood, nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("brainmask", "mask"),
        ("Brain Mask", "mask"),
        ("masks", "mask"),
        ("Scanner", "site"),
        ("site_id", "site"),
        ("sites", "site"),
        ("T1w", "image"),
        ("images", "image"),
        ("participant_id", "subject"),
        ("lesion_mask", "lesion"),
        ("exclude", "lesion"),
        ("grey_matter", "gm"),
        ("WM_prob", "wm"),
        *((name, None) for name in ("age", "sex", "gender", "side", "task", "size", "date", "")),
        *((name, None) for name in ("diagnosis", "wmh", "has_lesion", "脳", "iq", "group")),
    ],
)
def test_the_nearest_known_column(name: str, meant: str | None) -> None:
    assert nearest(name) == meant


def test_only_what_holds_images_or_names_sites_is_misunderstood() -> None:
    assert misunderstood("brainmask", ["m.nii.gz"], ["image"])
    assert misunderstood("T2", ["t2.mgz"], ["image"])
    assert not misunderstood("brainmask", ["yes", "no"], ["image"])
    assert misunderstood("Scanner", ["Prisma"], ["image"])
    assert not misunderstood("Scanner", ["Prisma"], ["image", "site"])
    assert not misunderstood("lesion_volume", ["3.4"], ["image"])


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        (["Image", " centre ", "Exclude"], ["image", "site", "lesion"]),
        (["IMAGE", "Lesion", "Age"], ["image", "lesion", "Age"]),
    ],
)
def test_known_columns_in_our_spelling(given: list[str], ours: list[str]) -> None:
    assert in_our_spelling("t.tsv", given) == ours


def test_a_table_without_images_says_which_column_may_hold_them() -> None:
    with pytest.raises(FileError) as caught:
        in_our_spelling("t.tsv", ["subject", "T1"])
    assert caught.value.hint == "rename 'T1' to 'image'"
    with pytest.raises(FileError, match=r"'lesion' twice \('exclude' is the same\)"):
        in_our_spelling("t.tsv", ["image", "lesion", "exclude"])
