"""Tables of scans: one a row, tab- or comma-separated, with the names of the columns on top.

``image`` is needed; ``subject``, ``site`` (or ``centre``), ``mask``, ``gm``, ``wm`` and ``csf`` are
known; others are kept as they are, for example ``age``. Paths are relative to the table. An empty
cell and ``n/a`` mean that there is nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath, new_file
from ndflow.files.stream import open_file

__all__ = ["Row", "escaped", "read_table", "write_table"]

_FILES = ("image", "mask", "gm", "wm", "csf")
_TEXTS = ("subject", "site")
_SAME = {"centre": "site", "center": "site"}
_NOTHING = ("", "n/a")
_ESCAPED = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})
_LARGEST = 256 << 20
_SHOWN = 5  # wrong rows in one message


_NO_MORE: Mapping[str, str] = MappingProxyType({})  # one for all rows, of which there may be many


@dataclass(frozen=True, slots=True)
class Row:
    """One scan of a table.

    Attributes
    ----------
    number : of its line in the file; the line of names is the first.
    image, mask, gm, wm, csf : absolute paths; of the last three, maps of a tissue's probability.
    subject, site : who was scanned, and where.
    more : the other columns.
    """

    number: int
    image: str
    mask: str | None = None
    gm: str | None = None
    wm: str | None = None
    csf: str | None = None
    subject: str | None = None
    site: str | None = None
    more: Mapping[str, str] = field(default_factory=lambda: _NO_MORE)

    @property
    def tissue_maps(self) -> tuple[str, str, str] | None:
        """Return the maps of CSF, GM and WM, if there are all three."""
        if self.csf is None or self.gm is None or self.wm is None:
            return None
        return self.csf, self.gm, self.wm


def read_table(path: AnyPath) -> list[Row]:
    """Read a table of scans. Whether their files exist is not looked at."""
    text = _text(path)
    cut = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(path, text), strict=True)
    lines: list[tuple[int, list[str]]] = []
    while True:
        number = cut.line_num + 1
        try:
            lines.append((number, next(cut)))
        except StopIteration:
            break
        except csv.Error as error:
            cause = f"row {number} cannot be read ({error})"
            raise FileError(path, cause, "check its quotation marks") from None
    names = _names(path, lines[0][1] if lines else [])
    folder = Path(path).absolute().parent
    rows, wrong = [], []
    seen: dict[str, int] = {}
    for number, cells in lines[1:]:
        if not any(cell.strip() for cell in cells):
            continue  # an empty line
        if len(cells) != len(names):
            wrong.append(f"row {number} has {len(cells)} cells instead of {len(names)}")
            continue
        row = _row(folder, number, names, cells)
        if row is None:
            wrong.append(f"row {number} names no image")
            continue
        if row.image in seen:
            wrong.append(f"row {number} has the image of row {seen[row.image]}")
        seen[row.image] = number
        rows.append(row)
    if wrong:
        more = f", and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise FileError(path, ", ".join(wrong[:_SHOWN]) + more, "correct the table")
    if not rows:
        raise FileError(path, "a table without scans", "give one a row, below the names of columns")
    return rows


def write_table(
    path: AnyPath, columns: Sequence[str], rows: Iterable[Sequence[str | None]]
) -> None:
    """Write a tab-separated table, in place of one that was there.

    None becomes ``n/a``; tabs and ends of lines within a cell are escaped.
    """
    with new_file(path, force=True) as file:
        for row in chain([columns], rows):
            file.write("\t".join(_cell(part) for part in row).encode() + b"\n")


def escaped(text: str | None) -> str:
    """Return a text as it is read from a table that we wrote: in one line, and without tabs."""
    plain = (text or "n/a").translate(_ESCAPED)
    return plain.encode("utf-8", "backslashreplace").decode()


def _cell(text: str | None) -> str:
    plain = escaped(text)
    return '"' + plain.replace('"', '""') + '"' if '"' in plain else plain


def _row(folder: Path, number: int, names: Sequence[str], cells: Sequence[str]) -> Row | None:
    given = {
        name: cell.strip()
        for name, cell in zip(names, cells, strict=True)
        if cell.strip().lower() not in _NOTHING
    }
    files = {name: str(folder / given[name]) for name in _FILES if name in given}
    texts = {name: given[name] for name in _TEXTS if name in given}
    more = {name: part for name, part in given.items() if name not in (*_FILES, *_TEXTS)}
    return Row(number, **files, **texts, more=more or _NO_MORE) if "image" in files else None


def _names(path: AnyPath, first: Sequence[str]) -> list[str]:
    """Return what the columns are called, in our spelling."""
    given = [name.strip() for name in first]
    names = [
        _SAME.get(name.lower(), name.lower() if name.lower() in (*_FILES, *_TEXTS) else name)
        for name in given
    ]
    if "image" not in names:
        found = ", ".join(name for name in given if name) or "none"
        cause = f"row 1 names no column 'image' (its columns: {found})"
        raise FileError(path, cause, "name the columns in the first row, tab- or comma-separated")
    for name in names:
        if name and names.count(name) > 1:
            also = " ('centre' is the same)" if name == "site" else ""
            raise FileError(path, f"row 1 names the column {name!r} twice{also}", "remove one")
    return names


def _delimiter(path: AnyPath, text: str) -> str:
    """Return what separates the cells: tabs, unless the first line has none of them."""
    first = text.partition("\n")[0]
    if "\t" in first or Path(path).suffix.lower() == ".tsv":
        return "\t"
    return ";" if first.count(";") > first.count(",") else ","


def _text(path: AnyPath) -> str:
    with open_file(path) as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise FileError(path, f"larger than {_LARGEST >> 20} MB", "check that it is the right file")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in content:
        raise FileError(path, "not a text in UTF-8", "save it as CSV (UTF-8) or TSV")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileError(path, f"row {line} is not text in UTF-8", "save it as UTF-8") from None
