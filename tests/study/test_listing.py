"""Listings of scans: what scans and their results are called, and those of BIDS datasets."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from files_on_disc import anat, dataset
from names import ODD

from ndflow.errors import FileError
from ndflow.image.mask import AUTO, FoundMask
from ndflow.image.subject import Output, Subject, TissueMaps
from ndflow.study.bids_derivative import BidsNames
from ndflow.study.bids_query import Dataset, read_dataset
from ndflow.study.listing import Listing, PlainNames, named
from ndflow.study.plan import Study

# ── names ────────────────────────────────────────────────────────────────────────────────────────


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


def test_scans_of_the_same_name_are_told_apart_by_subject() -> None:
    scans = [("1/t1.nii", "01", "X"), ("2/t1.nii.gz", "02", "X"), ("3/other.nii", "03", "X")]
    assert called(*scans) == ["01_t1", "02_t1", "other"]


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


@pytest.mark.parametrize("odd", ODD)
def test_whatever_a_subject_is_called_files_stay_in_their_folder(odd: str) -> None:
    one, two = called(("1/a.nii", odd, None), ("2/a.nii", "plain", None))
    assert two == "plain_a"
    assert one != two
    assert one not in (".", "..")


def test_odd_file_names_stay_different() -> None:
    names = [f"{odd.replace('/', ':')}.nii" for odd in ODD] + [
        "100%25.nii",
        os.fsdecode(b"\xe9.nii"),
    ]
    assert len(set(called(*((name, None, None) for name in names)))) == len(names)


def test_scans_without_a_mask_may_get_an_automatic_one() -> None:
    scans = [Subject("/a.nii", "/m.nii"), Subject("/b.nii")]
    assert [scan.mask for scan in named(scans, PlainNames())] == ["/m.nii", None]
    assert [scan.mask for scan in named(scans, PlainNames(), AUTO)] == ["/m.nii", AUTO]


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


# ── BIDS datasets ────────────────────────────────────────────────────────────────────────────────

PARTICIPANTS = "participant_id\tsite\tage\tmask\nsub-01\tBonn\t31\tx\nsub-02\tn/a\tn/a\ty\n"


def scans(root: Path, *, unmasked: FoundMask | None = None) -> list[Subject]:
    listing = read_dataset(Dataset(str(root)), joint=False, masks_needed=False)["T1w"]
    return named(listing.subjects, BidsNames(root, {}), unmasked)


def test_a_scan_knows_its_names_its_site_and_its_results(tmp_path: Path) -> None:
    names = anat("sub-01_ses-a_T1w", "sub-02_T1w")
    root = dataset(tmp_path / "in", *names, participants=PARTICIPANTS)
    one, two = scans(root)
    assert one == Subject(
        {"T1w": str(root / names[0])},
        person="sub-01",
        site="Bonn",
        name="sub-01_ses-a_T1w",
        origin=names[0],
        covariates={"age": "31"},  # not the column mask, which means something else in a table
        outputs={
            "T1w": Output(
                "sub-01_ses-a_T1w",
                "sub-01/ses-a/anat/sub-01_ses-a_desc-ndflow_T1w.nii.gz",
                "sub-01/ses-a/anat/sub-01_ses-a_desc-ndflow_T1w.json",
                {"Sources": [f"bids:raw:{names[0]}"], "SkullStripped": False},
            )
        },
    )
    assert (two.person, two.site, dict(two.covariates)) == ("sub-02", None, {})
    paths = Study(tmp_path / "out", [one]).paths(one)
    assert paths.model == tmp_path / "out" / "models" / "sub-01_ses-a_T1w.json"
    assert paths.image == tmp_path / "out" / one.output.image


def test_masks_and_tissue_maps_lie_beside_each_other(tmp_path: Path) -> None:
    maps = [f"sub-01_label-{tissue}_probseg" for tissue in ("CSF", "GM", "WM")]
    names = ("sub-01_T1w", "sub-01_desc-brain_mask", *maps, "sub-02_T1w", "sub-03_T1w")
    root = dataset(tmp_path / "in", *anat(*names), *anat("sub-03_desc-brain_mask"))
    one, two, three = scans(root, unmasked=AUTO)
    folder = root / "sub-01" / "anat"
    assert one.mask == str(folder / "sub-01_desc-brain_mask.nii.gz")
    assert one.tissues == TissueMaps(*(str(folder / f"{name}.nii.gz") for name in maps))
    assert (two.mask, two.tissues) == (AUTO, TissueMaps())
    assert three.mask != AUTO
    assert three.tissues == TissueMaps()
    assert [scan.mask for scan in scans(root)][1] is None


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"SkullStripped": tru', "not JSON"),
        (b'["no object"]', "JSON object"),
        (b"\xff\xfe{\0}\0", "UTF-16"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_sidecar_that_is_not_understood_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    root = dataset(tmp_path / "in", *anat("sub-01_T1w"))
    path = root / "sub-01" / "anat" / "sub-01_T1w.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message) as caught:
        scans(root)
    assert caught.value.path == str(path)
    assert caught.value.hint


def together(root: Path) -> Listing:
    dataset = Dataset(str(root), ("T1w", "FLAIR"))
    return read_dataset(dataset, joint=True, masks_needed=False)[""]


def test_images_of_several_channels_belong_together_by_visit(tmp_path: Path) -> None:
    both = ("sub-01_T1w", "sub-01_acq-x_FLAIR", "sub-02_ses-a_T1w", "sub-02_ses-a_FLAIR")
    root = dataset(tmp_path, *anat(*both, "sub-03_T1w", "sub-01_desc-brain_mask"))
    found = together(root)
    one, two = named(found.subjects, BidsNames(root, {}))
    assert (one.name, two.name) == ("sub-01", "sub-02_ses-a")
    assert one.channels == ("T1w", "FLAIR")
    assert one.mask == str(root / "sub-01/anat/sub-01_desc-brain_mask.nii.gz")
    assert one.outputs["FLAIR"].image == "sub-01/anat/sub-01_acq-x_desc-ndflow_FLAIR.nii.gz"
    (warning,) = found.warnings
    assert "sub-03 has no FLAIR" in warning
    listings = read_dataset(Dataset(str(root), ("T1w", "FLAIR")), joint=False, masks_needed=False)
    assert {name: len(one.subjects) for name, one in listings.items()} == {"T1w": 3, "FLAIR": 2}


def test_of_several_images_of_a_visit_those_of_one_name_belong_together(tmp_path: Path) -> None:
    runs = [f"sub-01_run-{n}_{kind}" for n in (1, 2) for kind in ("T1w", "FLAIR")]
    found = together(dataset(tmp_path, *anat(*runs, "sub-01_run-3_T1w")))
    assert [scan.name for scan in found.subjects] == ["sub-01_run-1", "sub-01_run-2"]
    assert "run-3" in found.warnings[0]


def test_a_dataset_in_which_nothing_belongs_together_is_refused(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w", "sub-02_FLAIR"))
    with pytest.raises(FileError, match=r"no subject has all of.*sub-01.*has no FLAIR"):
        together(root)


def test_a_missing_mask_of_derivatives_is_an_error_unless_masks_are_found(tmp_path: Path) -> None:
    root = dataset(tmp_path / "in", *anat("sub-01_T1w", "sub-02_T1w"))
    prep = dataset(tmp_path / "prep", *anat("sub-01_desc-brain_mask"))
    asked = Dataset(str(root), derivatives={"prep": prep})
    with pytest.raises(FileError, match=r"no mask for 1 of 2 scans.*--mask brain"):
        read_dataset(asked, joint=False, masks_needed=True)
    found = read_dataset(asked, joint=False, masks_needed=False)["T1w"]
    assert [scan.mask is not None for scan in found.subjects] == [True, False]
