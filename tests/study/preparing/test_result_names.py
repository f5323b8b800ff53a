"""The names of prepared scans: those of BIDS, and labels for all others."""

from pathlib import Path

import pytest

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import ANY_CHANNEL, Subject
from ndflow.study.listing import PlainNames, named
from ndflow.study.prepare_step import contrast_of
from ndflow.study.prepare_tables import scans_to_prepare

HERE = Path("/data")


def prepared(*scans: Subject) -> list[Subject]:
    return scans_to_prepare(named(scans, PlainNames()), HERE)


def outputs(*images: str, channel: str = ANY_CHANNEL) -> list[str]:
    scans = [Subject({channel: str(HERE / image)}) for image in images]
    return [scan.output.image for scan in prepared(*scans)]


@pytest.mark.parametrize(
    ("image", "output"),
    [
        ("sub-01_T1w.nii.gz", "sub-01/anat/sub-01_desc-preproc_T1w.nii.gz"),
        (
            "x/sub-01_ses-b_acq-fast_run-2_T1w.nii",
            "sub-01/ses-b/anat/sub-01_ses-b_acq-fast_run-2_desc-preproc_T1w.nii.gz",
        ),
        ("sub-01_desc-defaced_T1w.mgz", "sub-01/anat/sub-01_desc-preproc_T1w.nii.gz"),
        ("sub-01_FLAIR.nii.gz", "sub-01/anat/sub-01_desc-preproc_FLAIR.nii.gz"),
        ("Müller, day 3_t1w.nii", "sub-Mullerday3/anat/sub-Mullerday3_desc-preproc_T1w.nii.gz"),
        ("sub-01-new_T1w.nii", "sub-01new/anat/sub-01new_desc-preproc_T1w.nii.gz"),
        ("IXI002_T2.nii", "sub-IXI002/anat/sub-IXI002_desc-preproc_T2w.nii.gz"),
        (
            "IXI002-Guys-0828-PD.nii",
            "sub-IXI002Guys0828/anat/sub-IXI002Guys0828_desc-preproc_PDw.nii.gz",
        ),
        ("IXI002_T1.nii", "sub-IXI002/anat/sub-IXI002_desc-preproc_T1w.nii.gz"),
        ("sub-01_bold.nii", "sub-01/anat/sub-01_desc-preproc_bold.nii.gz"),
        ("T1.mgz", "sub-T1/anat/sub-T1_desc-preproc_T1w.nii.gz"),
        ("sub-PD.nii", "sub-PD/anat/sub-PD_desc-preproc_T1w.nii.gz"),
    ],
)
def test_a_name_of_bids_is_kept_and_any_other_becomes_a_label(image: str, output: str) -> None:
    assert outputs(image) == [output]


def test_labels_that_would_be_the_same_are_told_apart() -> None:
    found = outputs("a-b_T1w.nii.gz", "ab_T1w.nii.gz", "A.b.nii.gz", "日本.nii.gz", "日.nii.gz")
    labels = [name.split("/")[0].lower() for name in found]
    assert "sub-ab" in labels
    assert len({*labels}) == 5
    assert all(label.removeprefix("sub-").isalnum() and label.isascii() for label in labels)


def test_labels_do_not_depend_on_the_order_of_the_scans() -> None:
    images = ["a b.nii.gz", "0-1.nii.gz", "ab.nii.gz", "sub-01_T1w.nii.gz", "a-b.nii.gz"]
    found = dict(zip(images, outputs(*images), strict=True))
    assert found["sub-01_T1w.nii.gz"].startswith("sub-01/")
    assert not found["0-1.nii.gz"].startswith("sub-01/")
    assert found["ab.nii.gz"].startswith("sub-ab/")
    images.reverse()
    assert dict(zip(images, outputs(*images), strict=True)) == found


def test_two_versions_of_one_image_are_refused() -> None:
    with pytest.raises(FileError, match=r"same subject and visit as .*list one of them only"):
        outputs("sub-01_desc-a_T1w.nii.gz", "sub-01_desc-b_T1w.nii.gz")


def test_images_of_one_name_are_named_after_their_subjects_too() -> None:
    images = [Subject(str(HERE / site / "sub-01_T1w.nii.gz"), person=site) for site in "ab"]
    found = [scan.output.image.split("/")[0] for scan in prepared(*images)]
    assert found == ["sub-asub01", "sub-bsub01"]


def test_two_contrasts_of_one_visit_would_share_a_mask_and_are_refused() -> None:
    with pytest.raises(FileError, match=r"same subject and visit as .*T1w.*one contrast at a time"):
        outputs("sub-01_T1w.nii.gz", "sub-01_FLAIR.nii.gz")


def test_the_user_knows_best_what_images_show() -> None:
    assert outputs("a.nii", channel="PDw") == ["sub-a/anat/sub-a_desc-preproc_PDw.nii.gz"]
    assert contrast_of("x_flair.nii.gz", ANY_CHANNEL) == "FLAIR"
    assert contrast_of("a.nii", "T1") == "T1w"
    for wrong in ("../T1w", "T1_w"):
        with pytest.raises(InvalidValueError, match="channel must"):
            outputs("a.nii", channel=wrong)


def test_the_sidecar_refers_to_the_scan() -> None:
    (one,) = prepared(Subject("/data/a b/x.nii"))
    assert one.output.metadata["Sources"] == ["bids:raw:a%20b/x.nii"]
