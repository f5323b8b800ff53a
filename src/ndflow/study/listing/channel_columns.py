"""Tables with one column of images per channel: each channel by itself is a table of scans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.tables import MISSING, Table
from ndflow.scan.channels.channel_subject import NAME
from ndflow.study.listing.columns import FILES, OURS, TEXTS

__all__ = ["check_channel_names", "table_of_channel"]

_TAKEN = {*FILES, *TEXTS, *OURS, "centre", "center", "exclude"} - {"image"}
_FEWEST = 2


def check_channel_names(names: Sequence[str]) -> None:
    """Refuse names that cannot be those of channels, the same name twice, and a single one."""
    for name in names:
        if not re.fullmatch(NAME, name):
            raise InvalidValueError(
                f"--channels: {name!r} is not a name of letters, digits, _, + and -; rename the "
                f"column, for example to T1w"
            )
        if name.lower() in _TAKEN:
            raise InvalidValueError(
                f"--channels: the column {name!r} has another meaning; name columns of images"
            )
    if len({name.lower() for name in names}) < len(names):
        raise InvalidValueError(f"--channels: {' '.join(names)}: the same twice; leave one out")
    if len(names) < _FEWEST:
        raise InvalidValueError(
            f"--channels: {names[0]} alone; for one channel, call its column image and give "
            f"--channel {names[0]}"
        )


def table_of_channel(path: AnyPath, table: Table, channel: str, channels: Sequence[str]) -> Table:
    """Return the table of one channel: its column becomes ``image``, those of others go.

    Parameters
    ----------
    path : the table, for messages.
    table : its cells.
    channel : the channel.
    channels : all of them.

    Raises
    ------
    FileError : if a channel has no column, or a row has one file for two channels.
    """
    columns = [name.strip() for name in table.columns]
    for name in channels:
        if name not in columns:
            raise _no_column(path, name, columns)
    dropped = {columns.index(name) for name in channels if name != channel}
    if channel != "image":
        dropped |= {place for place, name in enumerate(columns) if name.lower() == "image"}
    kept = [place for place in range(len(columns)) if place not in dropped]
    own = columns.index(channel)
    for number, cells in table.rows:
        for name in channels:
            cell = cells[columns.index(name)].strip()
            same = name != channel and cell == cells[own].strip()
            if same and cell.lower() not in MISSING:
                cause = f"row {number} has one file for the channels {channel} and {name}"
                raise FileError(path, cause, "give each channel a file of its own")
    return Table(
        ["image" if place == own else table.columns[place] for place in kept],
        [(number, [cells[place] for place in kept]) for number, cells in table.rows],
    )


def _no_column(path: AnyPath, name: str, columns: Sequence[str]) -> FileError:
    named = [one for one in columns if one]
    lower = {one.lower(): one for one in named}
    close = get_close_matches(name.lower(), lower, 1)
    cause = f"row 1 names no column {name!r} (its columns: {', '.join(named) or 'none'})"
    hint = f"give one column of images per channel, called like the channel: {name}"
    if close:
        hint = f"is it {lower[close[0]]}? Names must agree, letter by letter"
    return FileError(path, cause, hint)
