"""The scans of a BIDS dataset: all of them, each once, with its own site and its own mask."""

from pathlib import Path
from typing import Any

import pytest
from files_on_disc import ANNEXED, anat, dataset, fmriprep
from hypothesis import given
from hypothesis import strategies as st

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Subject
from ndflow.study.bids_query import Dataset, lesion_entities, read_dataset
from ndflow.study.table import Listing

LABELS = st.text("0123456789abcXYZ+", min_size=1, max_size=5)


def listing(root: Path, suffix: str = "T1w", *derivatives: Path, **asked: Any) -> Listing:
    folders = {str(number): folder for number, folder in enumerate(derivatives)}
    whole = Dataset(str(root), (suffix,), derivatives=folders, **asked)
    return read_dataset(whole, joint=False, masks_needed=False)[suffix]


def find(root: Path, suffix: str = "T1w", *derivatives: Path, **asked: Any) -> list[Subject]:
    return [*listing(root, suffix, *derivatives, **asked).subjects]


def names(scans: list[Subject]) -> list[str]:
    return [Path(scan.path).name.removesuffix(".nii.gz") for scan in scans]


def ends(files: list[Any], ending: str) -> list[str | None]:
    return [file and Path(file).name.removesuffix(f"_{ending}.nii.gz") for file in files]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    given = [f"sub-0{sub}_ses-{ses}_T1w" for sub in (1, 2) for ses in "ab"]
    return dataset(tmp_path, *anat(*given, "sub-02_ses-c_T1w", "sub-03_T1w"))


# ── which images ──────────────────────────────────────────────────────────────────────────────────


@given(st.sets(st.tuples(LABELS, LABELS | st.none(), LABELS | st.none()), min_size=1))
def test_every_scan_is_found_once(
    tmp_path_factory: pytest.TempPathFactory, scans: set[tuple[str, str | None, str | None]]
) -> None:
    given = [
        f"sub-{sub}{f'_ses-{ses}' if ses else ''}{f'_run-{run}' if run else ''}_T1w"
        for sub, ses, run in scans
    ]
    root = dataset(tmp_path_factory.mktemp("set"), *anat(*given))
    found = find(root)
    assert sorted(names(found)) == sorted(given)
    assert all(scan.path == f"{root}/{scan.origin}" for scan in found)


def test_only_datatype_folders_of_subjects_and_sessions_are_searched(tmp_path: Path) -> None:
    elsewhere = [
        "sub-01/ses-a/ses-b/anat/sub-01_ses-b_T1w.nii.gz",
        "sub-01/.hidden/sub-01_T1w.nii.gz",
        "sub-01/anat/.sub-01_acq-hidden_T1w.nii.gz",
        *(f"sub-01/{name}/sub-01_T1w.nii.gz" for name in ("derivatives", "sourcedata", "code")),
        "derivatives/x/sub-01/anat/sub-01_T1w.nii.gz",
        *(f"{top}/sub-01/anat/sub-01_T1w.nii.gz" for top in ("sourcedata", "code", ".git", "x")),
        "sub-/anat/sub-01_T1w.nii.gz",
        *anat("sub-01_T1w.json", "sub-01_T2w", "sub-01_xT1w", "sub-01_desc-ndflow_T1w"),
    ]
    root = dataset(tmp_path, *anat("sub-01_run-1_T1w.nii"), *elsewhere)
    dataset(root / "sub-02", "anat/sub-02_T1w.nii.gz")  # nested datasets
    dataset(root / "sub-01" / "ses-c", "anat/sub-01_ses-c_T1w.nii.gz")
    assert names(find(root)) == ["sub-01_run-1_T1w.nii"]


