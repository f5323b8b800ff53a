"""The scans of a BIDS dataset: all of them, each once, with its own site and its own mask."""

import os
import time
from pathlib import Path

import pytest
from files_on_disc import ANNEXED, anat, dataset
from hypothesis import given
from hypothesis import strategies as st

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.stream import open_file
from ndflow.study.bids_query import BidsImage, find_scans

LABELS = st.text("0123456789abcXYZ+", min_size=1, max_size=5)


def names(scans: list[BidsImage]) -> list[str]:
    return [Path(scan.relative).name.removesuffix(".nii.gz") for scan in scans]


# ── which images ─────────────────────────────────────────────────────────────────────────────────


def test_a_scan_has_its_path_entities_and_suffix(tmp_path: Path) -> None:
    root = dataset(tmp_path, "sub-01/ses-a/anat/sub-01_ses-a_acq-x_run-1_T1w.nii.gz")
    (scan,) = find_scans(root)
    assert scan.relative == "sub-01/ses-a/anat/sub-01_ses-a_acq-x_run-1_T1w.nii.gz"
    assert scan.image == f"{root}/{scan.relative}"
    assert list(scan.entities.items()) == [("sub", "01"), ("ses", "a"), ("acq", "x"), ("run", "1")]
    assert scan.site is None
    assert scan.mask is None


def test_a_relative_root_gives_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset(tmp_path / "study", *anat("sub-01_T1w"))
    monkeypatch.chdir(tmp_path)
    assert find_scans("study")[0].image == "study/sub-01/anat/sub-01_T1w.nii.gz"


def test_scans_come_in_natural_order(tmp_path: Path) -> None:
    given = ["sub-10_T1w", "sub-2_ses-b_T1w", "sub-2_ses-a_run-10_T1w", "sub-2_ses-a_run-9_T1w"]
    root = dataset(tmp_path, *anat(*given, "sub-x_T1w", "sub-02_T1w"))
    assert names(find_scans(root)) == [
        "sub-02_T1w",
        "sub-2_ses-a_run-9_T1w",
        "sub-2_ses-a_run-10_T1w",
        "sub-2_ses-b_T1w",
        "sub-10_T1w",
        "sub-x_T1w",
    ]


@given(st.sets(st.tuples(LABELS, LABELS | st.none(), LABELS | st.none()), min_size=1))
def test_every_scan_is_found_once(
    tmp_path_factory: pytest.TempPathFactory, scans: set[tuple[str, str | None, str | None]]
) -> None:
    given = [
        f"sub-{sub}{f'_ses-{ses}' if ses else ''}{f'_run-{run}' if run else ''}_T1w"
        for sub, ses, run in scans
    ]
    root = dataset(tmp_path_factory.mktemp("set"), *anat(*given))
    found = find_scans(root)
    assert sorted(names(found)) == sorted(given)
    for scan in found:
        entities = scan.entities
        assert (entities["sub"], entities.get("ses"), entities.get("run")) in scans
        assert Path(scan.image).is_file()


def test_images_have_the_suffix_and_may_be_compressed(tmp_path: Path) -> None:
    root = dataset(
        tmp_path,
        *anat("sub-01_T1w", "sub-01_T1w.json", "sub-01_T2w", "sub-02_T1w.nii", "sub-02_xT1w"),
        "sub-01/func/sub-01_task-rest_bold.nii.gz",
        "sub-01/func/sub-01_task-rest_events.tsv",
    )
    assert names(find_scans(root)) == ["sub-01_T1w", "sub-02_T1w.nii"]
    assert names(find_scans(root, suffix="T2w")) == ["sub-01_T2w"]
    assert names(find_scans(root, suffix="bold")) == ["sub-01_task-rest_bold"]


