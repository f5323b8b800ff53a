"""The sites of a BIDS dataset and its covariates, from its tables.

``participants.tsv`` has one row per subject, ``sub-01/sub-01_sessions.tsv`` one per session. The
site of a session takes precedence, and so do its other columns, such as the age at that session;
where they are ``n/a``, those of the subject hold.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.tables import MISSING, read_delimited, refuse_rows
from ndflow.study.bids_names import VALIDATOR

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
        self._more: dict[tuple[str, str | None], dict[str, str]] = {}  # of subject and session
        self._table = root / "participants.tsv"
        self._subjects = self._read(self._table)
        self._sessions: dict[str, dict[str, list[str]]] = {}

    def of(self, subject: str, session: str | None) -> str | None:
        """Return the site of a session, or else of its subject; None if neither is known."""
        site = None
        if session is not None:
            site = _only(self._of_sessions(subject), session, self._visits(subject))
        return site or _only(self._table, subject, self._subjects)

    def more_of(self, subject: str, session: str | None) -> Mapping[str, str]:
        """Return the other columns of both tables for a session, if not ``n/a``."""
        own = self._more.get((subject, None), {})
        if session is None:
            return own
        self._visits(subject)
        return own | self._more.get((subject, session), {})

    def check(self) -> None:
        """Raise a FileError if none of the tables read so far has the column that was asked for."""
        if self._column is not None and self._column not in self._seen:
            there = f"its columns: {', '.join(self._seen)}" if self._seen else "there is no table"
            cause = f"no column {self._column!r} ({there})"
            raise FileError(self._table, cause, "name another with --site-column")

    def _of_sessions(self, subject: str) -> Path:
        return self._root / f"sub-{subject}" / f"sub-{subject}_sessions.tsv"

    def _visits(self, subject: str) -> dict[str, list[str]]:
        """Return the sites of each session of a subject."""
        if subject not in self._sessions:
            self._sessions[subject] = self._read(self._of_sessions(subject), subject)
        return self._sessions[subject]

    def _read(self, table: Path, subject: str | None = None) -> dict[str, list[str]]:
        """Return the distinct sites of each label in a table, which need not exist.

        It is the table of the sessions of a subject, or, without one, that of all subjects.
        """
        key, prefix = ("participant_id", "sub-") if subject is None else ("session_id", "ses-")
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
            whose = (label, None) if subject is None else (subject, label)
            own = self._more.setdefault(whose, {})
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