def test_an_image_without_desc_is_preferred(tmp_path: Path) -> None:
    for suffix in ("T1w", "bold"):  # which sort before and after desc
        given = [f"sub-01_{suffix}", f"sub-01_desc-a_{suffix}", f"sub-01_desc-b_{suffix}"]
        root = dataset(tmp_path / suffix, *anat(*given, f"sub-02_desc-a_{suffix}"))
        assert names(find(root, suffix)) == [f"sub-01_{suffix}", f"sub-02_desc-a_{suffix}"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["sub-01_T1w.nii", "sub-01_T1w.nii.gz"], "the same scan as sub-01_T1w.nii"),
        (["sub-01_desc-a_T1w", "sub-01_desc-b_T1w"], "the same scan as sub-01_desc-a"),
        (["sub-01_acq-a_run-1_T1w", "sub-01_run-1_acq-a_T1w"], "the same scan as sub-01_acq-a"),
        *(
            (["sub-01_run-3_T1w", name], "key-label pairs")
            for name in (
                *("sub-01_foo_T1w", "sub-01_acq-a-b_T1w", "sub-01__T1w", "sub-01_acq-ä_T1w"),
                *("sub-01_run-1_run-2_T1w", "sub-01_T1w.old.nii.gz"),
            )
        ),
    ],
)
def test_names_that_are_no_scans_of_their_own_are_refused(
    tmp_path: Path, given: list[str], said: str
) -> None:
    with pytest.raises(FileError, match=said) as caught:
        find(dataset(tmp_path, *anat(*given)))
    assert Path(caught.value.path).name.startswith(given[1])


def test_a_name_that_contradicts_its_folder_is_refused(tmp_path: Path) -> None:
    for n, wrong in enumerate(("anat/sub-02", "anat/sub-01_ses-a", "ses-a/anat/sub-01")):
        root = dataset(tmp_path / str(n), f"sub-01/{wrong}_T1w.nii.gz")
        with pytest.raises(FileError, match=f"{wrong}_T1w.* does not belong in the folder"):
            find(root)


def test_a_folder_stored_elsewhere_is_searched(tmp_path: Path) -> None:
    store = dataset(tmp_path / "store", *anat("sub-01_T1w"), "data/sub-02_T1w.nii.gz")
    root = dataset(tmp_path / "set", *anat("sub-03_T1w"), "sub-02/sub-02_scans.tsv")
    (root / "sub-01").symlink_to(store / "sub-01")
    (root / "sub-02" / "anat").symlink_to(store / "data")
    for loop in ("sub-02/top", "sub-03/Top", "sub-03/anat/up"):
        (root / loop).symlink_to("..")
    (root / "sub-03/anat/sub-03_run-2_T1w.nii.gz").symlink_to(f"../../{ANNEXED}")  # not fetched
    found = find(root)
    assert names(found) == ["sub-01_T1w", "sub-02_T1w", "sub-03_T1w", "sub-03_run-2_T1w"]
    assert found[0].path == f"{root}/sub-01/anat/sub-01_T1w.nii.gz"  # not the target of the link
    assert [*listing(root).warnings] == []
    (root / "sub-02" / "same").symlink_to("anat")
    with pytest.raises(FileError, match="the same file as sub-02/anat"):
        find(root)


def test_participants_and_sessions_may_be_given_with_or_without_prefix(study: Path) -> None:
    (study / "sub-01/ses-a/anat/sub-99_T1w.nii.gz").touch()  # an error outside the selection
    both = find(study, participants=["sub-02", "03", "02"])
    assert [scan.person for scan in both] == ["sub-02"] * 3 + ["sub-03"]
    assert names(find(study, participants=["02"], sessions=["ses-a"])) == ["sub-02_ses-a_T1w"]
    for asked in ({"participants": ["04"]}, {"sessions": ["d"]}):
        with pytest.raises(FileError, match=r"no (participant 04|session d); there are"):
            find(study, **asked)


@given(st.sets(LABELS, min_size=1, max_size=9), st.data())
def test_each_participant_is_in_one_of_the_parts(
    tmp_path_factory: pytest.TempPathFactory, labels: set[str], data: st.DataObject
) -> None:
    root = dataset(tmp_path_factory.mktemp("set"), *anat(*(f"sub-{label}_T1w" for label in labels)))
    parts = data.draw(st.integers(1, len(labels)))
    found = [names(find(root, shard=f"{part}/{parts}")) for part in range(1, parts + 1)]
    assert sorted(one for part in found for one in part) == sorted(names(find(root)))
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_what_is_no_part_of_the_participants_is_refused(study: Path) -> None:
    for shard in ("0/3", "4/3", "-1/3", "1", "a/b", "1/3/5", "", "1/4", "1/0"):
        with pytest.raises(InvalidValueError, match="--shard"):
            find(study, shard=shard)


