"""Where the scans of a BIDS dataset were made, as its tables say.

``participants.tsv`` has a row a subject, ``sub-01/sub-01_sessions.tsv`` one a session. What is said
of a session counts more; where it is ``n/a``, what is said of the subject holds.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ndflow.bids.names import VALIDATOR
from ndflow.errors import FileError
from ndflow.files.stream import open_file

__all__ = ["Sites"]

_USUAL = ("site", "centre", "center", "site_id")
_NOTHING = ("", "n/a")
_LARGEST = 256 << 20


class Sites:
    """The sites of a dataset.

    Parameters
    ----------
    root : its folder.
    column : what the column with the sites is called; by default one of the usual names.
    """

    def __init__(self, root: Path, column: str | None = None) -> None:
        self._root, self._column = root, column
        self._seen: dict[str, None] = {}  # columns, in their order
        self._said: dict[str, dict[str, str]] = {}
        self._table = root / "participants.tsv"
        self._subjects = self._read(self._table, "participant_id", "sub-")
        self._sessions: dict[str, dict[str, list[str]]] = {}

    def of(self, subject: str, session: str | None) -> str | None:
        """Return the site of a session, if that is known, or else of the subject."""
        if session is not None:
            table = self._root / f"sub-{subject}" / f"sub-{subject}_sessions.tsv"
            if subject not in self._sessions:
                self._sessions[subject] = self._read(table, "session_id", "ses-")
            if site := _only(table, session, self._sessions[subject]):
                return site
        return _only(self._table, subject, self._subjects)

    def said_of(self, subject: str) -> Mapping[str, str]:
        """Return what ``participants.tsv`` says of a subject, besides the site."""
        return self._said.get(subject, {})

    def check(self) -> None:
        """Refuse a column that none of the tables has which were read so far."""
        if self._column is not None and self._column not in self._seen:
            there = f"its columns: {', '.join(self._seen)}" if self._seen else "there is no table"
            cause = f"no column {self._column!r} ({there})"
            raise FileError(self._table, cause, "name another with --site-column")

    def _read(self, table: Path, key: str, prefix: str) -> dict[str, list[str]]:
        """Return the different sites by label; of a table that does not exist, none."""
        if not os.path.lexists(table):
            return {}
        columns, *rows = _rows(table) or [[]]
        self._seen.update(dict.fromkeys(columns))
        if key not in columns:
            cause = f"no column {key!r} (its columns: {', '.join(columns) or 'none'})"
            raise FileError(table, cause, f"separate the columns by tabs; {VALIDATOR}")
        column = self._site_column(columns)
        sites: dict[str, list[str]] = {}
        for row in rows:
            cells = dict(zip(columns, row, strict=False))
            site = cells.get(column, "") if column else ""
            label = cells.get(key, "").removeprefix(prefix)
            if table == self._table:
                own = self._said.setdefault(label, {})
                for name, cell in cells.items():
                    if name not in ("", key, column) and cell.lower() not in _NOTHING:
                        own.setdefault(name, cell)
            known = sites.setdefault(label, [])
            if site.lower() not in _NOTHING and site not in known:
                known.append(site)
        return sites

    def _site_column(self, columns: Sequence[str]) -> str | None:
        if self._column is not None:
            return self._column
        return next((name for usual in _USUAL for name in columns if name.lower() == usual), None)


def _only(table: Path, label: str, sites: dict[str, list[str]]) -> str | None:
    known = sites.get(label, [])
    if len(known) > 1:
        hint = "name the site of each session in sub-…_sessions.tsv, once"
        raise FileError(table, f"{label} has two sites, {known[0]} and {known[1]}", hint)
    return known[0] if known else None


def _rows(table: Path) -> list[list[str]]:
    """Return the cells of a table, which may come from a spreadsheet."""
    with open_file(table) as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        hint = "check that it is the right file"
        raise FileError(table, f"larger than {_LARGEST >> 20} MB", hint)
    try:
        lines = io.StringIO(content.decode("utf-8-sig"), newline="")
        return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter="\t")]
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileError(table, f"row {line} is not text in UTF-8", "save it as UTF-8") from None
    except csv.Error as error:
        raise FileError(table, f"not a table ({error})", "save it as TSV, in UTF-8") from None
