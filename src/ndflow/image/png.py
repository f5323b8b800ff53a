"""Grey PNG files of 8 bits, and the notes in them: all of the format that previews need.

Grey 0 is transparent, so that whatever grey window a page chooses, the background is that of the
page. A note is a JSON object in a chunk of text, by which a file is known to be ours.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.stream import open_file

__all__ = ["Greys", "decode_png", "encode_png", "is_ours"]

Greys = NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEYWORD = b"ndflow\0"
_SUB = 1  # the filter: each pixel less its left neighbour
_LEVEL = 1  # of compression: others take longer, and save a twentieth
_MOST = 1 << 28  # pixels that a file may claim to have


def encode_png(greys: Greys, note: dict[str, Any] | None = None) -> bytes:
    """Return a picture as a PNG file.

    Parameters
    ----------
    greys : (height, width), the grey of each pixel; 0 is transparent.
    note : to be kept in the file.

    Examples
    --------
    >>> decode_png(encode_png(np.array([[0, 9]], np.uint8), {"a": 1}), "a.png")
    (array([[0, 9]], dtype=uint8), {'a': 1})
    """
    height, width = greys.shape
    rows = np.empty((height, width + 1), np.uint8)
    rows[:, 0] = _SUB
    rows[:, 1] = greys[:, 0]
    np.subtract(greys[:, 1:], greys[:, :-1], out=rows[:, 2:])
    parts = [_SIGNATURE, _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))]
    if note is not None:
        parts.append(_chunk(b"tEXt", _KEYWORD + json.dumps(note).encode("ascii")))
    parts.append(_chunk(b"tRNS", b"\0\0"))
    parts.append(_chunk(b"IDAT", zlib.compress(rows.tobytes(), _LEVEL)))
    return b"".join([*parts, _chunk(b"IEND", b"")])


def decode_png(content: bytes, path: AnyPath) -> tuple[Greys, dict[str, Any]]:
    """Return the picture and the note in a PNG file that we wrote.

    Parameters
    ----------
    content : of the file.
    path : of the file, for messages.

    Raises
    ------
    FileError : if the file is not one of ours, or is damaged.
    """
    try:
        chunks = _chunks(content)
        width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
        if not 0 < width * height <= _MOST:
            raise ValueError("size")
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(chunks[b"IDAT"], (width + 1) * height)
        rows = np.frombuffer(data, np.uint8).reshape(height, width + 1)
        if not (rows[:, 0] == _SUB).all():
            raise ValueError("filter")
        note = json.loads(chunks[b"tEXt"].removeprefix(_KEYWORD))
        if not isinstance(note, dict):
            raise ValueError("note")
    except (KeyError, ValueError, struct.error, zlib.error) as error:
        cause = "not a picture that ndflow wrote, or damaged"
        raise FileError(path, cause, "remove it, and run the study again") from error
    return np.cumsum(rows[:, 1:], axis=1, dtype=np.uint8), note


def is_ours(path: AnyPath) -> bool:
    """Tell whether a file is a picture that we wrote, and complete."""
    try:
        with open_file(path) as file:
            chunks = _chunks(file.read(_MOST))
    except (FileError, ValueError, struct.error):
        return False
    return chunks.get(b"tEXt", b"").startswith(_KEYWORD) and b"IEND" in chunks


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _chunks(content: bytes) -> dict[bytes, bytes]:
    """Return the chunks of a file; those of a kind that occurs repeatedly are joined."""
    if not content.startswith(_SIGNATURE):
        raise ValueError("signature")
    found: dict[bytes, bytes] = {}
    place = len(_SIGNATURE)
    while place < len(content):
        (length,) = struct.unpack_from(">I", content, place)
        kind, data = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        (checksum,) = struct.unpack_from(">I", content, place + 8 + length)
        if zlib.crc32(kind + data) != checksum:
            raise ValueError("checksum")
        found[kind] = found.get(kind, b"") + data
        place += 12 + length
    return found