@pytest.mark.parametrize("label", ["../../x", "", "sub-", "*", "01/", "0\n", "é", "sub-sub-01"])
def test_labels_that_are_not_alphanumeric_are_refused(study: Path, label: str) -> None:
    for asked in ({"participants": ["01", label]}, {"sessions": [label]}, {"suffix": label}):
        with pytest.raises(InvalidValueError, match="must be letters and digits"):
            find(study, **asked)


# ── sites and covariates ──────────────────────────────────────────────────────────────────────────


def sites(root: Path) -> list[str | None]:
    return [scan.site for scan in find(root)]


@pytest.mark.parametrize("column", ["site", "Site", "centre", "center", "SITE_ID"])
def test_the_site_is_read_from_the_usual_columns(tmp_path: Path, column: str) -> None:
    rows = [f"participant_id\tage\t{column}", "sub-02\t7\tB b", "01\t8\tA"]
    table = "\n".join([*rows, "sub-03\t9\tn/a", "sub-05\t9\tC\n"])
    given = anat(*(f"sub-0{number}_T1w" for number in range(1, 5)))
    assert sites(dataset(tmp_path, *given, participants=table)) == ["A", "B b", None, None]


def test_what_tables_say_about_a_session_takes_precedence(study: Path) -> None:
    table = "participant_id\tsite\tage\tsex\nsub-01\tA\t30\tF\nsub-02\tB\t40\tM\nsub-03\tB\t50\tF\n"
    (study / "participants.tsv").write_text(table)
    own = "session_id\tage\tsite\tweight\nses-a\t31\tC\t70\nses-b\tn/a\tn/a\t71\n"
    (study / "sub-01" / "sub-01_sessions.tsv").write_text(own)
    (study / "sub-02" / "sub-02_sessions.tsv").write_text("session_id\tage\tx\nb\t42.5\tX\n")
    found = find(study)
    cells = [[scan.covariates.get(name) for scan in found] for name in ("age", "sex", "weight")]
    assert cells[0] == ["31", "30", "40", "42.5", "40", "50"]
    assert cells[1:] == [["F", "F", "M", "M", "M", "F"], ["70", "71", None, None, None, None]]
    assert not any({"site", "session_id"} & {*scan.covariates} for scan in found)
    assert sites(study) == ["C", "A", "B", "B", "B", "B"]
    (other := study / "other.tsv").write_text("participant_id\tcentre\nsub-01\tD\n02\tE\n")
    assert [one.site for one in find(study, table=str(other))] == ["C", "D", "E", "E", "E", None]
    other.write_text("participant_id\tcentre\nsub-09\tD\n")
    with pytest.raises(FileError, match=r"no participant of .* such as sub-01"):
        find(study, table=str(other))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (b"participant_id site\nsub-01 A\n", "no column 'participant_id'.*by tabs"),
        (b"participant_id\tsite\nsub-01\tA\nn/a\tB\n", "row 3 has no participant_id"),
        (b"participant_id\tsite\nsub-01\tA\n01\tB\n", "row 3 has 01 again"),
    ],
)
def test_a_damaged_table_is_named(tmp_path: Path, table: bytes, message: str) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w"))
    (root / "participants.tsv").write_bytes(table)
    with pytest.raises(FileError, match=message) as caught:
        find(root)
    assert caught.value.path == f"{root}/participants.tsv"


# ── masks and tissue maps ─────────────────────────────────────────────────────────────────────────


def test_a_mask_beside_the_image_must_have_the_same_entities(tmp_path: Path) -> None:
    given = ["sub-01_run-1", "sub-01_run-2", "sub-02", "sub-03_ses-a_acq-x"]
    beside = ["sub-01", "sub-01_run-2", "sub-02_space-MNI", "sub-02_run-1", "sub-03_ses-a_acq-x"]
    root = dataset(
        tmp_path,
        *anat(*(f"{name}_T1w" for name in given)),
        *anat(*(f"{name}_desc-brain_mask" for name in beside)),
        *anat("sub-01_run-1_mask", "sub-01_run-1_desc-head_mask", "sub-01_run-1_label-GM_probseg"),
        *anat("sub-04_desc-preproc_T1w", "sub-04_desc-brain_mask.nii"),
    )
    found = ends([scan.mask for scan in find(root)], "desc-brain_mask")
    assert found[:4] == [None, "sub-01_run-2", None, "sub-03_ses-a_acq-x"]
    assert found[4] == "sub-04_desc-brain_mask.nii"


