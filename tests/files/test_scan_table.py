"""Tables of scans, as spreadsheets and people write them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.errors import FileError
from ndflow.files.scan_table import Row, escaped, read_table, write_table


def table(folder: Path, content: str | bytes, name: str = "scans.tsv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(path: Path) -> str:
    """Return why a table is refused; the message names the file and says what to try."""
    with pytest.raises(FileError) as caught:
        read_table(path)
    assert caught.value.path == str(path)
    assert caught.value.hint
    return caught.value.cause


# ── what is read ─────────────────────────────────────────────────────────────────────────────────


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
def test_rows_are_read_whatever_separates_them(
    tmp_path: Path, name: str, mark: str, end: str, bom: bytes
) -> None:
    lines = [
        ("image", "mask", "subject", "site", "gm", "wm", "csf", "age"),
        ("a.nii", "am.nii", "01", "Köln", "g.nii", "w.nii", "c.nii", "31"),
        ("b.nii", "", "02", "Bonn", "", "", "", ""),
    ]
    text = end.join(mark.join(line) for line in lines) + end
    folder = str(tmp_path)
    assert read_table(table(tmp_path, bom + text.encode(), name)) == [
        Row(
            2,
            f"{folder}/a.nii",
            f"{folder}/am.nii",
            f"{folder}/g.nii",
            f"{folder}/w.nii",
            f"{folder}/c.nii",
            subject="01",
            site="Köln",
            more={"age": "31"},
        ),
        Row(3, f"{folder}/b.nii", subject="02", site="Bonn"),
    ]


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    assert len(read_table(table(tmp_path, "image\na.nii\nb.nii"))) == 2


@pytest.mark.parametrize("name", ["site", "centre", "center", "Site", "CENTRE", " centre "])
def test_a_site_has_several_names(tmp_path: Path, name: str) -> None:
    (row,) = read_table(table(tmp_path, f"{name}\timage\nBonn\ta.nii\n"))
    assert (row.site, row.more) == ("Bonn", {})


def test_the_names_of_known_columns_may_be_large(tmp_path: Path) -> None:
    (row,) = read_table(table(tmp_path, "Image,Mask,Subject,Age\na.nii,m.nii,01,31\n", "x.csv"))
    assert (row.mask, row.subject) == (str(tmp_path / "m.nii"), "01")
    assert row.more == {"Age": "31"}  # what we do not know stays as it is


@pytest.mark.parametrize("nothing", ["", "n/a", "N/A", "  ", " n/a "])
def test_an_empty_cell_is_nothing(tmp_path: Path, nothing: str) -> None:
    text = (
        f"image\tmask\tsubject\tsite\tgm\tage\na.nii{''.join(f'	{nothing}' for _ in range(5))}\n"
    )
    assert read_table(table(tmp_path, text)) == [Row(2, str(tmp_path / "a.nii"))]


@pytest.mark.parametrize("mark", [",", "\t", ";"])
def test_a_quoted_cell_may_hold_what_separates_cells(tmp_path: Path, mark: str) -> None:
    text = f'"image"{mark}"site"{mark}note\n"a{mark}b.nii"{mark}"St. ""X"""{mark}5" coil\n'
    (row,) = read_table(table(tmp_path, text, "x.csv"))
    assert Path(row.image).name == f"a{mark}b.nii"
    assert row.site == 'St. "X"'
    assert row.more == {"note": '5" coil'}


def test_blank_lines_do_not_count_but_rows_keep_the_numbers_of_their_lines(tmp_path: Path) -> None:
    text = "image\tsite\n\na.nii\tX\n\t\n  \t \nb.nii\tY\n\n\n"
    rows = read_table(table(tmp_path, text))
    assert [(row.number, row.site) for row in rows] == [(3, "X"), (6, "Y")]


def test_blanks_around_cells_do_not_count(tmp_path: Path) -> None:
    (row,) = read_table(table(tmp_path, "image , site, age\n a.nii , Bonn , 31 \n", "x.csv"))
    assert row == Row(2, str(tmp_path / "a.nii"), site="Bonn", more={"age": "31"})


def test_paths_are_relative_to_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    text = f"image\tmask\n../a.nii\t{tmp_path}/elsewhere/m.nii\nb.nii\tn/a\n"
    path = table(tmp_path / "deep", text)
    one, two = read_table(path)
    assert Path(one.image) == tmp_path / "deep" / ".." / "a.nii"
    assert one.mask == f"{tmp_path}/elsewhere/m.nii"
    monkeypatch.chdir(tmp_path)
    one, two = read_table("deep/scans.tsv")
    assert [Path(row.image).absolute() for row in (one, two)] == [
        tmp_path / "deep" / ".." / "a.nii",
        tmp_path / "deep" / "b.nii",
    ]


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("scan\tsite\na.nii\tX\n", r"row 1 names no column 'image' (its columns: scan, site)"),
        ("a.nii\tX\nb.nii\tY\n", "row 1 names no column 'image' (its columns: a.nii, X)"),
        ("image,site\na.nii,X\n", "row 1 names no column 'image' (its columns: image,site)"),
        ("image\tsite\tsite\na\tX\tX\n", "row 1 names the column 'site' twice"),
        ("image\tsite\tCenter\na\tX\tX\n", "row 1 names the column 'site' twice"),
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
def test_a_wrong_row_is_named(tmp_path: Path, text: str, cause: str) -> None:
    assert cause in refused(table(tmp_path, text))


