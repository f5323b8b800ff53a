"""Text files: UTF-8, of bounded size.

Every text file that a user gives us is read here, so that one that is too large, binary or in
another encoding is refused with the same message everywhere.
"""

from __future__ import annotations

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.stream import open_file

__all__ = ["RIGHT_FILE", "decoded", "read_bounded", "read_text"]

RIGHT_FILE = "check that it is the right file"

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-32 begins with the first of them, too


def read_text(path: AnyPath, *, max_bytes: int, hint: str = "save it as UTF-8") -> str:
    """Read a text file.

    Parameters
    ----------
    path : the file.
    max_bytes : the largest size that is accepted.
    hint : what to try where the file is not UTF-8.

    Returns
    -------
    text : the content, without a byte order mark.

    Raises
    ------
    FileError : if the file cannot be read, is too large, or is not UTF-8.
    """
    return decoded(path, read_bounded(path, max_bytes=max_bytes), hint=hint)


def read_bounded(path: AnyPath, *, max_bytes: int) -> bytes:
    """Return the content of a file as it is; refuse one of more than `max_bytes`."""
    with open_file(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise FileError(path, f"larger than {max_bytes >> 20} MB", RIGHT_FILE)
    return content


def decoded(path: AnyPath, content: bytes, *, hint: str = "save it as UTF-8") -> str:
    """Return the content of a file as text; name the first line that is not UTF-8.

    Parameters as for `read_text`, and the content.
    """
    if content.startswith(_UTF16_MARKS) or b"\0" in content:
        raise FileError(path, "not text in UTF-8, but in UTF-16 or not text at all", hint)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileError(path, f"line {line} is not text in UTF-8", hint) from None
