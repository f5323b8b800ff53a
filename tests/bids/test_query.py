"""The scans of a BIDS dataset: all of them, each once, with its own site and its own mask."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.bids.query import BidsScan, find_scans
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.stream import open_file

ANNEX = ".git/annex/objects/Xk/3Q/MD5E-s7--0a.nii.gz/MD5E-s7--0a.nii.gz"
LABELS = st.text("0123456789abcXYZ+", min_size=1, max_size=5)


def dataset(root: Path, *files: str, **tables: str) -> Path:
    """Make a dataset of empty images; a table is named by its beginning, as in participants=…."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset_description.json").write_text('{"Name": "Test", "BIDSVersion": "1.10.0"}')
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for name, content in tables.items():
        (root / f"{name}.tsv").write_bytes(content.encode())
    return root


def anat(*names: str) -> list[str]:
    """Return where files belong by their names, as in sub-01_ses-a_T1w (.nii.gz)."""
    places = []
    for name in names:
        folders = [part for part in name.split("_") if part.startswith(("sub-", "ses-"))]
        places.append("/".join((*folders, "anat", name if "." in name else f"{name}.nii.gz")))
    return places


def names(scans: list[BidsScan]) -> list[str]:
    return [Path(scan.relative).name.removesuffix(".nii.gz") for scan in scans]


def sites(root: Path, column: str | None = None) -> list[str | None]:
    return [scan.site for scan in find_scans(root, site_column=column)]


# ── which ────────────────────────────────────────────────────────────────────────────────────────


def test_a_scan_says_where_it_is_and_what_its_name_says(tmp_path: Path) -> None:
    root = dataset(tmp_path, "sub-01/ses-a/anat/sub-01_ses-a_acq-x_run-1_T1w.nii.gz")
    (scan,) = find_scans(root)
    assert scan.relative == "sub-01/ses-a/anat/sub-01_ses-a_acq-x_run-1_T1w.nii.gz"
    assert scan.image == f"{root}/{scan.relative}"
    assert list(scan.entities.items()) == [("sub", "01"), ("ses", "a"), ("acq", "x"), ("run", "1")]
    assert scan.suffix == "T1w"
    assert scan.site is None
    assert scan.mask is None


def test_the_image_is_named_from_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset(tmp_path / "study", *anat("sub-01_T1w"))
    monkeypatch.chdir(tmp_path)
    assert find_scans("study")[0].image == "study/sub-01/anat/sub-01_T1w.nii.gz"


def test_two_comes_before_ten(tmp_path: Path) -> None:
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


def test_images_are_compressed_or_not_and_of_the_kind_asked_for(tmp_path: Path) -> None:
    root = dataset(
        tmp_path,
        *anat("sub-01_T1w", "sub-01_T1w.json", "sub-01_T2w", "sub-02_T1w.nii", "sub-02_xT1w"),
        "sub-01/func/sub-01_task-rest_bold.nii.gz",
        "sub-01/func/sub-01_task-rest_events.tsv",
    )
    assert names(find_scans(root)) == ["sub-01_T1w", "sub-02_T1w.nii"]
    assert names(find_scans(root, suffix="T2w")) == ["sub-01_T2w"]
    assert names(find_scans(root, suffix="bold")) == ["sub-01_task-rest_bold"]


def test_only_subjects_sessions_and_their_datatypes_are_looked_into(tmp_path: Path) -> None:
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
    dataset(root / "sub-02", "anat/sub-02_T1w.nii.gz")  # datasets of their own
    dataset(root / "sub-01" / "ses-c", "anat/sub-01_ses-c_T1w.nii.gz")
    assert names(find_scans(root)) == ["sub-01_run-1_T1w"]


