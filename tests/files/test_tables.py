"""Delimited tables: read strictly, with numbered rows, and written so that they read back."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ndflow.errors import FileError
from ndflow.files.tables import Table, read_delimited, write_table


def table(folder: Path, content: str, name: str = "x.tsv") -> Path:
    path = folder / name
    path.write_bytes(content.encode())
    return path


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.tsv", "a\tb\n1\t2,;\n"),
        ("x.csv", "a\tb\n1\t2,;\n"),
        ("x.csv", 'a,b\n1,"2,;"\n'),
        ("x.csv", 'a;b\n1;"2,;"\n'),
    ],
)
def test_the_delimiter_is_found_in_the_first_line(tmp_path: Path, name: str, content: str) -> None:
    assert read_delimited(table(tmp_path, content, name)) == Table(["a", "b"], [(2, ["1", "2,;"])])


@pytest.mark.parametrize("name", ["x.tsv", "X.TSV"])
def test_a_tsv_file_is_separated_by_tabs(tmp_path: Path, name: str) -> None:
    assert read_delimited(table(tmp_path, "a,b\n1,2\n", name)) == Table(["a,b"], [(2, ["1,2"])])


def test_a_delimiter_may_be_given(tmp_path: Path) -> None:
    path = table(tmp_path, "a,b\n1,2\n", "x.csv")
    assert read_delimited(path, delimiter="\t") == Table(["a,b"], [(2, ["1,2"])])


def test_cells_are_kept_as_they_are(tmp_path: Path) -> None:
    path = table(tmp_path, "a\t b \n 1\t\n\t2\n")
    assert read_delimited(path) == Table(["a", " b "], [(2, [" 1", ""]), (3, ["", "2"])])


def test_a_row_of_another_length_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, "a\tb\n1\t2\n\n3\n4\t5\t6\n")
    expected = "row 4 has 1 cells instead of 2, row 5 has 3 cells instead of 2; correct the table"
    with pytest.raises(FileError, match=expected):
        read_delimited(path)


def test_a_column_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="row 1 names the column 'a' twice"):
        read_delimited(table(tmp_path, "a\tb\ta \n1\t2\t3\n"))
    columns = read_delimited(table(tmp_path, "\ta\t\n1\t2\t3\n")).columns
    assert columns == ["", "a", ""]  # the index of a spreadsheet has no name


@pytest.mark.parametrize(
    "lines", ['b\t"X\nc\tX\nd\t"X', 'b\t"X\nc\tX\nd\tX"', '"b\nc"\tX'], ids=repr
)
def test_a_quotation_mark_that_is_closed_in_a_later_row_is_refused(
    tmp_path: Path, lines: str
) -> None:
    with pytest.raises(FileError, match=r"row 3 .*quotation marks"):
        read_delimited(table(tmp_path, f"a\tb\n1\tX\n{lines}\ne\tX\n"))


def test_rows_are_numbered_by_the_line_they_begin_in(tmp_path: Path) -> None:
    path = table(tmp_path, 'a\tb\n\n"1"\t2\n \t \n3\t4\n')
    assert read_delimited(path).rows == [(3, ["1", "2"]), (5, ["3", "4"])]


@pytest.mark.parametrize("content", ["", "\n", "\ufeff", "\n\n"])
def test_an_empty_file_has_neither_columns_nor_rows(tmp_path: Path, content: str) -> None:
    assert read_delimited(table(tmp_path, content)) == Table([], [])


@pytest.mark.parametrize("rows", [3, 30_000])
@pytest.mark.parametrize("line", ['"b\tX', 'b\t"X', '"b"b\tX'])
def test_quotation_marks_that_do_not_match_are_reported_with_their_row(
    tmp_path: Path, line: str, rows: int
) -> None:
    # One that is never closed swallows all rows that follow, and exceeds the longest cell allowed.
    path = table(tmp_path, f"a\tb\n1\tX\n{line}\n" + "".join(f"{n}\tX\n" for n in range(rows)))
    with pytest.raises(FileError, match=r"row 3 cannot be read.*quotation marks") as caught:
        read_delimited(path)
    assert caught.value.path == str(path)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────

ODD = "\0\t\n\x0b\x0c\r\x1c\x1e\x7f\x85\xa0\u1680\u2003\u200b\u2028\u2029\u3000\ufeff\ud800\udce9"
PLAIN = "aé脳0.eE/n'\"\\=+-@＝,; "
TEXT = st.text(st.sampled_from(ODD + PLAIN), max_size=8) | st.text(
    st.characters(exclude_categories=()), max_size=8
)
CELL = st.none() | TEXT


@settings(max_examples=400)
@given(
    columns=st.lists(TEXT, min_size=2, max_size=4, unique_by=str.strip),
    more=st.lists(CELL, min_size=1, max_size=12),
)
@example(columns=["\ufeffa", ""], more=["", ""])
@example(columns=["a", "b"], more=["n/a", "'n/a", "'\\n/a", "''=x", "'s-Hertogenbosch", "'"])
def test_any_text_reads_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, columns: list[str], more: list[str | None]
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.tsv"
    rows = [[cell, *["x"] * (len(columns) - 1)] for cell in more]
    write_table(path, columns, rows)
    texts = [["n/a" if cell is None else cell for cell in row] for row in rows]
    assert read_delimited(path) == Table(columns, list(enumerate(texts, 2)))


@given(rows=st.lists(st.tuples(CELL, CELL), max_size=5))
def test_a_table_has_one_line_per_row_and_one_cell_per_column(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str | None, str | None]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.tsv"
    write_table(path, ("one", "two"), rows)
    content = path.read_bytes()
    lines = content.decode().splitlines()  # also at U+2028, vertical tabs and the like
    assert lines[0] == "one\ttwo"
    assert len(lines) == content.count(b"\n") == len(rows) + 1
    assert [line.count("\t") for line in lines] == [1] * len(lines)
    assert content.decode().replace("\n", "").replace("\t", "").isprintable()


@given(text=TEXT)
def test_no_cell_begins_like_a_formula_unless_it_is_a_number(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "formula.tsv"
    write_table(path, ("one", "two"), [(text, text)])
    for cell in path.read_text("utf-8").splitlines()[1].split("\t"):
        if cell.lstrip().startswith(tuple("=+-@＝＋－＠")):
            float(cell)
        # A program that splits at commas and semicolons, too, still sees one quoted cell.
        if any(part.lstrip()[:1] in tuple("=+-@") for part in re.split("[,;]", cell)[1:]):
            assert cell[0] == cell[-1] == '"'


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("Köln 脳", "Köln 脳"),
        (None, "n/a"),
        ("n/a", "n/a"),
        ("", "'\\"),
        ("a\tb\nc\rd\\", r"'\a\tb\nc\rd\\"),
        (r"C:\new", r"C:\new"),
        ("caf\udce9", r"'\caf\udce9"),  # the name of a file that is not UTF-8
        (" a ", r"'\ a\x20"),
        ("=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0"),
        ("+49 241", "'+49 241"),
        ("-v", "'-v"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", r"'\\t=1"),
        ("-1.5", "-1.5"),
        ("+2e-07", "+2e-07"),
        ("-inf", "-inf"),
        ("'s-Hertogenbosch", "'s-Hertogenbosch"),
        ("'=x", "''=x"),
        ("a;=x", '"a;=x"'),
    ],
)
def test_cells_as_they_are_written(tmp_path: Path, text: str | None, cell: str) -> None:
    write_table(tmp_path / "x.tsv", ("one",), [(text,)])
    assert (tmp_path / "x.tsv").read_text("utf-8") == f"one\n{cell}\n"


def test_marks_are_recognised_in_tables_of_others(tmp_path: Path) -> None:
    path = table(tmp_path, "a\tb\n'=x\t's-Hertogenbosch\n")
    assert read_delimited(path).rows == [(2, ["=x", "'s-Hertogenbosch"])]


def test_an_escape_that_no_character_has_means_itself(tmp_path: Path) -> None:
    (row,) = read_delimited(table(tmp_path, "a\n'\\\\Uffffffff\n")).rows
    assert row == (2, ["\\Uffffffff"])


def test_a_table_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = table(tmp_path, "old\n")

    def rows() -> Iterator[tuple[str]]:
        yield ("a",)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(path, ("name",), rows())
    assert path.read_text() == "old\n"
    write_table(path, ("name",), [("a",)])
    assert path.read_text() == "name\na\n"
    assert list(tmp_path.iterdir()) == [path]
