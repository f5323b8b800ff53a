"""Text files: UTF-8 with or without a byte order mark, of bounded size, and nothing else."""

import tracemalloc
from pathlib import Path

import pytest

from ndflow.errors import FileError
from ndflow.files.model_files import decoded, read_bounded, read_text

LIMIT = 1 << 20


def stored(folder: Path, content: bytes) -> Path:
    path = folder / "x.txt"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("text", ["", "Köln\r\n脳\n", "\u2028\x85"])
def test_utf_8_is_read_without_its_byte_order_mark(tmp_path: Path, mark: bytes, text: str) -> None:
    assert read_text(stored(tmp_path, mark + text.encode()), max_bytes=LIMIT) == text


@pytest.mark.parametrize("code", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_of_unicode_are_recognised(tmp_path: Path, code: str) -> None:
    path = stored(tmp_path, "image".encode(code))
    with pytest.raises(
        FileError, match=r"not text in UTF-8.*UTF-16.*; save it as UTF-8$"
    ) as caught:
        read_text(path, max_bytes=LIMIT)
    assert caught.value.path == str(path)


def test_the_line_of_the_first_bad_byte_is_named(tmp_path: Path) -> None:
    content = b"a\nb\n" + "Köln".encode("latin-1") + b"\n\xff"
    with pytest.raises(FileError, match=r"line 3 is not text in UTF-8; ask again$"):
        read_text(stored(tmp_path, content), max_bytes=LIMIT, hint="ask again")
    with pytest.raises(FileError, match="x: line 1 is not text"):
        decoded("x", b"\xc3")


def test_the_size_is_bounded(tmp_path: Path) -> None:
    path = stored(tmp_path, b"x" * LIMIT)
    assert len(read_bounded(path, max_bytes=LIMIT)) == LIMIT
    with path.open("r+b") as file:
        file.truncate(100 * LIMIT)
    tracemalloc.start()
    with pytest.raises(FileError, match=r"larger than 1 MB; check that it is the right file$"):
        read_text(path, max_bytes=LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * LIMIT


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        read_text(tmp_path / "missing", max_bytes=LIMIT)
