"""Tables of scans, as spreadsheets and people write them, and the names that scans get."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from names import ODD

from ndflow.errors import FileError
from ndflow.files.tables import write_table
from ndflow.image.mask import AUTO
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study.plan import Study
from ndflow.study.table import (
    named_scans,
    read_scans,
    read_study_scans,
    read_table,
    write_study_scans,
)


def table(folder: Path, content: str | bytes, name: str = "scans.tsv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(path: Path) -> str:
    """Return why a table is refused, and check that the error has the file and a hint."""
    with pytest.raises(FileError) as caught:
        read_scans(path)
    assert caught.value.path == str(path)
    assert caught.value.hint
    return caught.value.cause


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("scans.tsv", "\t"),
        ("scans.csv", ","),
        ("scans.csv", ";"),
        ("scans.csv", "\t"),
        ("scans.txt", "\t"),
        ("SCANS.TSV", "\t"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_tabs_commas_and_semicolons_are_understood(
    tmp_path: Path, name: str, mark: str, end: str, bom: bytes
) -> None:
    lines = [
        ("image", "mask", "subject", "site", "gm", "wm", "csf", "age"),
        ("a.nii", "am.nii", "01", "Köln", "g.nii", "w.nii", "c.nii", "31"),
        ("b.nii", "", "02", "Bonn", "", "", "", ""),
    ]
    text = end.join(mark.join(line) for line in lines) + end
    folder = str(tmp_path)
    assert read_scans(table(tmp_path, bom + text.encode(), name)) == [
        Subject(
            f"{folder}/a.nii",
            f"{folder}/am.nii",
            tissues=TissueMaps(f"{folder}/c.nii", f"{folder}/g.nii", f"{folder}/w.nii"),
            subject="01",
            site="Köln",
            origin="row 2",
            covariates={"age": "31"},
        ),
        Subject(f"{folder}/b.nii", subject="02", site="Bonn", origin="row 3"),
    ]


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    assert len(read_scans(table(tmp_path, "image\na.nii\nb.nii"))) == 2


def test_known_columns_may_be_written_in_capitals(tmp_path: Path) -> None:
    (scan,) = read_scans(table(tmp_path, "Image,Mask,Subject,Age\na.nii,m.nii,01,31\n", "x.csv"))
    assert (scan.mask, scan.subject) == (str(tmp_path / "m.nii"), "01")
    assert scan.covariates == {"Age": "31"}  # unknown columns keep their names


@pytest.mark.parametrize("nothing", ["", "n/a", "N/A", "  ", " n/a "])
def test_an_empty_cell_has_no_value(tmp_path: Path, nothing: str) -> None:
    text = (
        f"image\tmask\tsubject\tsite\tgm\tage\na.nii{''.join(f'	{nothing}' for _ in range(5))}\n"
    )
    assert read_scans(table(tmp_path, text)) == [Subject(str(tmp_path / "a.nii"), origin="row 2")]


@pytest.mark.parametrize("mark", [",", "\t", ";"])
def test_a_quoted_cell_may_contain_the_delimiter(tmp_path: Path, mark: str) -> None:
    text = f'"image"{mark}"site"{mark}note\n"a{mark}b.nii"{mark}"St. ""X"""{mark}5" coil\n'
    (scan,) = read_scans(table(tmp_path, text, "x.csv"))
    assert Path(scan.image).name == f"a{mark}b.nii"
    assert scan.site == 'St. "X"'
    assert scan.covariates == {"note": '5" coil'}


def test_blank_lines_are_skipped_but_counted(tmp_path: Path) -> None:
    text = "image\tsite\n\na.nii\tX\n\t\n  \t \nb.nii\tY\n\n\n"
    scans = read_scans(table(tmp_path, text))
    assert [(scan.origin, scan.site) for scan in scans] == [("row 3", "X"), ("row 6", "Y")]


def test_spaces_around_cells_are_ignored(tmp_path: Path) -> None:
    (scan,) = read_scans(table(tmp_path, "image , site, age\n a.nii , Bonn , 31 \n", "x.csv"))
    image = str(tmp_path / "a.nii")
    assert scan == Subject(image, site="Bonn", origin="row 2", covariates={"age": "31"})


