"""Compression: the same content gives the same bytes."""

import gzip
import io

import numpy as np

from ndflow.files.stream import gzip_writer


def packed(*pieces: bytes) -> bytes:
    file = io.BytesIO()
    with gzip_writer(file) as writer:
        for piece in pieces:
            writer.write(piece)
    return file.getvalue()


def test_compression_does_not_depend_on_how_the_data_are_split() -> None:
    noise = np.random.default_rng(1).normal(size=700_000).astype(np.float32).tobytes()
    whole = packed(noise)
    assert gzip.decompress(whole) == noise
    for step in (1000, 65_536, 1 << 20, 1_500_001):
        assert packed(*(noise[i : i + step] for i in range(0, len(noise), step))) == whole
    # No flags (so no name), no time.
    assert whole[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"


def test_compressing_nothing_gives_a_valid_gzip_file() -> None:
    assert gzip.decompress(packed()) == b""
