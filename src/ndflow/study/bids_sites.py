"""The sites of a BIDS dataset and its covariates, from its tables.

``participants.tsv`` has one row per subject, ``sub-01/sub-01_sessions.tsv`` one per session. The
site of a session takes precedence, and so do its other columns, such as the age at that session;
where they are ``n/a``, those of the subject hold.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.tables import MISSING, read_delimited, refuse_rows
from ndflow.study.bids_names import VALIDATOR

_USUAL = ("site", "centre", "center", "site_id")
_PREFIXES = {"participant_id": "sub-", "session_id": "ses-"}


class _Row(NamedTuple):
    """What a table says about a subject or a session: its sites, which may be several, and more."""

    sites: list[str]
    more: dict[str, str]


class Sites:
    """The sites of a dataset.

    Parameters
    ----------
    root : the folder of the dataset.
    column : the column with the sites; by default ``site``, ``centre``, ``center`` or ``site_id``.
    """

    def __init__(self, root: Path, column: str | None = None) -> None:
        self._root, self._column = root, column
        self._table = root / "participants.tsv"
        self._columns: dict[str, None] = {}  # of all tables, in order
        self._rows: dict[Path, dict[str, _Row]] = {}

    def of(self, subject: str, session: str | None) -> tuple[str | None, dict[str, str]]:
        """Return the site of a session or else of its subject, if known, and the other columns."""
        tables = [(self._table, "participant_id", subject)]
        if session is not None:
            visits = self._root / f"sub-{subject}" / f"sub-{subject}_sessions.tsv"
            tables.insert(0, (visits, "session_id", session))
        site: str | None = None
        more: dict[str, str] = {}
        for table, key, label in tables:
            if table not in self._rows:
                self._rows[table] = self._read(table, key)
            row = self._rows[table].get(label, _Row([], {}))
            if site is None and len(row.sites) > 1:
                cause = f"{label} has two sites, {row.sites[0]} and {row.sites[1]}"
                hint = "name the site of each session in sub-…_sessions.tsv, once"
                raise FileError(table, cause, hint)
            site = site or next(iter(row.sites), None)
            more = row.more | more
        return site, more

    def check(self) -> None:
        """Raise a FileError if none of the tables read so far has the column that was asked for."""
        if self._column is not None and self._column not in self._columns:
            names = ", ".join(self._columns)
            there = f"its columns: {names}" if names else "there is no table"
            cause = f"no column {self._column!r} ({there})"
            raise FileError(self._table, cause, "name another with --site-column")

    def _read(self, table: Path, key: str) -> dict[str, _Row]:
        """Return what a table, which need not exist, says about each label in a column."""
        if not os.path.lexists(table):
            return {}
        header, rows = read_delimited(table, delimiter="\t")
        columns = [name.strip() for name in header]
        self._columns.update(dict.fromkeys(columns))
        if key not in columns:
            cause = f"no column {key!r} (its columns: {', '.join(columns) or 'none'})"
            raise FileError(table, cause, f"separate the columns by tabs; {VALIDATOR}")
        usual = (name for word in _USUAL for name in columns if name.lower() == word)
        of_site = self._column or next(usual, None)
        found: dict[str, _Row] = {}
        faults = []
        for number, row in rows:
            cells = dict(zip(columns, map(str.strip, row), strict=True))
            label = cells[key].removeprefix(_PREFIXES[key])
            if label.lower() in MISSING:
                faults.append(f"row {number} has no {key}")
            sites, more = found.setdefault(label, _Row([], {}))
            for name, cell in cells.items():
                if name in ("", key) or cell.lower() in MISSING:
                    continue
                if name == of_site:
                    sites += [cell] if cell not in sites else []
                elif more.setdefault(name, cell) != cell:
                    faults.append(f"row {number} gives {cells[key]} another {name}")
        refuse_rows(table, faults)
        return found