def test_paths_are_relative_to_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    text = f"image\tmask\n../a.nii\t{tmp_path}/elsewhere/m.nii\nb.nii\tn/a\n"
    path = table(tmp_path / "deep", text)
    one, two = read_scans(path)
    assert Path(one.image) == tmp_path / "deep" / ".." / "a.nii"
    assert one.mask == f"{tmp_path}/elsewhere/m.nii"
    monkeypatch.chdir(tmp_path)
    one, two = read_scans("deep/scans.tsv")
    assert [Path(scan.image).absolute() for scan in (one, two)] == [
        tmp_path / "deep" / ".." / "a.nii",
        tmp_path / "deep" / "b.nii",
    ]


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("scan\tsite\na.nii\tX\n", r"row 1 names no column 'image' (its columns: scan, site)"),
        ("a.nii\tX\nb.nii\tY\n", "row 1 names no column 'image' (its columns: a.nii, X)"),
        ("image,site\na.nii,X\n", "row 1 names no column 'image' (its columns: image,site)"),
        ("image\tsite\tsite\na\tX\tX\n", "row 1 names the column 'site' twice"),
        ("image\tImage\na\tb\n", "row 1 names the column 'image' twice"),
        ("image\tage\tage\na\t1\t2\n", "row 1 names the column 'age' twice"),
        ("image\tsite\na\tX\n\nb\n", "row 4 has 1 cells instead of 2"),
        ("image\tsite\na\tX\tY\nb\tX\n", "row 2 has 3 cells instead of 2"),
        ("image\tsite\na\tX\n\tX\n", "row 3 names no image"),
        ("image\tsite\na\tX\nn/a\tX\n", "row 3 names no image"),
        ("image\tsite\na\tX\nb\tX\na\tY\n", "row 4 has the image of row 2"),
        ("image\tsite\na\tX\n./a\tY\n", "row 3 has the image of row 2"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, text: str, cause: str) -> None:
    assert cause in refused(table(tmp_path, text))


def test_up_to_five_faulty_rows_are_named(tmp_path: Path) -> None:
    cause = refused(table(tmp_path, "image\tsite\na\tX\n\tX\na\tX\n"))
    assert cause == "row 3 names no image, row 4 has the image of row 2"
    cause = refused(table(tmp_path, "image\tsite\n" + "b\n" * 300))
    assert "row 2 " in cause
    assert cause.endswith(", and 295 more")
    assert len(cause) < 300


def test_an_image_listed_three_times_is_reported_twice(tmp_path: Path) -> None:
    cause = refused(table(tmp_path, "image\na\na\na\n"))
    assert cause.startswith("row 3 has the image of row 2, row 4 has the image of row ")


@pytest.mark.parametrize("content", ["", "\n", "\n\n", b"\xef\xbb\xbf"])
def test_an_empty_table_is_refused(tmp_path: Path, content: str | bytes) -> None:
    assert refused(table(tmp_path, content))


@pytest.mark.parametrize("text", ["image\tsite\n", "image\tsite\n\n\t\n"])
def test_a_table_without_scans_is_refused(tmp_path: Path, text: str) -> None:
    assert refused(table(tmp_path, text)) == "a table without scans"