def test_only_datatype_folders_of_subjects_and_sessions_are_searched(tmp_path: Path) -> None:
    elsewhere = [
        "sub-01_T1w.nii.gz",
        "anat/sub-01_T1w.nii.gz",
        "sub-01/sub-01_T1w.nii.gz",
        "sub-01/anat/deeper/sub-01_T1w.nii.gz",
        "sub-01/ses-a/ses-b/anat/sub-01_ses-b_T1w.nii.gz",
        "sub-01/.hidden/sub-01_T1w.nii.gz",
        "sub-01/anat/.sub-01_acq-hidden_T1w.nii.gz",
        "sub-01/derivatives/sub-01_T1w.nii.gz",
        "sub-01/sourcedata/sub-01_T1w.nii.gz",
        "sub-01/code/sub-01_T1w.nii.gz",
        "derivatives/x/sub-01/anat/sub-01_T1w.nii.gz",
        "sourcedata/sub-01/anat/sub-01_T1w.nii.gz",
        "code/sub-01/anat/sub-01_T1w.nii.gz",
        ".git/sub-01/anat/sub-01_T1w.nii.gz",
        "other/sub-01/anat/sub-01_T1w.nii.gz",
        "sub-01_old/anat/sub-01_T1w.nii.gz",
        "sub-/anat/sub-01_T1w.nii.gz",
    ]
    root = dataset(tmp_path, *anat("sub-01_run-1_T1w"), *elsewhere)
    dataset(root / "sub-02", "anat/sub-02_T1w.nii.gz")  # nested datasets
    dataset(root / "sub-01" / "ses-c", "anat/sub-01_ses-c_T1w.nii.gz")
    assert names(find_scans(root)) == ["sub-01_run-1_T1w"]


