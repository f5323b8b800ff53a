"""The content of files: decompressed and verified, and refused if damaged or malicious."""

import gzip
import hashlib
import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.errors import FileError
from ndflow.files.stream import gzip_writer, open_stream, sha256_of

CONTENT = np.random.default_rng(0).integers(0, 60, 200_000).astype(np.int16).tobytes()
PACKED = gzip.compress(CONTENT, mtime=0)


def stored(folder: Path, content: bytes, name: str = "x.nii.gz") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def read_bytes(path: Path) -> bytes:
    """Read a whole file, and check that its content is hashed, however it is stored."""
    with open_stream(path) as stream:
        content = stream.finish(keep=1 << 30)
    assert stream.sha256 == sha256_of(path) == hashlib.sha256(content).hexdigest()
    return content


@pytest.mark.parametrize("name", ["x.nii.gz", "x.nii"])
@pytest.mark.parametrize(
    "content",
    [
        CONTENT,
        PACKED,
        PACKED + bytes(1000),  # padding
        gzip.compress(CONTENT[:1001]) + gzip.compress(CONTENT[1001:]),
        gzip.compress(CONTENT[:7]) + bytes(200_000) + gzip.compress(CONTENT[7:]),
        # The second member begins with the last byte of a block.
        gzip.compress(CONTENT[:7]).ljust((1 << 17) - 1, b"\0") + gzip.compress(CONTENT[7:]),
    ],
    ids=["plain", "one", "padded", "members", "padding between", "split mark"],
)
def test_files_are_read_compressed_or_not_whatever_they_are_called(
    tmp_path: Path, content: bytes, name: str
) -> None:
    assert read_bytes(stored(tmp_path, content, name)) == CONTENT


def flipped(at: int) -> bytes:
    damaged = bytearray(PACKED)
    damaged[at] ^= 0x10
    return bytes(damaged)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (PACKED[:5], "cut short"),
        (PACKED[:-1], "cut short"),
        (flipped(-6), "CRC check failed"),
        (flipped(2), "damaged"),
        (PACKED + b"g", "cut short|damaged"),
        (PACKED + bytes(300_000) + b"garbage", "cut short|damaged"),
        (PACKED + PACKED[:40], "cut short"),
    ],
)
def test_damage_is_reported(tmp_path: Path, content: bytes, message: str) -> None:
    path = stored(tmp_path, content)
    with pytest.raises(FileError, match=message) as caught:
        read_bytes(path)
    assert caught.value.path == str(path)
    assert caught.value.hint


@given(at=st.integers(10, len(PACKED) - 1), bit=st.integers(0, 7))
def test_no_flipped_bit_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    damaged = bytearray(PACKED)
    damaged[at] ^= 1 << bit
    path = stored(tmp_path_factory.mktemp("flip"), bytes(damaged))
    with pytest.raises(FileError):
        read_bytes(path)


def test_more_than_the_file_can_hold_or_may_hold_is_refused(tmp_path: Path) -> None:
    packed, plain = stored(tmp_path, PACKED), stored(tmp_path, CONTENT, "x.nii")
    for path, most in ((packed, 1032 * len(PACKED)), (plain, len(CONTENT))):
        with open_stream(path) as stream:
            with pytest.raises(FileError, match="at most"):
                stream.read(most + 1, "voxels")
            assert stream.read(len(CONTENT), "voxels").tobytes() == CONTENT
            assert stream.finish() == b""
    with open_stream(packed, max_bytes=1000 + len(CONTENT)) as stream:
        with pytest.raises(FileError, match="--set max-bytes"):
            stream.read(len(CONTENT) + 1001, "voxels")
        with pytest.raises(FileError, match="ends 5 bytes before the end of its voxels"):
            stream.read(len(CONTENT) + 5, "voxels")


def test_anything_but_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("moved.nii.gz")
    (tmp_path / "a scan").symlink_to("../.git/annex/objects/Xk/3Q/MD5E-s7--0a.nii.gz")
    for name, message in [
        ("missing.nii", "no such file"),
        (".", "a folder"),
        ("pipe", "a pipe"),
        ("a\0b", "cannot be opened"),
        ("n" * 300, "cannot be opened"),
        ("link", "a link to a file that is not here; it points to moved.nii.gz"),
        ("a scan", "a link to a file that is not here; get it: datalad get '.*/a scan'"),
    ]:
        with pytest.raises(FileError, match=message):
            read_bytes(tmp_path / name)


# ── gzip ──────────────────────────────────────────────────────────────────────────────────────────


def packed(*pieces: bytes) -> bytes:
    file = io.BytesIO()
    writer = gzip_writer(file)
    for piece in pieces:
        writer.write(piece)
    writer.close()
    return file.getvalue()


def test_what_was_compressed_in_pieces_reads_back() -> None:
    noise = np.random.default_rng(1).normal(size=700_000).astype(np.float32).tobytes()
    for step in (1000, 65_536, 1 << 20, 1_500_001):
        pieces = packed(*(noise[i : i + step] for i in range(0, len(noise), step)))
        assert gzip.decompress(pieces) == noise
        # No flags (so no name), no time.
        assert pieces[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
    assert gzip.decompress(packed()) == b""
