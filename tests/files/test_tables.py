"""Delimited tables: read strictly, with numbered rows, and written so that they read back."""

import re
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


def test_rows_of_another_length_and_columns_of_the_same_name_are_refused(tmp_path: Path) -> None:
    expected = "row 4 has 1 cells instead of 2, row 5 has 3 cells instead of 2; correct the table"
    with pytest.raises(FileError, match=expected):
        read_delimited(table(tmp_path, "a\tb\n1\t2\n\n3\n4\t5\t6\n"))
    with pytest.raises(FileError, match="row 1 names the column 'a' twice"):
        read_delimited(table(tmp_path, "a\tb\ta \n1\t2\t3\n"))
    columns = read_delimited(table(tmp_path, "\ta\t\n1\t2\t3\n")).columns
    assert columns == ["", "a", ""]  # the index of a spreadsheet has no name


def test_rows_are_numbered_by_lines_and_cells_kept_but_for_marks(tmp_path: Path) -> None:
    path = table(tmp_path, "a\t b \n\n\"1\"\t 2\n \t \n'=x\t's-Hertogenbosch\n\t'\\\\Uffffffff\n")
    rows = [(3, ["1", " 2"]), (5, ["=x", "'s-Hertogenbosch"]), (6, ["", "'\\\\Uffffffff"])]
    assert read_delimited(path) == Table(["a", " b "], rows)


@pytest.mark.parametrize("line", ['"b\tX', 'b\t"X', '"b"b\tX', '"b\nc"\tX', 'b\t"X\nc\tX\nd\tX"'])
def test_quotation_marks_that_do_not_match_are_reported_with_their_row(
    tmp_path: Path, line: str
) -> None:
    # One that is never closed swallows all rows that follow, and exceeds the longest cell allowed.
    path = table(tmp_path, f"a\tb\n1\tX\n{line}\n" + "".join(f"{n}\tX\n" for n in range(30_000)))
    with pytest.raises(FileError, match=r"row 3 .*quotation marks") as caught:
        read_delimited(path)
    assert caught.value.path == str(path)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────

ODD = "\0\t\n\x0b\x0c\r\x1c\x1e\x7f\x85\xa0\u1680\u2003\u200b\u2028\u2029\u3000\ufeff\ud800\udce9"
PLAIN = "aé脳0.eE/n'\"\\=+-@＝,; "
TEXT = st.text(st.sampled_from(ODD + PLAIN), max_size=8) | st.text(
    st.characters(exclude_categories=()), max_size=8
)
CELL = st.none() | TEXT


@settings(max_examples=60)
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


@settings(max_examples=60)
@given(text=TEXT)
def test_a_row_is_one_line_and_no_cell_begins_like_a_formula_unless_it_is_a_number(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "formula.tsv"
    write_table(path, ("one", "two"), [(text, text)])
    _, line = path.read_text("utf-8").splitlines()  # also at U+2028, vertical tabs and the like
    assert line.replace("\t", "", 1).isprintable()
    for cell in line.split("\t"):
        if cell.lstrip().startswith(tuple("=+-@＝＋－＠")):
            float(cell)
        # A program that splits at commas and semicolons, too, still sees one quoted cell.
        if any(part.lstrip()[:1] in tuple("=+-@") for part in re.split("[,;]", cell)[1:]):
            assert cell[0] == cell[-1] == '"'


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        (None, "n/a"),
        ("a\tb\nc\rd\\", r"'\a\tb\nc\rd\\"),
        ("caf\udce9", r"'\caf\udce9"),  # the name of a file that is not UTF-8
        (" ä", r"'\ \xe4"),
        ("=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0"),
        ("+2e-07", "+2e-07"),
        ("'s-Hertogenbosch", "'s-Hertogenbosch"),
        ("a;=x", '"a;=x"'),
    ],
)
def test_cells_as_they_are_written(tmp_path: Path, text: str | None, cell: str) -> None:
    write_table(tmp_path / "x.tsv", ("one",), [(text,)])
    assert (tmp_path / "x.tsv").read_text("utf-8") == f"one\n{cell}\n"