@pytest.mark.parametrize(
    ("scan", "stored", "expected"),
    [
        ("sub-01", ["sub-01_space-MNI_res-2", "sub-01"], "sub-01"),
        ("sub-01", ["sub-01_space-MNI", "sub-01_run-1", "sub-01_ses-a", "sub-02"], None),
        ("sub-01_space-MNI", ["sub-01", "sub-01_space-MNI"], "sub-01_space-MNI"),
        ("sub-01_space-MNI_res-2", ["sub-01_space-MNI"], None),
        ("sub-01_run-1", ["sub-01", "sub-01_run-1"], "sub-01_run-1"),
        ("sub-01_acq-x_run-1", ["sub-01", "sub-01_acq-x", "sub-01_acq-y_run-1"], "sub-01_acq-x"),
        ("sub-01_ses-a", ["sub-01_ses-b", "sub-01"], "sub-01"),
    ],
)
def test_a_derived_file_has_no_entity_that_the_scan_lacks(
    tmp_path: Path, scan: str, stored: list[str], expected: str | None
) -> None:
    root = dataset(tmp_path / "set", *anat(f"{scan}_T1w"))
    kinds = ("desc-brain_mask", "label-lesion_mask", "label-GM_probseg")
    derived = anat(*(f"{name}_{kind}" for name in stored for kind in kinds))
    flat = [f"sub-01/anat/{Path(one).name}" for one in derived]  # without folders of sessions
    for number, stored in enumerate((derived, flat)):
        folder = dataset(tmp_path / f"prep{number}", "sub-01/x", *stored)
        (found,) = find(root, "T1w", folder)
        files = (found.mask, found.lesion, found.tissues.gm)
        for file, kind in zip(files, kinds, strict=True):
            assert ends([file], kind) == [expected]


def test_derived_masks_take_precedence_over_those_beside_the_image(tmp_path: Path) -> None:
    kinds = ("desc-brain_mask", "lesion_roi", "label-WM_probseg")
    both = [f"sub-0{number}_{kind}" for number in (1, 2) for kind in kinds]
    root = dataset(tmp_path / "set", *anat("sub-01_T1w", "sub-02_T1w", *both))
    folder = dataset(tmp_path / "prep", *anat(*both[:3]))
    for scan, place in zip(find(root, "T1w", folder), (folder, root), strict=True):
        files = [str(file) for file in (scan.mask, scan.lesion, scan.tissues.wm)]
        assert [str(Path(file).parents[2]) for file in files] == [str(place)] * 3


def test_masks_that_fit_equally_well_are_refused(tmp_path: Path) -> None:
    stored = ("sub-01_acq-x_desc-brain_mask.nii.gz", "sub-01_run-1_desc-brain_mask.nii.gz")
    root = dataset(tmp_path / "set", *anat("sub-01_acq-x_run-1_T1w"))
    folder = dataset(tmp_path / "prep", *anat(*stored))
    with pytest.raises(FileError, match=f"{stored[0]}: fits the same scan as {stored[1]}"):
        find(root, "T1w", folder)


def test_a_missing_mask_of_derivatives_is_an_error_unless_masks_are_found(tmp_path: Path) -> None:
    root = dataset(tmp_path / "in", *anat("sub-01_T1w", "sub-02_T1w"))
    prep = dataset(tmp_path / "prep", *anat("sub-01_desc-brain_mask"))
    asked = Dataset(str(root), derivatives={"prep": prep})
    with pytest.raises(FileError, match=r"no mask for 1 of 2 scans.*--mask brain"):
        read_dataset(asked, joint=False, masks_needed=True)
    assert [scan.mask is not None for scan in find(root, "T1w", prep)] == [True, False]


def test_lesion_masks_have_many_names() -> None:
    ours = ["label-lesion_mask", "label-Lesion_mask", "desc-lesion_mask", "desc-T1wlesion_mask"]
    ours += ["label-L_desc-T1lesion_mask", "lesion_mask", "label-lesion_roi", "desc-lesion_roi"]
    ours += ["lesion_roi", "roi", "T1w_label-lesion_roi", "T1w_lesion_mask", "T1w_roi"]
    for ending in (*ours, "mod-T1w_roi"):
        entities = lesion_entities(f"sub-01_run-1_{ending}.nii.gz", "T1w") or {}
        assert (entities.get("sub"), entities.get("run")) == ("01", "1"), ending
    others = ["desc-brain_mask", "mask", "T1w", "desc-lesion_T1w", "label-hippocampus_roi"]
    others += ["desc-tumour_roi", "desc-perilesion_mask", "desc-FLAIRlesion_mask"]
    others += ["FLAIR_label-lesion_roi", "mod-FLAIR_label-lesion_roi", "label-lesion_probseg"]
    for ending in others:
        assert lesion_entities(f"sub-01_{ending}.nii.gz", "T1w") is None, ending
    assert lesion_entities("sub-01_label-lesion_mask.json", "T1w") is None
    assert lesion_entities("lesion_mask.nii.gz", "T1w") is None