@pytest.mark.parametrize("code", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_of_unicode_are_refused(tmp_path: Path, code: str) -> None:
    path = table(tmp_path, "image\tsite\na.nii\tKöln\n".encode(code))
    assert "UTF-8" in refused(path)
    with pytest.raises(FileError, match="save it as"):
        read_scans(path)


@pytest.mark.parametrize("bad", ["Köln".encode("latin-1"), b"\xff\xfe\xff"])
def test_the_line_that_is_not_utf_8_is_named(tmp_path: Path, bad: bytes) -> None:
    content = b"image\tsite\na.nii\tBonn\nb.nii\t" + bad + b"\n"
    assert refused(table(tmp_path, content)) == "line 3 is not text in UTF-8"


def test_an_image_is_not_a_table(tmp_path: Path) -> None:
    assert refused(table(tmp_path, b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "a.nii.gz"))
    assert refused(tmp_path / "missing.tsv") == "no such file"
    assert refused(tmp_path)


# ── writing and reading ──────────────────────────────────────────────────────────────────────────

PLAIN = st.text(
    st.characters(categories=["L", "N", "Zs"], include_characters="-_.,;'#()"), min_size=1
).filter(lambda text: text == text.strip())


@given(names=st.lists(PLAIN, min_size=1, max_size=4, unique=True), site=PLAIN, age=PLAIN)
def test_a_written_table_reads_back(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], site: str, age: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    rows = [
        (str(folder / f"{name}.nii"), None if number else site, age)
        for number, name in enumerate(names)
    ]
    write_table(folder / "round.tsv", ("image", "site", "age"), rows)
    read = read_scans(folder / "round.tsv")
    assert [(scan.image, scan.site, scan.covariates["age"]) for scan in read] == rows
    assert [scan.origin for scan in read] == [f"row {n}" for n in range(2, len(names) + 2)]


def test_a_cell_with_quotation_marks_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    write_table(path, ("image", "note"), [("/a.nii", '"quoted" note'), ("/b.nii", '"open')])
    assert [scan.covariates["note"] for scan in read_scans(path)] == ['"quoted" note', '"open']


# ── names ────────────────────────────────────────────────────────────────────────────────────────


def named(*given: Sequence[str | None], folder: str = "/out") -> list[str]:
    scans = [
        Subject(f"/in/{image}", subject=subject, site=site, origin=f"row {number}")
        for number, (image, subject, site) in enumerate(given, start=2)
    ]
    study = Study(Path(folder), named_scans(scans))
    for scan in study.scans:
        kinds = {"models": ".json", "images": ".nii.gz", "maps": ".json", "figures": ".png"}
        expected = [Path(folder) / kind / (scan.name + end) for kind, end in kinds.items()]
        assert list(study.paths(scan)) == expected
        assert not {"/", "\\", "\0", "\n"} & set(scan.name)
    return [scan.name for scan in study.scans]


def test_a_scan_is_named_after_its_image() -> None:
    scans = [("x/a.nii.gz", "01", "X"), ("b.NII", "01", "X"), ("c.v2.mgz", None, None)]
    assert named(*scans) == ["a", "b", "c.v2"]


def test_scans_of_the_same_name_are_told_apart_by_subject() -> None:
    scans = [("1/t1.nii", "01", "X"), ("2/t1.nii.gz", "02", "X"), ("3/other.nii", "03", "X")]
    assert named(*scans) == ["01_t1", "02_t1", "other"]


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
        named(*scans)
    assert caught.value.path == f"/in/{scans[-1][0]}"
    assert f"row {len(scans) + 1}: " in caught.value.cause
    assert "like that of row 2" in caught.value.cause
    assert "subjects" in caught.value.hint


@pytest.mark.parametrize("odd", ODD)
def test_whatever_a_subject_is_called_files_stay_in_their_folder(odd: str) -> None:
    one, two = named(("1/a.nii", odd, None), ("2/a.nii", "plain", None))
    assert two == "plain_a"
    assert one != two
    assert one not in (".", "..")


def test_odd_file_names_stay_different() -> None:
    names = [f"{odd.replace('/', ':')}.nii" for odd in ODD] + [
        "100%25.nii",
        os.fsdecode(b"\xe9.nii"),
    ]
    assert len(set(named(*((name, None, None) for name in names)))) == len(names)


def test_scans_without_a_mask_may_get_an_automatic_one() -> None:
    scans = [Subject("/a.nii", "/m.nii"), Subject("/b.nii")]
    assert [scan.mask for scan in named_scans(scans)] == ["/m.nii", None]
    assert [scan.mask for scan in named_scans(scans, unmasked=AUTO)] == ["/m.nii", AUTO]


# ── the list of a study's scans ──────────────────────────────────────────────────────────────────


def test_the_scans_of_a_study_read_back(tmp_path: Path) -> None:
    scans = named_scans(
        [
            Subject("/in/a.nii", "/in/m.nii", tissues=TissueMaps("/c.nii", "/g.nii", "/w.nii")),
            Subject("/in/b.nii", subject="02", site="Köln", covariates={"age": "31"}),
        ]
    )
    write_study_scans(tmp_path / "scans.tsv", scans)
    read = read_study_scans(tmp_path / "scans.tsv")
    assert [scan.origin for scan in read] == ["row 2", "row 3"]
    for one, other in zip(scans, read, strict=True):
        for part in Subject.__dataclass_fields__:
            if part != "origin":
                assert getattr(one, part) == getattr(other, part), part


def test_an_automatic_mask_is_no_file_in_the_list_of_scans(tmp_path: Path) -> None:
    write_study_scans(tmp_path / "scans.tsv", named_scans([Subject("/a.nii")], unmasked=AUTO))
    (scan,) = read_study_scans(tmp_path / "scans.tsv")
    assert (scan.name, scan.mask) == ("a", None)


# ── what is not understood ───────────────────────────────────────────────────────────────────────


def test_columns_that_are_probably_misnamed_are_reported(tmp_path: Path) -> None:
    text = "image\tSites\tmasks\tage\tT2\na.nii\tX\tm.nii\t31\tb.nii\n"
    found = read_table(table(tmp_path, text))
    assert found.unused == {"Sites": "site?", "masks": "mask?", "T2": "holds images"}
    assert [warning.partition("the column ")[2] for warning in found.warnings] == [
        "'Sites' is only a covariate; rename it to 'site' if that is what it is",
        "'masks' holds images, but is not used; rename it to 'mask' if that is what it is",
        "'T2' holds images, but is not used",
    ]


def test_names_of_our_own_columns_are_reported_and_others_kept(tmp_path: Path) -> None:
    text = "image\tname\toutput\tsidecar\trecord\tage\t\na.nii\tAnn\t1\t2\t3\t31\t0\n"
    found = read_table(table(tmp_path, text))
    assert list(found.unused) == ["name", "output", "sidecar", "a column without a name"]
    assert found.scans[0].covariates == {"record": "3", "age": "31"}
    write_study_scans(tmp_path / "list.tsv", named_scans(found.scans))
    (scan,) = read_study_scans(tmp_path / "list.tsv")
    assert (scan.name, scan.sidecar) == ("a", "maps/a.json")
    assert scan.covariates == {"record": "3", "age": "31"}


@pytest.mark.parametrize("column", ["mask", "lesion", "gm"])
def test_a_cell_that_should_be_an_image_but_is_not_is_refused(tmp_path: Path, column: str) -> None:
    cause = refused(table(tmp_path, f"image\t{column}\na.nii\tm.nii\nb.nii\tyes\n"))
    assert cause == f"row 3 has the {column} 'yes', which is no image"


def test_a_lesion_mask_is_kept_in_the_list_of_scans(tmp_path: Path) -> None:
    scans = named_scans(read_scans(table(tmp_path, "image\tlesion\na.nii\tl.nii\nb.nii\t\n")))
    assert [scan.lesion for scan in scans] == [str(tmp_path / "l.nii"), None]
    write_study_scans(tmp_path / "list.tsv", scans)
    assert [s.lesion for s in read_study_scans(tmp_path / "list.tsv")] == [scans[0].lesion, None]


def test_a_file_whose_name_ends_in_a_blank_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, "image\tsite\na.nii \tX\n")
    assert read_scans(path)[0].path == str(tmp_path / "a.nii")
    (tmp_path / "a.nii ").touch()
    assert refused(path) == "row 2 names the file 'a.nii ', with a blank at its end"


def test_names_that_end_in_a_blank_are_told_apart(tmp_path: Path) -> None:
    scans = named_scans([Subject("/in/a.nii"), Subject("/in/a .nii"), Subject("/in/ a.nii")])
    assert [scan.name for scan in scans] == ["a", "a%20", "%20a"]
    write_study_scans(tmp_path / "list.tsv", scans)
    read = read_study_scans(tmp_path / "list.tsv")
    assert [scan.name for scan in read] == [scan.name for scan in scans]


@pytest.mark.parametrize("other", ["KÖLN", "Ko\u0308ln"])
def test_names_that_many_discs_take_for_one_are_told_apart_or_refused(other: str) -> None:
    assert named(("1/Köln.nii", "01", None), (f"2/{other}.nii", "02", None)) == [
        "01_Köln",
        f"02_{other}",
    ]
    with pytest.raises(FileError, match=r"like that of row 2 \(Köln\)"):
        named(("1/Köln.nii", None, None), (f"2/{other}.nii", None, None))