def test_our_own_images_are_no_scans(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w", "sub-01_desc-ndflow_T1w"))
    assert names(find_scans(root)) == ["sub-01_T1w"]
    only = dataset(tmp_path / "only", *anat("sub-01_desc-ndflow_T1w"))
    with pytest.raises(FileError, match="no scans"):
        find_scans(only)


@pytest.mark.parametrize("suffix", ["T1w", "bold", "phase"])  # before and after desc in order
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
def test_two_files_of_one_scan_are_refused(tmp_path: Path, given: tuple[str, str]) -> None:
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
def test_a_name_that_is_not_made_of_pairs_is_refused(tmp_path: Path, name: str) -> None:
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
def test_a_name_that_does_not_fit_its_folder_is_refused(tmp_path: Path, relative: str) -> None:
    root = dataset(tmp_path, relative)
    with pytest.raises(FileError, match="does not belong into the folder") as caught:
        find_scans(root)
    assert caught.value.path == f"{root}/{relative}"


# ── links ────────────────────────────────────────────────────────────────────────────────────────


def test_links_in_circles_are_not_followed(tmp_path: Path) -> None:
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


def test_a_folder_that_is_kept_elsewhere_is_looked_into_once(tmp_path: Path) -> None:
    store = dataset(tmp_path / "store", *anat("sub-01_T1w"), "data/sub-02_T1w.nii.gz")
    root = dataset(tmp_path / "set", *anat("sub-03_T1w"), "sub-02/sub-02_scans.tsv")
    (root / "sub-01").symlink_to(store / "sub-01")
    (root / "sub-02" / "anat").symlink_to(store / "data")
    (root / "sub-02" / "same").symlink_to(store / "data")
    found = find_scans(root)
    assert names(found) == ["sub-01_T1w", "sub-02_T1w", "sub-03_T1w"]
    assert found[0].image == f"{root}/sub-01/anat/sub-01_T1w.nii.gz"  # not where the link leads to
    assert found[1].relative == "sub-02/anat/sub-02_T1w.nii.gz"


def test_a_scan_that_was_not_fetched_is_in_the_list_and_says_so(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w"))
    (root / "sub-01/anat/sub-01_run-2_T1w.nii.gz").symlink_to(f"../../{ANNEX}")
    missing = find_scans(root)[1].image
    with (
        pytest.raises(FileError, match=f"not here; get it: datalad get {missing}$"),
        open_file(missing),
    ):
        pass


# ── whose ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def study(tmp_path: Path) -> Path:
    given = [f"sub-0{sub}_ses-{ses}_T1w" for sub in (1, 2) for ses in "ab"]
    return dataset(tmp_path, *anat(*given, "sub-02_ses-c_T1w", "sub-03_T1w"))


def test_participants_and_sessions_are_chosen_with_or_without_prefix(study: Path) -> None:
    both = find_scans(study, participants=["sub-02", "03", "02"])
    assert [scan.entities["sub"] for scan in both] == ["02", "02", "02", "03"]
    some = find_scans(study, sessions=["ses-b", "c"])
    assert names(some) == ["sub-01_ses-b_T1w", "sub-02_ses-b_T1w", "sub-02_ses-c_T1w"]
    one = find_scans(study, participants=["02"], sessions=["a"])
    assert names(one) == ["sub-02_ses-a_T1w"]


def test_what_is_not_chosen_does_no_harm(study: Path) -> None:
    (study / "sub-01/ses-a/anat/sub-99_T1w.nii.gz").touch()
    assert len(find_scans(study, participants=["02"])) == 3
    assert len(find_scans(study, sessions=["b"])) == 2
    with pytest.raises(FileError, match="sub-99"):
        find_scans(study)


@pytest.mark.parametrize(
    "label", ["../../x", "..", ".", "", "sub-", "0 1", "*", "01/", "0\n", "é", "sub-sub-01"]
)
def test_labels_that_are_not_letters_and_digits_are_refused(study: Path, label: str) -> None:
    with pytest.raises(InvalidValueError, match="participant must be letters and digits"):
        find_scans(study, participants=["01", label])
    with pytest.raises(InvalidValueError, match="session must be letters and digits"):
        find_scans(study, sessions=[label])
    with pytest.raises(InvalidValueError, match="suffix must be letters and digits"):
        find_scans(study, suffix=label)


def test_labels_that_do_not_exist_are_named_with_those_that_do(study: Path) -> None:
    with pytest.raises(FileError, match=r"no participant 1, 04; there are 01, 02, 03$"):
        find_scans(study, participants=["04", "01", "sub-1"])
    with pytest.raises(FileError, match=r"no session d; there are a, b, c$"):
        find_scans(study, sessions=["a", "d"])
    with pytest.raises(FileError, match=r"no session c; there are a, b$"):
        find_scans(study, participants=["01"], sessions=["c"])
    with pytest.raises(FileError, match=r"no session a; there is none$"):
        find_scans(study, participants=["03"], sessions=["a"])


def test_not_all_of_many_labels_are_listed(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat(*(f"sub-{count}_T1w" for count in range(1, 31))))
    with pytest.raises(FileError, match=r"there are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more$"):
        find_scans(root, participants=["99"])


def test_what_is_no_dataset_is_refused(tmp_path: Path) -> None:
    root = dataset(tmp_path / "set", *anat("sub-01_T1w"))
    with pytest.raises(FileError, match=r"no such folder; give"):
        find_scans(tmp_path / "missing")
    with pytest.raises(FileError, match=r"not a folder; give"):
        find_scans(root / "dataset_description.json")
    (root / "dataset_description.json").unlink()
    with pytest.raises(FileError, match=r"there is no dataset_description\.json; give"):
        find_scans(root)


def test_finding_nothing_says_what_was_looked_for_and_what_there_is(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T2w"), "sub-01/func/sub-01_task-x_bold.nii.gz")
    with pytest.raises(FileError, match=r"sub-…_T1w\.nii.* there are T2w, bold: see --suffix$"):
        find_scans(root)
    empty = dataset(tmp_path / "empty", "sub-01/anat/._sub-01_T2w.nii.gz")
    with pytest.raises(FileError, match=r"no scans.*check that it is the right folder"):
        find_scans(empty)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
def test_a_folder_that_may_not_be_looked_into_is_named(study: Path) -> None:
    (study / "sub-02").chmod(0)
    try:
        with pytest.raises(FileError, match="cannot be looked into") as caught:
            find_scans(study)
        assert caught.value.path == f"{study}/sub-02"
    finally:
        (study / "sub-02").chmod(0o755)


def test_five_hundred_subjects_take_no_time(tmp_path: Path) -> None:
    scans = anat(*(f"sub-{count:03}_T1w" for count in range(500)))
    masks = anat(*(f"sub-{count:03}_desc-brain_mask" for count in range(500)))
    rows = "".join(f"sub-{count:03}\tA\n" for count in range(500))
    root = dataset(tmp_path, *scans, participants=f"participant_id\tsite\n{rows}")
    stored = dataset(tmp_path / "masks", *masks)
    begin = time.process_time()
    found = find_scans(root, masks=stored)
    assert time.process_time() - begin < 1  # 0.06 s on two slow cores
    assert len({scan.mask for scan in found}) == 500


# ── sites ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("column", ["site", "Site", "centre", "center", "site_id", "SITE_ID"])
@pytest.mark.parametrize("prefix", ["sub-", ""])
def test_the_site_is_what_the_table_says(tmp_path: Path, column: str, prefix: str) -> None:
    table = (
        f"participant_id\tage\t{column}\n{prefix}02\t7\tB b\n{prefix}01\t8\tA\n{prefix}04\t9\tC\n"
    )
    root = dataset(tmp_path, *anat("sub-01_T1w", "sub-02_T1w", "sub-03_T1w"), participants=table)
    assert sites(root) == ["A", "B b", None]


@pytest.mark.parametrize("cell", ["n/a", "N/A", "", " "])
def test_a_site_that_is_not_known_is_none(tmp_path: Path, cell: str) -> None:
    table = f"participant_id\tsite\tage\nsub-01\t{cell}\t3\nsub-02\n"
    root = dataset(tmp_path, *anat("sub-01_T1w", "sub-02_T1w"), participants=table)
    assert sites(root) == [None, None]


@pytest.mark.parametrize(
    "table",
    [
        "\ufeffparticipant_id\tsite\r\nsub-01\tÅrhus\r\n",
        "\ufeffsite\tparticipant_id\r\nÅrhus\tsub-01",
        "participant_id\tsite\rsub-01\tÅrhus\r",
        'participant_id\tsite\n"sub-01"\t"Århus"\n\n',
        " participant_id \t site \n sub-01 \t Århus \n",
    ],
    ids=["BOM and CRLF", "BOM at the site", "CR", "quotes", "blanks"],
)
def test_tables_may_come_from_spreadsheets(tmp_path: Path, table: str) -> None:
    assert sites(dataset(tmp_path, *anat("sub-01_T1w"), participants=table)) == ["Århus"]


def test_the_user_may_name_the_column(tmp_path: Path) -> None:
    table = "participant_id\tsite\tscanner\nsub-01\tA\tPrisma\n"
    root = dataset(tmp_path, *anat("sub-01_T1w"), participants=table)
    assert sites(root, "scanner") == ["Prisma"]
    with pytest.raises(FileError, match=r"no column 'Scanner' .*: participant_id, site, scanner\)"):
        sites(root, "Scanner")


def test_a_column_cannot_be_named_without_a_table(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w"))
    assert sites(root) == [None]
    with pytest.raises(FileError, match=r"participants\.tsv: no column 'site' \(there is no table"):
        sites(root, "site")


def test_a_session_may_have_a_site_of_its_own(study: Path) -> None:
    dataset(
        study,
        participants="participant_id\tsite\nsub-01\tA\nsub-02\tB\nsub-03\tC\n",
        **{
            "sub-01/sub-01_sessions": "session_id\tage\nses-a\t7\n",
            "sub-02/sub-02_sessions": "session_id\tsite\nses-c\tX\nb\tY\nses-a\tn/a\n",
            "sub-03/sub-03_sessions": "session_id\tsite\nses-a\tZ\n",
        },
    )
    assert sites(study) == ["A", "A", "B", "Y", "X", "C"]
    assert sites(study, "site") == ["A", "A", "B", "Y", "X", "C"]


def test_a_named_column_may_be_in_the_tables_of_sessions_only(study: Path) -> None:
    dataset(
        study,
        participants="participant_id\tsite\nsub-01\tA\n",
        **{"sub-02/sub-02_sessions": "session_id\tscanner\nses-a\tX\n"},
    )
    assert sites(study, "scanner") == [None, None, "X", None, None, None]


def test_a_subject_with_two_sites_is_refused_unless_its_sessions_tell(study: Path) -> None:
    table = "participant_id\tsite\nsub-01\tA\nsub-01\tB\nsub-02\tA\nsub-02\tA\n"
    dataset(study, participants=table)
    with pytest.raises(FileError, match=r"participants\.tsv: 01 has two sites, A and B"):
        find_scans(study)
    assert {scan.site for scan in find_scans(study, participants=["02"])} == {"A"}
    dataset(study, **{"sub-01/sub-01_sessions": "session_id\tsite\nses-a\tA\nses-b\tB\n"})
    assert sites(study)[:2] == ["A", "B"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (b"", r"no column 'participant_id' \(its columns: none\)"),
        (b"participant_id site\nsub-01 A\n", "no column 'participant_id'.*by tabs"),
        (b"participant_id\tsite\nsub-01\t\xc5rhus\n", "row 2 is not text in UTF-8"),
        ("participant_id\tsite\n".encode("utf-16"), "row 1 is not text in UTF-8"),
        (b"participant_id\tsite\nsub-01\t" + b"x" * 200_000, "not a table"),
    ],
)
def test_a_damaged_table_is_named(tmp_path: Path, table: bytes, message: str) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w"))
    (root / "participants.tsv").write_bytes(table)
    with pytest.raises(FileError, match=message) as caught:
        find_scans(root)
    assert caught.value.path == f"{root}/participants.tsv"


def test_a_table_that_was_not_fetched_says_so(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w"))
    (root / "participants.tsv").symlink_to(ANNEX)
    with pytest.raises(FileError, match="datalad get"):
        find_scans(root)


# ── masks ────────────────────────────────────────────────────────────────────────────────────────


def masks(root: Path, stored: Path | None = None) -> list[str | None]:
    """Return the masks of all scans: their names without their common end."""
    found = [scan.mask for scan in find_scans(root, masks=stored)]
    return [mask and Path(mask).name.removesuffix("_desc-brain_mask.nii.gz") for mask in found]


def test_a_mask_beside_the_image_has_the_same_name(tmp_path: Path) -> None:
    given = ["sub-01_run-1", "sub-01_run-2", "sub-02", "sub-03_ses-a_acq-x"]
    beside = ["sub-01", "sub-01_run-2", "sub-02_space-MNI", "sub-02_run-1", "sub-03_ses-a_acq-x"]
    root = dataset(
        tmp_path,
        *anat(*(f"{name}_T1w" for name in given)),
        *anat(*(f"{name}_desc-brain_mask" for name in beside)),
        *anat("sub-01_run-1_mask", "sub-01_run-1_desc-head_mask", "sub-01_run-1_label-GM_probseg"),
    )
    assert masks(root) == [None, "sub-01_run-2", None, "sub-03_ses-a_acq-x"]
    assert find_scans(root)[1].mask == f"{root}/sub-01/anat/sub-01_run-2_desc-brain_mask.nii.gz"


def test_a_mask_need_not_be_compressed_and_belongs_to_images_with_desc_too(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_desc-preproc_T1w", "sub-01_desc-brain_mask.nii"))
    assert find_scans(root)[0].mask == f"{root}/sub-01/anat/sub-01_desc-brain_mask.nii"


@pytest.mark.parametrize(
    ("scan", "stored", "expected"),
    [
        ("sub-01", ["sub-01"], "sub-01"),
        ("sub-01", ["sub-01_space-MNI"], None),
        ("sub-01", ["sub-01_space-MNI_res-2", "sub-01"], "sub-01"),
        ("sub-01", ["sub-01_run-1"], None),
        ("sub-01", ["sub-02"], None),
        ("sub-01_space-MNI", ["sub-01"], None),
        ("sub-01_space-MNI", ["sub-01", "sub-01_space-MNI"], "sub-01_space-MNI"),
        ("sub-01_space-MNI_res-2", ["sub-01_space-MNI"], None),
        ("sub-01_run-1", ["sub-01", "sub-01_run-1"], "sub-01_run-1"),
        ("sub-01_run-1", ["sub-01", "sub-01_run-2"], "sub-01"),
        ("sub-01_acq-x_run-1", ["sub-01", "sub-01_acq-x", "sub-01_acq-y_run-1"], "sub-01_acq-x"),
        ("sub-01_ses-a", ["sub-01_ses-a", "sub-01"], "sub-01_ses-a"),
        ("sub-01_ses-a_run-1", ["sub-01_ses-a", "sub-01"], "sub-01_ses-a"),
        ("sub-01_ses-a", ["sub-01"], "sub-01"),
        ("sub-01_ses-a", ["sub-01_ses-b"], None),
        ("sub-01_ses-a", ["sub-01_ses-b", "sub-01"], "sub-01"),
        ("sub-01", ["sub-01_ses-a"], None),
    ],
)
def test_a_stored_mask_says_nothing_that_the_scan_does_not(
    tmp_path: Path, scan: str, stored: list[str], expected: str | None
) -> None:
    root = dataset(tmp_path / "set", *anat(f"{scan}_T1w"))
    folder = dataset(tmp_path / "prep", *anat(*(f"{name}_desc-brain_mask" for name in stored)))
    (folder / "sub-01").mkdir(exist_ok=True)
    assert masks(root, folder) == [expected]


def test_stored_masks_count_more_than_those_beside_the_image(tmp_path: Path) -> None:
    beside = anat("sub-01_desc-brain_mask", "sub-02_desc-brain_mask")
    root = dataset(tmp_path / "set", *anat("sub-01_T1w", "sub-02_T1w"), *beside)
    folder = dataset(tmp_path / "prep", *anat("sub-01_desc-brain_mask"))
    first, second = find_scans(root, masks=folder)
    assert first.mask == f"{folder}/sub-01/anat/sub-01_desc-brain_mask.nii.gz"
    assert second.mask == f"{root}/sub-02/anat/sub-02_desc-brain_mask.nii.gz"


@pytest.mark.parametrize(
    "stored",
    [
        ("sub-01_acq-x_run-1_desc-brain_mask.nii", "sub-01_acq-x_run-1_desc-brain_mask.nii.gz"),
        ("sub-01_acq-x_desc-brain_mask.nii.gz", "sub-01_run-1_desc-brain_mask.nii.gz"),
    ],
)
def test_masks_that_fit_equally_are_refused(tmp_path: Path, stored: tuple[str, str]) -> None:
    root = dataset(tmp_path / "set", *anat("sub-01_acq-x_run-1_T1w"))
    folder = dataset(tmp_path / "prep", *anat(*stored))
    with pytest.raises(FileError, match=f"{stored[0]}: fits the same scan as {stored[1]}"):
        find_scans(root, masks=folder)


def test_a_folder_without_masks_is_refused(tmp_path: Path) -> None:
    root = dataset(tmp_path / "set", *anat("sub-01_T1w"))
    with pytest.raises(FileError, match="no such folder"):
        find_scans(root, masks=tmp_path / "missing")
    with pytest.raises(FileError, match="not a folder"):
        find_scans(root, masks=root / "dataset_description.json")
    above = dataset(tmp_path / "derivatives" / "fmriprep", *anat("sub-01_desc-brain_mask")).parent
    with pytest.raises(FileError, match=r"no folders sub-….*derivatives/fmriprep"):
        find_scans(root, masks=above)


# ── a real one ───────────────────────────────────────────────────────────────────────────────────


def test_a_real_cohort_has_sites_and_masks() -> None:
    beside = Path(__file__).parents[3] / "shared" / "cohort"
    folder = Path(os.environ.get("NDFLOW_COHORT") or beside)
    if not folder.is_dir():
        pytest.skip("no cohort: NDFLOW_COHORT is not set, and there is none beside the project")
    scans = find_scans(folder)
    assert {scan.image for scan in scans} == set(map(str, folder.glob("sub-*/anat/*_T1w.nii.gz")))
    assert len({scan.site for scan in scans}) > 1
    for scan in scans:
        assert scan.site
        assert scan.mask == scan.image.replace("_T1w", "_desc-brain_mask")
        assert Path(scan.mask).is_file()