# ── what is not used ──────────────────────────────────────────────────────────────────────────────

NOT_USED = [
    *("sub-pat_03/anat/sub-pat_03_T1w.nii.gz", "sub03/anat/sub03_T1w.nii.gz"),
    *("SUB-03/anat/SUB-03_T1w.nii.gz", "sub-03/Anat/sub-03_T1w.nii.gz"),
    *("sub-03/ses_1/anat/sub-03_ses_1_T1w.nii.gz", "sub-03/anat/more/sub-03_T1w.nii.gz"),
    *("sub-03/sub-03_T1w.nii.gz", "sub-03/ses-1/sub-03_ses-1_T1w.nii.gz"),
    *("sub-03_T1w.nii.gz", "anat/sub-03_T1w.nii.gz"),
    *("sub-03/anat/sub-03_t1w.nii.gz", "sub-03/anat/sub-03_T1.nii.gz", "sub-03/anat/T1.nii.gz"),
    *("sub-03/anat/sub-03_T1w_run-2.nii.gz", "sub-03/anat/sub-03_T1w_2.nii.gz"),
    *("sub-03/anat/sub-03_T1w.mgz", "sub-03/anat/sub-03_T1w.img", "sub-03/anat/sub-03_T1w.nii.GZ"),
]


@pytest.mark.parametrize("name", NOT_USED)
def test_what_may_be_a_scan_and_is_not_used_is_named(tmp_path: Path, name: str) -> None:
    root = dataset(tmp_path / "some", *anat("sub-01_T1w"), name)
    assert names(find(root)) == ["sub-01_T1w"]
    (warning, *_) = listing(root).warnings
    assert f"{root}: not used, but may be T1w scans: {name} (" in warning
    with pytest.raises(FileError, match=f"may be T1w scans: {name}"):
        find(dataset(tmp_path / "all", name))


def test_a_clean_dataset_raises_no_warning(tmp_path: Path) -> None:
    kinds = ["T1w", "T1w.json", "T2w", "T1map", "UNIT1", "T1w_label-lesion_roi"]
    kinds += [
        "T1w_brain",
        "mod-T1w_defacemask",
        "space-T1w_desc-preproc_bold",
        "from-T1w_to-MNI_xfm.h5",
    ]
    given = [f"{sub}_{kind}" for sub in ("sub-01", "sub-02_ses-1") for kind in kinds]
    others = ["sub-01/derivatives/sub-01_t1w.nii.gz", "sourcedata/sub-01/T1.nii.gz", ".sub/T1.nii"]
    table = "participant_id\tsite\nsub-01\tA\nsub-02\tB\n"
    root = dataset(tmp_path / "raw", *anat(*given), *others, participants=table)
    prep = dataset(tmp_path / "prep", *fmriprep("sub-01", "sub-02_ses-1"))
    for found in (listing(root), listing(root, "T1w", prep), listing(prep)):
        assert [*found.warnings] == []


def test_participants_without_scans_and_scans_without_rows_are_named(tmp_path: Path) -> None:
    files = ["sub-04/func/sub-04_bold.nii.gz", *anat("sub-01_ses-a_T1w", "sub-02_T1w")]
    table = "participant_id\tsite\nsub-01\tA\nsub-04\tA\nsub-05\tA\n"
    root = dataset(tmp_path, *files, participants=table)
    unlisted = f"{root}/participants.tsv: no row (site, age, …) for sub-02"
    assert [*listing(root).warnings] == [f"{root}: no T1w image of sub-04, sub-05", unlisted]
    assert [*listing(root, participants=["02"]).warnings] == [unlisted]
    assert [*listing(root, sessions=["a"]).warnings] == []  # in which not everybody was scanned


