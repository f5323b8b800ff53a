"""The sites of a BIDS dataset, from its tables.

``participants.tsv`` has one row per subject, ``sub-01/sub-01_sessions.tsv`` one per session. The
site of a session takes precedence; where it is ``n/a``, that of the subject holds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ndflow.bids.names import VALIDATOR
from ndflow.errors import FileError
from ndflow.files.tables import MISSING, read_delimited, refuse_rows

__all__ = ["Sites"]

_USUAL = ("site", "centre", "center", "site_id")


class Sites:
    """The sites of a dataset.

    Parameters
    ----------
    root : the folder of the dataset.
    column : the column with the sites; by default ``site``, ``centre``, ``center`` or ``site_id``.
    """

    def __init__(self, root: Path, column: str | None = None) -> None:
        self._root, self._column = root, column
        self._seen: dict[str, None] = {}  # all columns, in order
        self._more: dict[str, dict[str, str]] = {}
        self._table = root / "participants.tsv"
        self._subjects = self._read(self._table, "participant_id", "sub-")
        self._sessions: dict[str, dict[str, list[str]]] = {}

    def of(self, subject: str, session: str | None) -> str | None:
        """Return the site of a session, or else of its subject; None if neither is known."""
        if session is not None:
            table = self._root / f"sub-{subject}" / f"sub-{subject}_sessions.tsv"
            if subject not in self._sessions:
                self._sessions[subject] = self._read(table, "session_id", "ses-")
            if site := _only(table, session, self._sessions[subject]):
                return site
        return _only(self._table, subject, self._subjects)

    def more_of(self, subject: str) -> Mapping[str, str]:
        """Return the other columns of ``participants.tsv`` for a subject, if not ``n/a``."""
        return self._more.get(subject, {})

    def check(self) -> None:
        """Raise a FileError if none of the tables read so far has the column that was asked for."""
        if self._column is not None and self._column not in self._seen:
            there = f"its columns: {', '.join(self._seen)}" if self._seen else "there is no table"
            cause = f"no column {self._column!r} ({there})"
            raise FileError(self._table, cause, "name another with --site-column")

    def _read(self, table: Path, key: str, prefix: str) -> dict[str, list[str]]:
        """Return the distinct sites of each label in a table, which need not exist."""
        if not os.path.lexists(table):
            return {}
        header, rows = read_delimited(table, delimiter="\t")
        columns = [name.strip() for name in header]
        self._seen.update(dict.fromkeys(columns))
        if key not in columns:
            cause = f"no column {key!r} (its columns: {', '.join(columns) or 'none'})"
            raise FileError(table, cause, f"separate the columns by tabs; {VALIDATOR}")
        column = self._site_column(columns)
        sites: dict[str, list[str]] = {}
        faults = []
        for number, row in rows:
            cells = dict(zip(columns, map(str.strip, row), strict=True))
            site = cells.get(column, "") if column else ""
            label = cells[key].removeprefix(prefix)
            if label.lower() in MISSING:
                faults.append(f"row {number} has no {key}")
            if table == self._table:
                own = self._more.setdefault(label, {})
                for name, cell in cells.items():
                    if name in ("", key, column) or cell.lower() in MISSING:
                        continue
                    if own.setdefault(name, cell) != cell:
                        faults.append(f"row {number} gives {cells[key]} another {name}")
            known = sites.setdefault(label, [])
            if site.lower() not in MISSING and site not in known:
                known.append(site)
        refuse_rows(table, faults)
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
