"""The columns of a table of scans: those that are known, and what others may have been meant to be.

``image`` is required; ``subject``, ``site``, ``mask``, ``lesion``, ``gm``, ``wm`` and ``csf`` are
known, in upper or lower case. Any other column is a covariate; but one that is named almost like a
known column, or that holds images, was probably meant to be used. A table with several channels has
one column of images per channel instead of ``image``, called like the channel.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.tables import MISSING, Table
from ndflow.image.read import kind_of
from ndflow.scan.channels.channel_subject import NAME

__all__ = [
    "FILES",
    "OURS",
    "TEXTS",
    "check_channel_names",
    "column_names",
    "is_image",
    "misunderstood",
    "nearest",
    "table_of_channel",
]

FILES = ("image", "mask", "lesion", "gm", "wm", "csf")
TEXTS = ("subject", "site")
OURS = ("name", "output", "sidecar")  # columns of OUT/scans.tsv that we add

_OTHER_MEANING = {*FILES, *TEXTS, *OURS} - {"image"}  # no names of channels
_FEWEST = 2  # channels
_IMAGES = (".nii", ".mgh", ".hdr", ".img")
_CLOSE = 0.84  # "masks" is near "mask", but "task", "side" and "age" are near nothing


def column_names(path: AnyPath, first: Sequence[str]) -> list[str]:
    """Return the names of the columns; those that are known in lower case.

    Parameters
    ----------
    path : the table, for messages.
    first : the cells of its first row.
    """
    given = [name.strip() for name in first]
    names = [name.lower() if name.lower() in (*FILES, *TEXTS) else name for name in given]
    if "image" not in names:
        found = ", ".join(name for name in given if name) or "none"
        cause = f"row 1 names no column 'image' (its columns: {found})"
        close = next((name for name in given if nearest(name) == "image"), None)
        hint = (
            "rename the column of images, or name the columns of several channels with --channels"
            if close is None
            else f"rename {close!r} to 'image'"
        )
        raise FileError(path, cause, hint)
    for name in names:
        if name and names.count(name) > 1:
            raise FileError(path, f"row 1 names the column {name!r} twice", "remove one")
    return names


def nearest(name: str) -> str | None:
    """Return the known column that another may have been meant to be; None if there is none.

    >>> nearest("Masks"), nearest("sites"), nearest("age")
    ('mask', 'site', None)
    """
    word = re.sub(r"[\W_]", "", name.lower())
    known = [one for one in (*FILES, *TEXTS) if len(one) > 3]
    return next(iter(get_close_matches(word, known, 1, _CLOSE)), None)


def is_image(cell: str) -> bool:
    """Tell whether a cell is the name of an image."""
    return kind_of(cell) in _IMAGES


def misunderstood(name: str, cells: Collection[str], known: Collection[str]) -> bool:
    """Tell whether a covariate looks as if it was meant to be something else.

    That is so if it holds images, or is named like a subject or a site that the table lacks. Other
    numbers and words, such as the volume of a lesion, are covariates whatever their name.

    Parameters
    ----------
    name : of the column.
    cells : its values.
    known : the known columns that the table has.
    """
    meant = nearest(name)
    return any(map(is_image, cells)) or (meant in TEXTS and meant not in known)


def check_channel_names(names: Sequence[str]) -> None:
    """Refuse names that cannot be those of channels, the same name twice, and a single one."""
    for name in names:
        if not re.fullmatch(NAME, name):
            raise InvalidValueError(
                f"--channels: {name!r} is not a name of letters, digits, _, + and -; rename the "
                f"column, for example to T1w"
            )
        if name.lower() in _OTHER_MEANING:
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
