"""Listings of scans: what scans and their results are called, and those of BIDS datasets."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from files_on_disc import anat, dataset

from ndflow.errors import FileError
from ndflow.image.mask import FoundMask
from ndflow.image.subject import Subject
from ndflow.study.bids_derivative import BidsNames
from ndflow.study.bids_query import Dataset, read_dataset
from ndflow.study.plan import Study
from ndflow.study.table import PlainNames, named

# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def called(*given: Sequence[str | None], folder: str = "/out") -> list[str]:
    """Return what scans are called, given their images, people and sites."""
    scans = [
        Subject(f"/in/{image}", person=person, site=site, origin=f"row {number}")
        for number, (image, person, site) in enumerate(given, start=2)
    ]
    study = Study(Path(folder), named(scans, PlainNames()))
    for scan in study.scans:
        kinds = {"models": ".json", "images": ".nii.gz", "maps": ".json", "figures": ".png"}
        expected = [Path(folder) / kind / (scan.name + end) for kind, end in kinds.items()]
        assert list(study.paths(scan)) == expected
        assert not {"/", "\\", "\0", "\n"} & set(scan.name)
    return [scan.name for scan in study.scans]


def test_a_scan_is_named_after_its_image() -> None:
    scans = [("x/a.nii.gz", "01", "X"), ("b.NII", "01", "X"), ("c.v2.mgz", None, None)]
    assert called(*scans) == ["a", "b", "c.v2"]


@pytest.mark.parametrize(
    "scans",
    [
        [("1/t1.nii", None, None), ("2/t1.nii", None, None)],
        [("1/t1.nii", "01", "X"), ("2/t1.nii", "01", "X")],
        [("1/t1.nii", "01", None), ("2/t1.nii", "02", None), ("01_t1.nii", None, None)],
    ],
)
def test_scans_that_would_be_called_the_same_are_refused(scans: list[Any]) -> None:
    with pytest.raises(FileError) as caught:
        called(*scans)
    assert caught.value.path == f"/in/{scans[-1][0]}"
    assert f"row {len(scans) + 1}: " in caught.value.cause
    assert "like that of row 2" in caught.value.cause
    assert "subjects" in caught.value.hint


@pytest.mark.parametrize("other", ["KÖLN", "Ko\u0308ln"])
def test_names_that_many_discs_take_for_one_are_told_apart_or_refused(other: str) -> None:
    assert called(("1/Köln.nii", "01", None), (f"2/{other}.nii", "02", None)) == [
        "01_Köln",
        f"02_{other}",
    ]
    with pytest.raises(FileError, match=r"like that of row 2 \(Köln\)"):
        called(("1/Köln.nii", None, None), (f"2/{other}.nii", None, None))


def channels(person: str, *images: str) -> Subject:
    """Return a subject with a T1w and a FLAIR image."""
    return Subject(dict(zip(("T1w", "FLAIR"), images, strict=True)), person=person, origin=person)


def test_several_channels_are_named_after_their_images_and_the_subject() -> None:
    one, two = named(
        [channels("p1", "/a.nii", "/b.nii"), channels("p2", "/c.nii", "/d.nii")], PlainNames()
    )
    assert (one.name, two.name) == ("p1", "p2")
    assert [out.image for out in one.outputs.values()] == ["images/a.nii.gz", "images/b.nii.gz"]
    same = [channels(p, f"/{p}/x/t.nii", f"/{p}/y/t.nii") for p in ("p1", "p2")]
    names = [out.name for one in named(same, PlainNames()) for out in one.outputs.values()]
    assert len({*names}) == 4
    assert all(person in name for person, name in zip(("p1", "p1", "p2", "p2"), names, strict=True))


# ── BIDS datasets ─────────────────────────────────────────────────────────────────────────────────

PARTICIPANTS = "participant_id\tsite\tage\tmask\nsub-01\tBonn\t31\tx\nsub-02\tn/a\tn/a\ty\n"


def scans(root: Path, *, unmasked: FoundMask | None = None) -> list[Subject]:
    listing = read_dataset(Dataset(str(root)), joint=False, masks_needed=False)["T1w"]
    return named(listing.subjects, BidsNames(root, {}), unmasked)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"SkullStripped": True, "EchoTime": 3}, {"SkullStripped": True}),
        ({"Resolution": "1 mm"}, {"SkullStripped": False, "Resolution": "1 mm"}),
        ({"SkullStripped": float("nan"), "EchoTime": float("inf")}, {"SkullStripped": False}),
        (
            {"Resolution": {"1": "1 mm", "2": float("nan")}},
            {"SkullStripped": False, "Resolution": {"1": "1 mm", "2": None}},
        ),
    ],
)
def test_the_sidecar_of_a_scan_is_believed(
    tmp_path: Path, said: Any, expected: dict[str, Any]
) -> None:
    root = dataset(tmp_path / "in", *anat("sub-01_T1w"))
    (root / "sub-01" / "anat" / "sub-01_T1w.json").write_text(json.dumps(said))
    (scan,) = scans(root)
    metadata = scan.output.metadata
    assert {name: metadata[name] for name in metadata if name != "Sources"} == expected
