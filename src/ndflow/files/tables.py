r"""Tables as text, separated by tabs or commas, with the names of the columns in the first row.

Reading is strict, for every table. A quotation mark that is not closed swallows the rows that
follow, up to the next quotation mark or the end of the file; so a cell that holds a line break is
an error. So are a row that is shorter or longer than the first, because nobody knows which columns
its cells belong to, and a column that is named twice. Rows are numbered by the line of the file
they begin in, as an editor shows it.

What was written reads back as it was, whatever text it is, and none is run by a spreadsheet. Most
text is written as it is. Two kinds are marked with an apostrophe, which makes them text in a
spreadsheet:

- ``'=1+1``: what would be taken for a formula, because it begins with ``=``, ``+``, ``-`` or ``@``
  and is no number; or begins with an apostrophe that could be taken for a mark;
- ``'\Site\u2028A``: what is empty, has blanks at its ends, or holds characters that cannot be seen
  or would end a cell or a line. All that is not ASCII, and backslashes, are then written as in
  Python.

Marks are recognised in tables of other people, too, but nothing that they are likely to write:
``'s-Hertogenbosch`` means itself.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath, new_file
from ndflow.files.model_files import read_text
from ndflow.values import first_of

MISSING = ("", "n/a")  # cells without a value, in lower case

_MAX_BYTES = 256 << 20
# Programs that split a line at commas or semicolons, too, would find a formula behind these.
_QUOTED = re.compile(r'"|[,;]\s*[=+\-@]')
_SIGNS = r"=+@\-＝＋＠－"  # spreadsheets take the full-width ones for the others
_FORMULA = re.compile(rf"[{_SIGNS}]|'[{_SIGNS}'\\]")
_MARKED = re.compile(rf"'[{_SIGNS}']")
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|nan)", re.ASCII | re.IGNORECASE)


class Table(NamedTuple):
    """The text of the cells of a table.

    Attributes
    ----------
    columns : the cells of the first row; none for an empty file.
    rows : number and cells of every other row that is not blank, one cell per column.
    """

    columns: list[str]
    rows: list[tuple[int, list[str]]]


def read_delimited(path: AnyPath) -> Table:
    """Read a table.

    Parameters
    ----------
    path : the file. Its cells are separated by tabs if its name ends with ``.tsv`` or the first
        line has one, or else by commas or semicolons, whichever the first line has more of.

    Returns
    -------
    table : its columns and rows.

    Raises
    ------
    FileError : if the file cannot be read, is not UTF-8, or its cells cannot be told apart.
    """
    text = read_text(path, max_bytes=_MAX_BYTES, hint="save it as CSV (UTF-8) or TSV")
    first = text.partition("\n")[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    if "\t" in first or Path(path).suffix.lower() == ".tsv":
        delimiter = "\t"
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines: list[tuple[int, list[str]]] = []
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            cause = f"row {number} cannot be read ({error})"
            raise FileError(path, cause, "check its quotation marks") from None
        if reader.line_num > number:
            cause = f"row {number} has a cell that goes on until line {reader.line_num}"
            hint = "check its quotation marks; a cell must not hold a line break"
            raise FileError(path, cause, hint)
        if not lines or any(cell.strip() for cell in cells):
            lines.append((number, [decoded_cell(cell) for cell in cells]))
    table = Table(lines[0][1] if lines else [], lines[1:])
    names = [name.strip() for name in table.columns]
    refuse_twice(path, names)
    faulty = [(number, len(cells)) for number, cells in table.rows if len(cells) != len(names)]
    refuse_rows(path, [f"row {n} has {count} cells instead of {len(names)}" for n, count in faulty])
    return table


def refuse_twice(path: AnyPath, names: Sequence[str]) -> None:
    """Refuse a table with two columns of the same name; any number may have none."""
    for name, count in Counter(filter(None, names)).items():
        if count > 1:
            raise FileError(path, f"row 1 names the column {name!r} twice", "rename one of them")


def refuse_rows(path: AnyPath, faults: Sequence[str]) -> None:
    """Refuse a table that has faulty rows, and name the first of them."""
    if faults:
        raise FileError(path, first_of(faults), "correct the table")


def write_table(
    path: AnyPath, columns: Sequence[str], rows: Iterable[Sequence[str | None]]
) -> None:
    """Write a tab-separated table, replacing the file if it exists; see `table_bytes`."""
    with new_file(path, force=True) as file:
        file.write(table_bytes(columns, rows))


def table_bytes(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> bytes:
    """Return what the file of a tab-separated table holds.

    None becomes ``n/a``; what a cell cannot hold, and what a spreadsheet would run, is encoded.
    """
    lines = ("\t".join(_cell(part) for part in row) for row in chain([columns], rows))
    return "".join(f"{line}\n" for line in lines).encode()


def _cell(text: str | None) -> str:
    plain = encoded_cell(text)
    return '"' + plain.replace('"', '""') + '"' if _QUOTED.search(plain) else plain


# ── cells ─────────────────────────────────────────────────────────────────────────────────────────


def encoded_cell(text: str | None) -> str:
    r"""Return a cell for a text: one line, without tabs; ``n/a`` for None.

    Examples
    --------
    >>> print(*map(encoded_cell, ["Köln", "-1.5", None, "=1+1", "a\tb"]))
    Köln -1.5 n/a '=1+1 '\a\tb
    """
    if text is None:
        return "n/a"
    if not text or not text.isprintable() or text != text.strip():
        return "'\\" + text.encode("unicode_escape").decode("ascii")
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def decoded_cell(cell: str) -> str:
    """Return the text of a cell, whoever wrote it.

    Examples
    --------
    >>> decoded_cell("'=1+1"), decoded_cell("'s-Hertogenbosch")
    ('=1+1', "'s-Hertogenbosch")
    """
    if cell.startswith("'\\"):
        with suppress(UnicodeError):
            return cell[2:].encode("ascii").decode("unicode_escape")
    return cell[1:] if _MARKED.match(cell) else cell
