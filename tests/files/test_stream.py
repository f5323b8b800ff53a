"""The content of files: decompressed and verified, and refused if damaged or malicious."""

import gzip
import hashlib
import io
import os
import tracemalloc
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
    """Read a whole file, and check that it is hashed as it is stored."""
    with open_stream(path) as stream:
        content = stream.finish(keep=1 << 30)
    assert stream.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    return content


@pytest.mark.parametrize("name", ["x.nii.gz", "x.nii", "x.bin"])
@pytest.mark.parametrize(
    "content",
    [
        PACKED,
        PACKED + bytes(1000),  # padding
        gzip.compress(CONTENT[:1001]) + gzip.compress(CONTENT[1001:]),
        gzip.compress(CONTENT[:7]) + bytes(200_000) + gzip.compress(CONTENT[7:]),
        # The second member begins with the last byte of a block.
        gzip.compress(CONTENT[:7]).ljust((1 << 17) - 1, b"\0") + gzip.compress(CONTENT[7:]),
    ],
    ids=["one", "padded", "members", "padding between", "split mark"],
)
def test_gzip_files_are_decompressed(tmp_path: Path, content: bytes, name: str) -> None:
    assert read_bytes(stored(tmp_path, content, name)) == CONTENT


@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
def test_uncompressed_files_are_read_as_they_are(tmp_path: Path, name: str) -> None:
    assert read_bytes(stored(tmp_path, CONTENT, name)) == CONTENT


def flipped(at: int) -> bytes:
    damaged = bytearray(PACKED)
    damaged[at] ^= 0x10
    return bytes(damaged)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (PACKED[:5], "cut short"),
        (PACKED[: len(PACKED) // 2], "cut short"),
        (PACKED[:-8], "cut short"),
        (PACKED[:-1], "cut short"),
        (flipped(-6), "checksum"),
        (flipped(-2), "damaged"),
        (flipped(len(PACKED) // 2), "damaged"),
        (flipped(2), "damaged"),
        (PACKED + b"g", "cut short|damaged"),
        (PACKED + b"garbage" * 9, "cut short|damaged"),
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


def test_a_decompression_bomb_is_stopped_and_costs_no_memory(tmp_path: Path) -> None:
    path = stored(tmp_path, gzip.compress(bytes(80 << 20), 1))
    tracemalloc.start()
    with open_stream(path, max_bytes=40 << 20) as stream:
        stream.read(100, "header")
        with pytest.raises(FileError, match="--set max-bytes"):
            stream.finish()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


def test_no_memory_is_allocated_for_more_than_the_file_can_hold(tmp_path: Path) -> None:
    packed, plain = stored(tmp_path, PACKED), stored(tmp_path, CONTENT, "x.nii")
    for path, most in ((packed, 1032 * len(PACKED)), (plain, len(CONTENT))):
        with open_stream(path) as stream:
            with pytest.raises(FileError, match="at most"):
                stream.read(most + 1, "voxels")
            with pytest.raises(FileError, match="at most"):
                stream.read(10**15, "voxels")
            assert stream.read(len(CONTENT), "voxels").tobytes() == CONTENT
            assert stream.finish() == b""


def test_a_file_with_too_few_bytes_is_refused(tmp_path: Path) -> None:
    with (
        open_stream(stored(tmp_path, PACKED)) as stream,
        pytest.raises(FileError, match="ends 5 bytes before the end of its voxels"),
    ):
        stream.read(len(CONTENT) + 5, "voxels")


def test_the_size_limit_is_checked_before_reading(tmp_path: Path) -> None:
    with (
        open_stream(stored(tmp_path, PACKED), max_bytes=1000) as stream,
        pytest.raises(FileError, match="--set max-bytes"),
    ):
        stream.read(1001, "voxels")


def test_anything_but_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in [
        ("missing.nii", "no such file"),
        (".", "a folder"),
        ("pipe", "a pipe"),
        ("a\0b", "cannot be opened"),
        ("n" * 300, "cannot be opened"),
    ]:
        with pytest.raises(FileError, match=message):
            read_bytes(tmp_path / name)


def test_a_broken_link_is_reported(tmp_path: Path) -> None:
    link = tmp_path / "scan.nii.gz"
    link.symlink_to("moved.nii.gz")
    with pytest.raises(FileError, match="a link to a file that is not here") as caught:
        read_bytes(link)
    assert caught.value.path == str(link)
    assert "moved.nii.gz" in caught.value.hint
    assert "datalad" not in caught.value.hint
    stored(tmp_path, PACKED, "moved.nii.gz")
    assert read_bytes(link) == CONTENT


@pytest.mark.parametrize(("name", "quoted"), [("scan.nii.gz", "{}"), ("a scan.nii.gz", "'{}'")])
def test_the_error_for_an_annexed_file_says_how_to_get_it(
    tmp_path: Path, name: str, quoted: str
) -> None:
    link = tmp_path / name
    link.symlink_to("../../.git/annex/objects/Xk/3Q/MD5E-s7--0a.nii.gz/MD5E-s7--0a.nii.gz")
    with pytest.raises(FileError, match="a link to a file that is not here") as caught:
        sha256_of(link)
    assert caught.value.hint == f"get it: datalad get {quoted.format(link)}"


def test_the_hash_is_that_of_the_compressed_file(tmp_path: Path) -> None:
    path = stored(tmp_path, PACKED)
    assert sha256_of(path) == hashlib.sha256(PACKED).hexdigest()
    with pytest.raises(FileError, match="no such file"):
        sha256_of(tmp_path / "missing")


# ── gzip: the same content gives the same bytes ───────────────────────────────────────────────────


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
