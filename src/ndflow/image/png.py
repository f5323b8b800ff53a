"""PNG files of 8 bits, and the notes in them: all of the format that previews need.

In grey pictures 0 is transparent, so that whatever grey window a page chooses, the background is
that of the page. Pictures in colour have a palette. A note is a JSON object in a chunk of text, by
which a file is known to be ours.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.stream import open_file

__all__ = ["Greys", "decode_png", "encode_palette", "encode_png", "is_ours"]

Greys = NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEYWORD = b"ndflow\0"
_GREY, _PALETTE = 0, 3  # what the pixels mean
_SUB, _UP = 1, 2  # the filters: each pixel less its left neighbour, or the one above
_LEVEL = 1  # of compression of grey pictures: others save a twentieth, and take longer
_SMALLEST = 9  # of compression of pictures in colour
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
    rows = _rows(greys, _SUB)
    np.subtract(greys[:, 1:], greys[:, :-1], out=rows[:, 2:])
    return _file(
        greys.shape, _GREY, [(b"tRNS", b"\0\0")], zlib.compress(rows.tobytes(), _LEVEL), note
    )


def encode_palette(
    numbers: Greys, palette: Sequence[str], note: dict[str, Any] | None = None
) -> bytes:
    """Return a picture in colour as a PNG file.

    Parameters
    ----------
    numbers : (height, width), the number of the colour of each pixel.
    palette : the colours, at most 256, each as ``#rrggbb``.
    note : to be kept in the file.
    """
    colours = b"".join(bytes.fromhex(colour.removeprefix("#")) for colour in palette)
    rows = _rows(numbers, _UP)
    np.subtract(numbers[1:], numbers[:-1], out=rows[1:, 1:])
    packed = zlib.compress(rows.tobytes(), _SMALLEST)
    return _file(numbers.shape, _PALETTE, [(b"PLTE", colours)], packed, note)


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


def _rows(pixels: Greys, kind: int) -> NDArray[np.uint8]:
    """Return pixels with the filter before each row."""
    height, width = pixels.shape
    rows = np.empty((height, width + 1), np.uint8)
    rows[:, 0] = kind
    rows[:, 1:] = pixels
    return rows


def _file(
    shape: tuple[int, ...],
    colour: int,
    chunks: list[tuple[bytes, bytes]],
    packed: bytes,
    note: dict[str, Any] | None,
) -> bytes:
    height, width = shape
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    text = [] if note is None else [(b"tEXt", _KEYWORD + json.dumps(note).encode("ascii"))]
    parts = [(b"IHDR", head), *text, *chunks, (b"IDAT", packed), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


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