def test_who_names_site_and_site_is_told_that_they_are_the_same(tmp_path: Path) -> None:
    assert "'site' is the same" in refused(table(tmp_path, "image\tsite\tsite\na\tX\tX\n"))


def test_all_wrong_rows_are_named_but_not_hundreds(tmp_path: Path) -> None:
    cause = refused(table(tmp_path, "image\tsite\na\tX\nb\n\tX\na\tX\n"))
    assert cause == (
        "row 3 has 1 cells instead of 2, row 4 names no image, row 5 has the image of row 2"
    )
    cause = refused(table(tmp_path, "image\tsite\n" + "b\n" * 300))
    assert "row 2 " in cause
    assert cause.endswith(", and 295 more")
    assert len(cause) < 300


def test_an_image_three_times_is_that_of_a_row_before(tmp_path: Path) -> None:
    cause = refused(table(tmp_path, "image\na\na\na\n"))
    assert cause.startswith("row 3 has the image of row 2, row 4 has the image of row ")


@pytest.mark.parametrize("content", ["", "\n", "\n\n", b"\xef\xbb\xbf"])
def test_an_empty_table_is_refused(tmp_path: Path, content: str | bytes) -> None:
    assert refused(table(tmp_path, content))


@pytest.mark.parametrize("text", ["image\tsite\n", "image\tsite\n\n\t\n"])
def test_a_table_without_scans_is_refused(tmp_path: Path, text: str) -> None:
    assert refused(table(tmp_path, text)) == "a table without scans"


@pytest.mark.parametrize("code", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_unicode_is_refused_with_advice(tmp_path: Path, code: str) -> None:
    path = table(tmp_path, "image\tsite\na.nii\tKöln\n".encode(code))
    assert "UTF-8" in refused(path)
    with pytest.raises(FileError, match="save it as"):
        read_table(path)


@pytest.mark.parametrize("bad", ["Köln".encode("latin-1"), b"\xff\xfe\xff"])
def test_text_that_is_not_utf_8_is_named_by_its_row(tmp_path: Path, bad: bytes) -> None:
    content = b"image\tsite\na.nii\tBonn\nb.nii\t" + bad + b"\n"
    assert refused(table(tmp_path, content)) == "row 3 is not text in UTF-8"


def test_an_image_is_not_a_table(tmp_path: Path) -> None:
    assert refused(table(tmp_path, b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "a.nii.gz"))
    assert refused(tmp_path / "missing.tsv") == "no such file"
    assert refused(tmp_path)


@pytest.mark.parametrize("rows", [3, 30_000])
@pytest.mark.parametrize("line", ['"b.nii\tX', 'b.nii\t"X'])
def test_a_quote_that_is_not_closed_is_named_by_its_row(
    tmp_path: Path, line: str, rows: int
) -> None:
    # It swallows the rest of the table: scans that nobody would miss, or too much for a escaped.
    text = f"image\tsite\na.nii\tX\n{line}\n" + "".join(f"{n}.nii\tX\n" for n in range(rows))
    assert "row 3" in refused(table(tmp_path, text))


# ── what is written ──────────────────────────────────────────────────────────────────────────────

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"'), max_size=8)


@given(rows=st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=5))
def test_a_table_has_a_line_for_each_row_and_a_cell_for_each_column(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str | None]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.tsv"
    write_table(path, ("one", "two"), rows)
    content = path.read_bytes()
    lines = content.split(b"\n")
    assert b"\r" not in content
    assert lines[0] == b"one\ttwo"
    assert lines[-1] == b""
    assert [line.count(b"\t") for line in lines[:-1]] == [1] * (len(rows) + 1)
    assert [tuple(line.decode().split("\t")) for line in lines[1:-1]] == [
        (escaped(one), escaped(two)) for one, two in rows
    ]


def test_what_cannot_stand_in_a_cell_is_escaped() -> None:
    assert escaped("Köln 脳") == "Köln 脳"
    assert escaped(None) == escaped("") == "n/a"
    assert escaped("a\tb\nc\rd") == "a\\tb\\nc\\rd"
    assert escaped("caf\udce9") == "caf\\udce9"  # the name of a file that is not UTF-8


PLAIN = st.text(
    st.characters(categories=["L", "N", "Zs"], include_characters="-_.,;'#()"), min_size=1
).filter(lambda text: text == text.strip())


@given(names=st.lists(PLAIN, min_size=1, max_size=4, unique=True), site=PLAIN, age=PLAIN)
def test_a_table_that_was_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], site: str, age: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    rows = [
        (str(folder / f"{name}.nii"), None if number else site, age)
        for number, name in enumerate(names)
    ]
    write_table(folder / "round.tsv", ("image", "site", "age"), rows)
    read = read_table(folder / "round.tsv")
    assert [(row.image, row.site, row.more["age"]) for row in read] == rows
    assert [row.number for row in read] == list(range(2, len(names) + 2))


def test_a_cell_that_begins_with_a_quote_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    write_table(path, ("image", "note"), [("/a.nii", '"quoted" note'), ("/b.nii", '"open')])
    assert [row.more["note"] for row in read_table(path)] == ['"quoted" note', '"open']


def test_a_table_replaces_another_at_once(tmp_path: Path) -> None:
    path = table(tmp_path, "old\n")

    def rows():
        yield ("a",)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(path, ("name",), rows())
    assert path.read_text() == "old\n"
    write_table(path, ("name",), [("a",)])
    assert path.read_text() == "name\na\n"
    assert list(tmp_path.iterdir()) == [path]
