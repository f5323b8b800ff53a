"""Sites and covariates: from the tables of a dataset, per subject or per session."""

from pathlib import Path

import pytest
from files_on_disc import ANNEXED, anat, dataset

from ndflow.errors import FileError
from ndflow.study.bids_query import find_scans


@pytest.fixture
def study(tmp_path: Path) -> Path:
    given = [f"sub-0{sub}_ses-{ses}_T1w" for sub in (1, 2) for ses in "ab"]
    return dataset(tmp_path, *anat(*given, "sub-02_ses-c_T1w", "sub-03_T1w"))


def sites(root: Path, column: str | None = None) -> list[str | None]:
    return [scan.site for scan in find_scans(root, site_column=column)]


@pytest.mark.parametrize("column", ["site", "Site", "centre", "center", "site_id", "SITE_ID"])
@pytest.mark.parametrize("prefix", ["sub-", ""])
def test_the_site_is_read_from_the_usual_columns(tmp_path: Path, column: str, prefix: str) -> None:
    table = (
        f"participant_id\tage\t{column}\n{prefix}02\t7\tB b\n{prefix}01\t8\tA\n{prefix}04\t9\tC\n"
    )
    root = dataset(tmp_path, *anat("sub-01_T1w", "sub-02_T1w", "sub-03_T1w"), participants=table)
    assert sites(root) == ["A", "B b", None]


@pytest.mark.parametrize("cell", ["n/a", "N/A", "", " "])
def test_an_unknown_site_is_none(tmp_path: Path, cell: str) -> None:
    table = f"participant_id\tsite\tage\nsub-01\t{cell}\t3\nsub-02\t\t\n"
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
    ids=["BOM and CRLF", "BOM before the site", "CR", "quotes", "spaces"],
)
def test_tables_may_come_from_spreadsheets(tmp_path: Path, table: str) -> None:
    assert sites(dataset(tmp_path, *anat("sub-01_T1w"), participants=table)) == ["Århus"]


def test_the_column_may_be_chosen(tmp_path: Path) -> None:
    table = "participant_id\tsite\tscanner\nsub-01\tA\tPrisma\n"
    root = dataset(tmp_path, *anat("sub-01_T1w"), participants=table)
    assert sites(root, "scanner") == ["Prisma"]
    with pytest.raises(FileError, match=r"no column 'Scanner' .*: participant_id, site, scanner\)"):
        sites(root, "Scanner")


def test_a_column_cannot_be_chosen_without_a_table(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w"))
    assert sites(root) == [None]
    with pytest.raises(FileError, match=r"participants\.tsv: no column 'site' \(there is no table"):
        sites(root, "site")


def test_the_site_of_a_session_takes_precedence(study: Path) -> None:
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


def test_the_chosen_column_may_be_in_session_tables_only(study: Path) -> None:
    dataset(
        study,
        participants="participant_id\tsite\nsub-01\tA\n",
        **{"sub-02/sub-02_sessions": "session_id\tscanner\nses-a\tX\n"},
    )
    assert sites(study, "scanner") == [None, None, "X", None, None, None]


def test_a_subject_with_two_sites_needs_a_session_table(study: Path) -> None:
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
        (b"participant_id\tsite\nsub-01\t\xc5rhus\n", "line 2 is not text in UTF-8"),
        ("participant_id\tsite\n".encode("utf-16"), "not text in UTF-8"),
        (b"participant_id\tsite\nsub-01\t" + b"x" * 200_000, "row 2 cannot be read"),
        (b'participant_id\tsite\nsub-01\t"A\nsub-02\tA\nsub-03\tB"\n', "row 2 has a cell that"),
        (b"participant_id\tsite\nsub-01\n", "row 2 has 1 cells instead of 2"),
        (b"participant_id\tsite\nsub-01\tA\nn/a\tB\n", "row 3 has no participant_id"),
        (b"participant_id\tage\nsub-01\t31\nsub-01\t32\n", "row 3 gives sub-01 another age"),
    ],
)
def test_a_damaged_table_is_named(tmp_path: Path, table: bytes, message: str) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w"))
    (root / "participants.tsv").write_bytes(table)
    with pytest.raises(FileError, match=message) as caught:
        find_scans(root)
    assert caught.value.path == f"{root}/participants.tsv"


def test_a_table_that_was_not_fetched_is_reported(tmp_path: Path) -> None:
    root = dataset(tmp_path, *anat("sub-01_T1w"))
    (root / "participants.tsv").symlink_to(ANNEXED)
    with pytest.raises(FileError, match="datalad get"):
        find_scans(root)


def test_covariates_of_a_session_take_precedence_over_those_of_its_subject(study: Path) -> None:
    table = "participant_id\tsite\tage\tsex\nsub-01\tA\t30\tF\nsub-02\tB\t40\tM\nsub-03\tB\t50\tF\n"
    (study / "participants.tsv").write_text(table)
    own = "session_id\tage\tsite\tweight\nses-a\t31\tC\t70\nses-b\tn/a\tn/a\t71\n"
    (study / "sub-01" / "sub-01_sessions.tsv").write_text(own)
    (study / "sub-02" / "sub-02_sessions.tsv").write_text("session_id\tage\nb\t42.5\n")
    found = find_scans(study)
    assert [scan.more.get("age") for scan in found] == ["31", "30", "40", "42.5", "40", "50"]
    assert [scan.more.get("sex") for scan in found] == ["F", "F", "M", "M", "M", "F"]
    assert [scan.more.get("weight") for scan in found] == ["70", "71", None, None, None, None]
    assert all("site" not in scan.more and "session_id" not in scan.more for scan in found)
    assert [scan.site for scan in found] == ["C", "A", "B", "B", "B", "B"]


def test_a_session_that_is_listed_with_two_ages_is_refused(study: Path) -> None:
    table = study / "sub-01" / "sub-01_sessions.tsv"
    table.write_text("session_id\tage\nses-a\t31\nses-a\t32\n")
    with pytest.raises(FileError, match="row 3 gives ses-a another age") as caught:
        find_scans(study)
    assert caught.value.path == str(table)