def test_our_own_images_are_not_scans(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w", "sub-01_desc-ndflow_T1w"))
    assert names(find_scans(root)) == ["sub-01_T1w"]
    only = dataset(tmp_path / "only", *anat("sub-01_desc-ndflow_T1w"))
    with pytest.raises(FileError, match="no scans"):
        find_scans(only)


@pytest.mark.parametrize("suffix", ["T1w", "bold", "phase"])  # which sort before and after desc
def test_an_image_without_desc_is_preferred(tmp_path: Path, suffix: str) -> None:
    given = [f"sub-01_{suffix}", f"sub-01_desc-a_{suffix}", f"sub-01_desc-b_{suffix}"]
    root = dataset(tmp_path, *anat(*given, f"sub-02_desc-a_{suffix}"))
    found = names(find_scans(root, suffix=suffix))
    assert found == [f"sub-01_{suffix}", f"sub-02_desc-a_{suffix}"]


@pytest.mark.parametrize(
    "given",
    [
        ("sub-01_T1w.nii", "sub-01_T1w.nii.gz"),
        ("sub-01_desc-a_T1w.nii.gz", "sub-01_desc-b_T1w.nii.gz"),
        ("sub-01_acq-a_run-1_T1w.nii.gz", "sub-01_run-1_acq-a_T1w.nii.gz"),
    ],
)
def test_two_files_of_the_same_scan_are_refused(tmp_path: Path, given: tuple[str, str]) -> None:
    with pytest.raises(FileError, match=f"{given[1]}: .*the same scan as {given[0]}"):
        find_scans(dataset(tmp_path, *anat(*given)))


@pytest.mark.parametrize(
    "name",
    [
        "T1w.nii.gz",
        "run-1_T1w.nii.gz",
        "sub-01_foo_T1w.nii.gz",
        "sub-01_acq-a-b_T1w.nii.gz",
        "sub-01_acq-_T1w.nii.gz",
        "sub-01__T1w.nii.gz",
        "sub-01_run-1_run-2_T1w.nii.gz",
        "sub-01_acq-ä_T1w.nii.gz",
        "sub-01_T1w.old.nii.gz",
    ],
)
def test_a_name_that_is_not_made_of_key_label_pairs_is_refused(tmp_path: Path, name: str) -> None:
    root = dataset(tmp_path, *anat("sub-01_run-3_T1w"), f"sub-01/anat/{name}")
    with pytest.raises(FileError, match="key-label pairs") as caught:
        find_scans(root)
    assert caught.value.path == f"{root}/sub-01/anat/{name}"


@pytest.mark.parametrize(
    "relative",
    [
        "sub-01/anat/sub-02_T1w.nii.gz",
        "sub-01/anat/sub-01_ses-a_T1w.nii.gz",
        "sub-01/ses-a/anat/sub-01_T1w.nii.gz",
        "sub-01/ses-a/anat/sub-01_ses-b_T1w.nii.gz",
    ],
)
def test_a_name_that_contradicts_its_folder_is_refused(tmp_path: Path, relative: str) -> None:
    root = dataset(tmp_path, relative)
    with pytest.raises(FileError, match="does not belong in the folder") as caught:
        find_scans(root)
    assert caught.value.path == f"{root}/{relative}"


# ── symbolic links ───────────────────────────────────────────────────────────────────────────────


def test_circular_links_are_not_followed(tmp_path: Path) -> None:
    root = dataset(tmp_path / "set", *anat("sub-01_T1w", "sub-02_ses-a_T1w"))
    for link, target in [
        ("sub-01/up", ".."),
        ("sub-01/same", "anat"),
        ("sub-01/other", "../sub-02/ses-a/anat"),
        ("sub-01/ses-x", "../sub-01"),
        ("sub-01/anat/deeper", "../.."),
        ("sub-00", "sub-01"),
        ("sub-03", "sub-03"),
        ("sub-04", "."),
        ("sub-05", "nowhere"),
        ("sub-02/ses-b", "ses-a"),
    ]:
        (root / link).symlink_to(target)
    assert names(find_scans(root)) == ["sub-01_T1w", "sub-02_ses-a_T1w"]
    assert names(find_scans(root, participants=["02"])) == ["sub-02_ses-a_T1w"]


def test_a_folder_stored_elsewhere_is_searched_once(tmp_path: Path) -> None:
    store = dataset(tmp_path / "store", *anat("sub-01_T1w"), "data/sub-02_T1w.nii.gz")
    root = dataset(tmp_path / "set", *anat("sub-03_T1w"), "sub-02/sub-02_scans.tsv")
    (root / "sub-01").symlink_to(store / "sub-01")
    (root / "sub-02" / "anat").symlink_to(store / "data")
    (root / "sub-02" / "same").symlink_to(store / "data")
    found = find_scans(root)
    assert names(found) == ["sub-01_T1w", "sub-02_T1w", "sub-03_T1w"]
    assert found[0].image == f"{root}/sub-01/anat/sub-01_T1w.nii.gz"  # not the target of the link
    assert found[1].relative == "sub-02/anat/sub-02_T1w.nii.gz"


def test_a_scan_that_was_not_fetched_is_listed(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w"))
    (root / "sub-01/anat/sub-01_run-2_T1w.nii.gz").symlink_to(f"../../{ANNEXED}")
    missing = find_scans(root)[1].image
    with (
        pytest.raises(FileError, match=f"not here; get it: datalad get {missing}$"),
        open_file(missing),
    ):
        pass


# ── participants and sessions ────────────────────────────────────────────────────────────────────


@pytest.fixture
def study(tmp_path: Path) -> Path:
    given = [f"sub-0{sub}_ses-{ses}_T1w" for sub in (1, 2) for ses in "ab"]
    return dataset(tmp_path, *anat(*given, "sub-02_ses-c_T1w", "sub-03_T1w"))


def test_participants_and_sessions_may_be_given_with_or_without_prefix(study: Path) -> None:
    both = find_scans(study, participants=["sub-02", "03", "02"])
    assert [scan.entities["sub"] for scan in both] == ["02", "02", "02", "03"]
    some = find_scans(study, sessions=["ses-b", "c"])
    assert names(some) == ["sub-01_ses-b_T1w", "sub-02_ses-b_T1w", "sub-02_ses-c_T1w"]
    one = find_scans(study, participants=["02"], sessions=["a"])
    assert names(one) == ["sub-02_ses-a_T1w"]


def test_errors_outside_the_selection_do_not_matter(study: Path) -> None:
    (study / "sub-01/ses-a/anat/sub-99_T1w.nii.gz").touch()
    assert len(find_scans(study, participants=["02"])) == 3
    assert len(find_scans(study, sessions=["b"])) == 2
    with pytest.raises(FileError, match="sub-99"):
        find_scans(study)


@pytest.mark.parametrize(
    "label", ["../../x", "..", ".", "", "sub-", "0 1", "*", "01/", "0\n", "é", "sub-sub-01"]
)
def test_labels_that_are_not_alphanumeric_are_refused(study: Path, label: str) -> None:
    with pytest.raises(InvalidValueError, match="participant must be letters and digits"):
        find_scans(study, participants=["01", label])
    with pytest.raises(InvalidValueError, match="session must be letters and digits"):
        find_scans(study, sessions=[label])
    with pytest.raises(InvalidValueError, match="suffix must be letters and digits"):
        find_scans(study, suffix=label)


def test_the_error_for_missing_labels_lists_those_that_exist(study: Path) -> None:
    with pytest.raises(FileError, match=r"no participant 1, 04; there are 01, 02, 03$"):
        find_scans(study, participants=["04", "01", "sub-1"])
    with pytest.raises(FileError, match=r"no session d; there are a, b, c$"):
        find_scans(study, sessions=["a", "d"])
    with pytest.raises(FileError, match=r"no session c; there are a, b$"):
        find_scans(study, participants=["01"], sessions=["c"])
    with pytest.raises(FileError, match=r"no session a; there are no sessions$"):
        find_scans(study, participants=["03"], sessions=["a"])


def test_up_to_ten_labels_are_listed(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat(*(f"sub-{count}_T1w" for count in range(1, 31))))
    with pytest.raises(FileError, match=r"there are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more$"):
        find_scans(root, participants=["99"])


# ── whole datasets ───────────────────────────────────────────────────────────────────────────────


def test_a_folder_that_is_not_a_dataset_is_refused(tmp_path: Path) -> None:
    root = dataset(tmp_path / "set", *anat("sub-01_T1w"))
    with pytest.raises(FileError, match=r"no such folder; give"):
        find_scans(tmp_path / "missing")
    with pytest.raises(FileError, match=r"no such folder; give"):
        find_scans(root / "dataset_description.json")
    (root / "dataset_description.json").unlink()
    with pytest.raises(FileError, match=r"there is no dataset_description\.json; give"):
        find_scans(root)


def test_the_error_for_no_scans_names_the_suffixes_that_exist(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T2w"), "sub-01/func/sub-01_task-x_bold.nii.gz")
    with pytest.raises(
        FileError, match=r"sub-…_T1w\.nii.* there are T2w, bold images; choose with --suffix$"
    ):
        find_scans(root)
    empty = dataset(tmp_path / "empty", "sub-01/anat/._sub-01_T2w.nii.gz")
    with pytest.raises(FileError, match=r"no scans.*check that it is the right folder"):
        find_scans(empty)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every folder")
def test_a_folder_without_read_permission_is_named(study: Path) -> None:
    (study / "sub-02").chmod(0)
    try:
        with pytest.raises(FileError, match="cannot be listed") as caught:
            find_scans(study)
        assert caught.value.path == f"{study}/sub-02"
    finally:
        (study / "sub-02").chmod(0o755)


def test_five_hundred_subjects_take_less_than_a_second(tmp_path: Path) -> None:
    scans = anat(*(f"sub-{count:03}_T1w" for count in range(500)))
    masks = anat(*(f"sub-{count:03}_desc-brain_mask" for count in range(500)))
    rows = "".join(f"sub-{count:03}\tA\n" for count in range(500))
    root = dataset(tmp_path, *scans, participants=f"participant_id\tsite\n{rows}")
    stored = dataset(tmp_path / "masks", *masks)
    begin = time.process_time()
    found = find_scans(root, derivatives=[stored])
    assert time.process_time() - begin < 1  # 0.06 s on two slow cores
    assert len({scan.mask for scan in found}) == 500


def test_a_real_cohort_has_sites_and_masks(cohort_folder: Path) -> None:
    scans = find_scans(cohort_folder)
    images = cohort_folder.glob("sub-*/anat/*_T1w.nii.gz")
    assert {scan.image for scan in scans} == set(map(str, images))
    assert len({scan.site for scan in scans}) > 1
    for scan in scans:
        assert scan.site
        assert scan.mask == scan.image.replace("_T1w", "_desc-brain_mask")
        assert Path(scan.mask).is_file()