def test_rows_are_found_without_the_zeros_of_folders_if_these_are_unambiguous(
    tmp_path: Path,
) -> None:
    given = anat("sub-01_T1w", "sub-2_T1w", "sub-X3_T1w", "sub-4_T1w", "sub-04_T1w", "sub-05_T1w")
    rows = ["sub-1\tA", "002\tB", "sub-x03\tC", "sub-4\tD", "sub-004\tE", "5\tF", "0005\tG"]
    table = "\n".join(["participant_id\tsite", *rows, ""])
    root = dataset(tmp_path, *given, participants=table)
    assert dict(zip(names(find(root)), sites(root), strict=True)) == {
        "sub-01_T1w": "A",
        "sub-2_T1w": "B",
        "sub-X3_T1w": "C",
        "sub-04_T1w": None,
        "sub-4_T1w": "D",
        "sub-05_T1w": None,
    }
    assert "participants.tsv: read 1 as sub-01, 002 as sub-2, x03" in listing(root).warnings[0]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["ce-gad", "run-1"], "ce-gad (1 scan) and no ce-… (1 scan)"),
        (["part-phase", "part-mag", "run-1"], "no part-… (2 scans) and part-phase (1 scan)"),
        (["acq-a", "acq-b"], "acq-a (1 scan) and acq-b (1 scan)"),
        (["part-mag", "run-1"], ""),
        (["ce-gad_run-1", "ce-gad_run-2"], ""),
    ],
)
def test_scans_that_may_differ_in_contrast_are_named(
    tmp_path: Path, labels: list[str], said: str
) -> None:
    root = dataset(tmp_path, *anat(*(f"sub-01_{label}_T1w" for label in labels)))
    found = [f"mixes scans with {said};" in warning for warning in listing(root).warnings]
    assert found == [True] * bool(said)


def test_sites_may_differ_in_acquisition(tmp_path: Path) -> None:
    table = "participant_id\tsite\nsub-01\tA\nsub-02\tB\n"
    root = dataset(tmp_path, *anat("sub-01_acq-a_T1w", "sub-02_T1w"), participants=table)
    assert not listing(root).warnings


# ── preprocessed images ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw", "derived", "lost"),
    [
        (["sub-01", "sub-02"], ["sub-01", "sub-02"], ""),
        (["sub-01_run-1", "sub-01_run-2", "sub-02"], ["sub-01"], "sub-02"),
        (["sub-01_ses-a", "sub-01_ses-b", "sub-02_ses-a"], ["sub-01", "sub-02_ses-a"], ""),
        (["sub-01_ses-a", "sub-01_ses-b"], ["sub-01_ses-a_acq-x_run-2"], "sub-01_ses-b"),
    ],
)
def test_native_images_of_fmriprep_are_taken_with_what_belongs_to_them(
    tmp_path: Path, raw: list[str], derived: list[str], lost: str
) -> None:
    rows = "participant_id\tsite\nsub-01\tA\n"
    rows += "sub-02\tB\n" if any("sub-02" in name for name in raw) else ""
    root = dataset(tmp_path / "raw", *anat(*(f"{name}_T1w" for name in raw)), participants=rows)
    folder = dataset(tmp_path / "prep", *fmriprep(*derived, "sub-99"))  # who is not in the dataset
    found = listing(root, "T1w", folder)
    alone = find(folder, table=str(root / "participants.tsv"))
    for scans, starts in ((found.subjects, derived), (alone, [*derived, "sub-99"])):
        kinds = ("desc-preproc_T1w", "desc-brain_mask", "label-CSF_probseg", "label-WM_probseg")
        files = [[one.path, one.mask, one.tissues.csf, one.tissues.wm] for one in scans]
        places = [anat(*(f"{name}_{kind}" for kind in kinds)) for name in starts]
        assert files == [[f"{folder}/{place}" for place in own] for own in places]
        sites = {"sub-01": "A", "sub-02": "B"}
        assert [one.site for one in scans] == [sites.get(name[:6]) for name in starts]
    assert str(found.images).endswith(" of prep, native space")
    said = f"left out: {lost} (no desc-preproc_T1w image in native space)"
    assert [said in warning for warning in found.warnings] == [True] * bool(lost)


