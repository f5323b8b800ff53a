"""Delimited tables: read strictly, with numbered rows, and written so that they read back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.errors import FileError
from ndflow.files.tables import Table, escaped, read_delimited, write_table


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


def test_cells_are_kept_as_they_are_and_rows_may_differ_in_length(tmp_path: Path) -> None:
    path = table(tmp_path, "a\t b \n 1\n\t2\tx\n")
    assert read_delimited(path) == Table(["a", " b "], [(2, [" 1"]), (3, ["", "2", "x"])])


def test_rows_are_numbered_by_the_line_they_begin_in(tmp_path: Path) -> None:
    path = table(tmp_path, 'a\tb\n\n"1\n1"\t2\n \t \n3\t4\n')
    assert read_delimited(path).rows == [(3, ["1\n1", "2"]), (6, ["3", "4"])]


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

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"'), max_size=8)


@given(rows=st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=5))
def test_a_table_has_one_line_per_row_and_one_cell_per_column(
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


@given(cells=st.lists(st.text("a\"'\t\n\r \u2028é", min_size=1), min_size=1, max_size=4))
def test_what_was_written_reads_back_escaped(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.tsv"
    columns = [f"c{number}" for number in range(len(cells))]
    write_table(path, columns, [["x", *cells[1:]]])
    expected = ["x", *map(escaped, cells[1:])]
    assert read_delimited(path) == Table(columns, [(2, expected)])


def test_what_a_cell_cannot_hold_is_escaped() -> None:
    assert escaped("Köln 脳") == "Köln 脳"
    assert escaped(None) == escaped("") == "n/a"
    assert escaped("a\tb\nc\rd") == "a\\tb\\nc\\rd"
    assert escaped("caf\udce9") == "caf\\udce9"  # the name of a file that is not UTF-8


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
