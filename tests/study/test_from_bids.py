"""The images of a BIDS dataset as the scans of a study."""

import json
from pathlib import Path
from typing import Any

import pytest
from files_on_disc import anat, dataset

from ndflow.errors import FileError
from ndflow.image.mask import AUTO, FoundMask
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study.bids_query import find_scans
from ndflow.study.folder import PROVENANCE
from ndflow.study.from_bids import check_derivative, scans_of_dataset
from ndflow.study.plan import Study
from ndflow.subject.records import StudyRecord

PARTICIPANTS = "participant_id\tsite\tage\tmask\nsub-01\tBonn\t31\tx\nsub-02\tn/a\tn/a\ty\n"


def scans(root: Path, *, unmasked: FoundMask | None = None) -> list[Subject]:
    return scans_of_dataset(find_scans(root), unmasked=unmasked)


def test_a_scan_knows_its_names_its_site_and_its_results(tmp_path: Path) -> None:
    names = anat("sub-01_ses-a_T1w", "sub-02_T1w")
    root = dataset(tmp_path / "in", *names, participants=PARTICIPANTS)
    one, two = scans(root)
    assert one == Subject(
        str(root / names[0]),
        subject="sub-01",
        site="Bonn",
        name="sub-01_ses-a_T1w",
        origin=names[0],
        covariates={"age": "31"},  # not the column mask, which means something else in a table
        output="sub-01/ses-a/anat/sub-01_ses-a_desc-ndflow_T1w.nii.gz",
        sidecar="sub-01/ses-a/anat/sub-01_ses-a_desc-ndflow_T1w.json",
        metadata={"Sources": [f"bids:raw:{names[0]}"], "SkullStripped": False},
    )
    assert (two.subject, two.site, dict(two.covariates)) == ("sub-02", None, {})
    paths = Study(tmp_path / "out", [one]).paths(one)
    assert paths.model == tmp_path / "out" / "models" / "sub-01_ses-a_T1w.json"
    assert paths.image == tmp_path / "out" / one.output


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
    assert {name: scan.metadata[name] for name in scan.metadata if name != "Sources"} == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"SkullStripped": tru', "not JSON"),
        (b'["no object"]', "no JSON object"),
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


def test_densities_of_participants_may_be_there_before_a_study(tmp_path: Path) -> None:
    root = dataset(tmp_path / "in", *anat("sub-01_T1w"))
    study = Study(tmp_path / "out", scans(root), channel="T1w")
    check_derivative(study, root, force=False)
    study.folder.mkdir()
    (study.folder / "mine.txt").touch()
    with pytest.raises(FileError, match="not the result of a study"):
        check_derivative(study, root, force=False)
    check_derivative(study, root, force=True)
    StudyRecord(settings={}, channel="T2w").write(study.folder / PROVENANCE)
    with pytest.raises(FileError, match="holds a study of 'T2w'"):
        check_derivative(study, root, force=False)