def test_images_of_several_folders_or_spaces_are_not_mixed(tmp_path: Path) -> None:
    spaces = [f"sub-01_space-MNI{res}_desc-preproc_T1w" for res in ("", "_res-2")]
    root = dataset(tmp_path / "raw", *anat("sub-01_T1w", "sub-02_T1w"))
    folder = dataset(tmp_path / "prep", *anat(*spaces, "sub-01_desc-brain_mask"))
    assert listing(root, "T1w", folder).images == "2 images of raw, native space"
    with pytest.raises(FileError, match="several spaces: space-MNI and space-MNI_res-2"):
        find(folder)
    assert names(find(dataset(tmp_path / "one", *anat(spaces[1])))) == spaces[1:]
    mixed = listing(dataset(folder, *anat("sub-02_desc-preproc_T1w")))
    assert names([*mixed.subjects]) == ["sub-02_desc-preproc_T1w"]
    assert "left out: sub-01 (no T1w" in mixed.warnings[0]
    with pytest.raises(FileError, match=r"no desc-preproc_T1w image in .* of sub-01; run"):
        find(root, "T1w", folder, participants=["01"])  # not the raw image


def test_all_channels_of_a_joint_study_come_from_one_folder(tmp_path: Path) -> None:
    root = dataset(tmp_path / "raw", *anat("sub-01_T1w", "sub-01_FLAIR"))
    folder = dataset(tmp_path / "prep", *fmriprep("sub-01"))
    asked = Dataset(str(root), ("T1w", "FLAIR"), derivatives={"prep": folder})
    for joint, expected in ((True, [root, root]), (False, [folder, root])):
        found = read_dataset(asked, joint=joint, masks_needed=False).values()
        images = [path for one in found for path in one.subjects[0].images.values()]
        assert [str(path).startswith(f"{at}/") for path, at in zip(images, expected, strict=True)]
    with pytest.raises(FileError, match=f"{folder}: holds preprocessed images, .*--prepare"):
        read_dataset(asked, joint=False, masks_needed=False, raw=True)


def test_lesion_masks_of_the_dataset_are_used_or_named(tmp_path: Path) -> None:
    both = ["sub-01_T1w", "sub-02_ses-a_T1w", "sub-01_lesion_roi", "sub-02_ses-a_lesion_roi"]
    root = dataset(tmp_path / "raw", *anat(*both))
    found = listing(root, "T1w", dataset(tmp_path / "prep", *fmriprep("sub-01", "sub-02")))
    assert ends([scan.lesion for scan in found.subjects], "lesion_roi") == ["sub-01", None]
    (warning,) = found.warnings
    assert "lesion masks of sub-02/ses-a/anat/sub-02_ses-a_T1w.nii.gz are not used" in warning


# ── several channels ──────────────────────────────────────────────────────────────────────────────


def test_images_of_several_channels_belong_together_by_visit(tmp_path: Path) -> None:
    both = ("sub-01_T1w", "sub-01_acq-x_FLAIR", "sub-02_ses-a_T1w", "sub-02_ses-a_FLAIR")
    runs = [f"sub-04_run-{n}_{kind}" for n in (1, 2) for kind in ("T1w", "FLAIR")]
    more = ("sub-03_T1w", "sub-01_acq-x_desc-brain_mask", "sub-04_run-3_T1w")
    table = "".join(f"sub-0{n}\t{n}\n" for n in range(1, 5))
    files = anat(*both, *runs, *more)
    root = dataset(tmp_path, *files, participants=f"participant_id\tsite\n{table}")
    asked = Dataset(str(root), ("T1w", "FLAIR"))
    found = read_dataset(asked, joint=True, masks_needed=False)[""]
    expected = ["sub-01", "sub-02_ses-a", "sub-04_run-1", "sub-04_run-2"]
    assert [scan.name for scan in found.subjects] == expected
    assert found.subjects[0].channels == ("T1w", "FLAIR")
    mask = "sub-01/anat/sub-01_acq-x_desc-brain_mask.nii.gz"  # that of any channel
    assert found.subjects[0].mask == str(root / mask)
    (warning,) = found.warnings
    assert "left out: sub-03 has no FLAIR, sub-04/anat/sub-04_run-3_T1w.nii.gz fits" in warning
    apart = read_dataset(asked, joint=False, masks_needed=False)
    assert {name: len(one.subjects) for name, one in apart.items()} == {"T1w": 6, "FLAIR": 4}
