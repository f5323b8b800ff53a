"""Model files: they read back exactly, and anything else is refused."""

import hashlib
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.model_files import model_bytes, read_bounded, read_model, read_text
from ndflow.files.stream import FileHash

finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
TAKEN = ("format", "version", "kind", "ndflow", "checksum")
names = st.text().filter(lambda name: name not in TAKEN)


@given(payload=st.dictionaries(names, plain, max_size=4), kind=st.sampled_from(["mixture", "map"]))
def test_a_model_reads_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, payload: dict[str, Any], kind: str
) -> None:
    path = tmp_path_factory.mktemp("model") / "m.json"
    path.write_bytes(model_bytes(kind, payload))
    content = path.read_bytes()
    assert model_bytes(kind, payload) == content
    file = FileHash(str(path), hashlib.sha256(content).hexdigest())
    assert read_model(path, "mixture", "map") == (kind, payload, file)
    path.write_bytes(b"\xef\xbb\xbf" + content)
    assert read_model(path).payload == payload


def test_the_checksum_covers_everything_except_the_command(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(model_bytes("map", {"command": "ndflow", "value": 1.5}))
    path.write_text(path.read_text().replace('"command": "ndflow"', '"command": "other"'))
    assert read_model(path).payload == {"command": "other", "value": 1.5}
    path.write_text(path.read_text().replace("1.5", "1.25"))
    with pytest.raises(FileError, match="not what its checksum says"):
        read_model(path)


def test_file_names_that_are_not_utf_8_survive(tmp_path: Path) -> None:
    payload = {"command": ["ndflow", os.fsdecode(b"caf\xe9.nii")], "é": {"x": [[1.5], []]}}
    (tmp_path / "m.json").write_bytes(model_bytes("map", payload))
    assert read_model(tmp_path / "m.json").payload == payload


@pytest.mark.parametrize("payload", [{"version": 3}, {"a": float("nan")}, {"a": {1, 2}}])
def test_invalid_models_are_not_written(payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=r"names version|as JSON"):
        model_bytes("map", payload)


def model(**changes: Any) -> bytes:
    return json.dumps({"format": "ndflow", "version": 2, "kind": "map"} | changes).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not JSON .*line 1, column 2"),
        (b"[]", "not a model of ndflow"),
        (model(format="other"), "not a model of ndflow"),
        (model(version=3), "version is 3, but this version of ndflow reads 2"),
        (model(kind="mixture"), "of the kind 'mixture', where 'map' or 'reference' is expected"),
        (model(a=float("nan")), "holds NaN"),
        (model(a=0).replace(b": 0", b": 1e999"), "holds 1e999"),
        (model(a=0).replace(b": 0", b": " + b"9" * 5000), "digits"),
        (model(a=0, b=1).replace(b'"b"', b'"a"'), "the same name twice"),
        (model(a=0, checksum="0"), "its content is not what its checksum says"),
        (model(a=0).replace(b": 0", b": " + b"[" * 100_000 + b"]" * 100_000), "nested too deep"),
        (b"\x1f\x8b\x08\x00", "UTF-8"),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message) as caught:
        read_model(path, "map", "reference")
    assert caught.value.path == str(path)
    assert caught.value.hint


# ── text: UTF-8, of bounded size ──────────────────────────────────────────────────────────────────


LIMIT = 1 << 20


def test_text_is_utf_8_and_the_first_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"a\nb\n" + "Köln".encode("latin-1") + b"\n\xff")
    with pytest.raises(FileError, match=r"line 3 is not text in UTF-8; ask again$"):
        read_text(path, max_bytes=LIMIT, hint="ask again")
    for code in ("utf-16", "utf-16-le", "utf-32"):
        path.write_bytes("image".encode(code))
        with pytest.raises(FileError, match=r"not text in UTF-8.*UTF-16.*; save it as UTF-8$"):
            read_text(path, max_bytes=LIMIT)
    text = "Köln\r\n脳\n\u2028\x85"
    path.write_bytes(text.encode("utf-8-sig"))
    assert read_text(path, max_bytes=LIMIT) == text


def test_the_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"x" * LIMIT)
    assert len(read_bounded(path, max_bytes=LIMIT)) == LIMIT
    with path.open("r+b") as file:
        file.truncate(100 * LIMIT)
    tracemalloc.start()
    with pytest.raises(FileError, match=r"larger than 1 MB; check that it is the right file$"):
        read_text(path, max_bytes=LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * LIMIT
