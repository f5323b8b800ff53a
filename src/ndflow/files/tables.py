"""Tables as text, separated by tabs or commas, with the names of the columns in the first row.

Reading is strict: a quotation mark that is never closed would swallow the rows that follow, so it
is an error. Rows are numbered by the line of the file they begin in, as an editor shows it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath, new_file
from ndflow.files.text import read_text

__all__ = ["MISSING", "Table", "escaped", "read_delimited", "write_table"]

MISSING = ("", "n/a")  # cells without a value, in lower case

_MAX_BYTES = 256 << 20
_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Table(NamedTuple):
    """The cells of a table, as they stand in the file.

    Attributes
    ----------
    columns : the cells of the first row; none for an empty file.
    rows : number and cells of every other row that is not blank. Rows may differ in length.
    """

    columns: list[str]
    rows: list[tuple[int, list[str]]]


def read_delimited(path: AnyPath, *, delimiter: str | None = None) -> Table:
    """Read a table.

    Parameters
    ----------
    path : the file.
    delimiter : what separates the cells. By default a tab if the name of the file ends with
        ``.tsv`` or the first line has one, or else a comma or a semicolon, whichever the first line
        has more of.

    Returns
    -------
    table : its columns and rows.

    Raises
    ------
    FileError : if the file cannot be read, is not UTF-8, or its quotation marks do not match.
    """
    text = read_text(path, max_bytes=_MAX_BYTES, hint="save it as CSV (UTF-8) or TSV")
    mark = _delimiter(path, text) if delimiter is None else delimiter
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    lines: list[tuple[int, list[str]]] = []
    while True:
        number = reader.line_num + 1
        try:
            lines.append((number, next(reader)))
        except StopIteration:
            break
        except csv.Error as error:
            cause = f"row {number} cannot be read ({error})"
            raise FileError(path, cause, "check its quotation marks") from None
    columns = lines[0][1] if lines else []
    return Table(columns, [line for line in lines[1:] if any(cell.strip() for cell in line[1])])


def write_table(
    path: AnyPath, columns: Sequence[str], rows: Iterable[Sequence[str | None]]
) -> None:
    """Write a tab-separated table, replacing the file if it exists.

    None becomes ``n/a``; tabs and line breaks within a cell are escaped.
    """
    with new_file(path, force=True) as file:
        for row in chain([columns], rows):
            file.write("\t".join(_cell(part) for part in row).encode() + b"\n")


def escaped(text: str | None) -> str:
    """Return a text as it is read back from a table that we wrote: one line, without tabs."""
    plain = (text or "n/a").translate(_ESCAPES)
    return plain.encode("utf-8", "backslashreplace").decode()


def _cell(text: str | None) -> str:
    plain = escaped(text)
    return '"' + plain.replace('"', '""') + '"' if '"' in plain else plain


def _delimiter(path: AnyPath, text: str) -> str:
    first = text.partition("\n")[0]
    if "\t" in first or Path(path).suffix.lower() == ".tsv":
        return "\t"
    return ";" if first.count(";") > first.count(",") else ","
