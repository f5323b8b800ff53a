"""Model files: they read back exactly, and anything else is refused and never run."""

import hashlib
import json
import os
import pickle  # noqa: TID251  # to check that it is refused
import tracemalloc
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.fingerprints import FileHash
from ndflow.files.model_files import (
    decoded,
    model_bytes,
    read_bounded,
    read_model,
    read_text,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
names = st.text().filter(lambda name: name not in ("format", "version", "kind", "ndflow"))


@given(payload=st.dictionaries(names, plain, max_size=4), kind=st.sampled_from(["mixture", "map"]))
def test_a_model_reads_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, payload: dict[str, Any], kind: str
) -> None:
    path = tmp_path_factory.mktemp("model") / "m.json"
    path.write_bytes(model_bytes(kind, payload))
    file = FileHash(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    assert read_model(path, "mixture", "map") == (kind, payload, file)
    assert read_model(path) == (kind, payload, file)


def test_format_version_kind_and_ndflow_version_are_written(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_bytes(model_bytes("reference", {"scans": 3, "name": "é"}))
    content = (tmp_path / "m.json").read_bytes()
    assert json.loads(content) == {
        "format": "ndflow",
        "version": 2,
        "kind": "reference",
        "ndflow": version("ndflow"),
        "scans": 3,
        "name": "é",
    }
    (tmp_path / "n.json").write_bytes(model_bytes("reference", {"scans": 3, "name": "é"}))
    assert (tmp_path / "n.json").read_bytes() == content


def test_file_names_that_are_not_utf_8_survive(tmp_path: Path) -> None:
    payload = {"command": ["ndflow", os.fsdecode(b"caf\xe9.nii")], "é": {"x": [[1.5], []]}}
    (tmp_path / "m.json").write_bytes(model_bytes("map", payload))
    assert read_model(tmp_path / "m.json").payload == payload


@pytest.mark.parametrize(
    ("kind", "payload", "message"),
    [
        ("map", {"version": 3, "kind": "x"}, "names kind, version"),
        ("map", {"a": float("nan")}, "JSON"),
        ("map", {"a": [float("inf")]}, "JSON"),
        ("map", {"a": {1, 2}}, "JSON"),
    ],
)
def test_invalid_models_are_not_written(kind: str, payload: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        model_bytes(kind, payload)


def model(**changes: Any) -> bytes:
    return json.dumps({"format": "ndflow", "version": 2, "kind": "map"} | changes).encode()


def nested(depth: int) -> bytes:
    return model(a=0).replace(b'"a": 0', b'"a": ' + b"[" * depth + b"0" + b"]" * depth)


class Trap:
    def __reduce__(self) -> Any:
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON .*line 1, column 2"),
        (b"hello", "not JSON"),
        (b"[]", "not a model of ndflow"),
        (b'"ndflow"', "not a model of ndflow"),
        (b"{}", "not a model of ndflow"),
        (model(format="other"), "not a model of ndflow"),
        (model(version=3), "version is 3, but this version of ndflow reads 2"),
        (model(version=1), "version is 1, but"),
        (model(version="2"), "version is '2'"),
        (model(version=True), "version is True"),
        (model(version=None), "version is None"),
        (model(kind="mixture"), "of the kind 'mixture', where 'map' or 'reference' is expected"),
        (model(kind="other"), "of the kind 'other'"),
        (model(kind=["map"]), "of the kind"),
        (model(a=float("nan")), "holds NaN"),
        (model(a=[float("-inf")]), "holds -Infinity"),
        (model(a=0).replace(b": 0", b": 1e999"), "holds 1e999"),
        (model(a=0).replace(b": 0", b": " + b"9" * 5000), "digits"),
        (model(a=0).replace(b"}", b', "a": 1}'), "holds 'a' twice"),
        (model(a=0).replace(b": 0", b': {"b": 1, "b": 2}'), "holds 'b' twice"),
        (nested(65), "nested more than 64 levels"),
        (nested(100_000), "nested more than 64 levels"),
        (b"[" * 1_000_000, "nested more than 64 levels|not JSON"),
        (b'{"a":' * 100_000, "nested more than 64 levels|not JSON"),
        (model(a="é").decode().encode("utf-16"), "UTF-8"),
        (b'{"format": "\xe9"}', "UTF-8"),
        (b"\x1f\x8b\x08\x00", "UTF-8"),
        *((pickle.dumps(Trap(), protocol), "not JSON|UTF-8") for protocol in range(6)),
    ],
)
def test_invalid_files_are_refused_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message) as caught:
        read_model(path, "map", "reference")
    assert caught.value.path == str(path)
    assert caught.value.hint
    assert not (tmp_path / "trapped").exists()


def test_a_byte_order_mark_and_deep_nesting_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(b"\xef\xbb\xbf" + nested(63))
    assert read_model(path, "map")[0] == "map"


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    with path.open("wb") as file:
        file.truncate(300 << 20)
    tracemalloc.start()
    with pytest.raises(FileError, match="larger than 64 MB"):
        read_model(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 << 20


# ── text: UTF-8, of bounded size ──────────────────────────────────────────────────────────────────


LIMIT = 1 << 20


def stored_text(folder: Path, content: bytes) -> Path:
    path = folder / "x.txt"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("text", ["", "Köln\r\n脳\n", "\u2028\x85"])
def test_utf_8_is_read_without_its_byte_order_mark(tmp_path: Path, mark: bytes, text: str) -> None:
    assert read_text(stored_text(tmp_path, mark + text.encode()), max_bytes=LIMIT) == text


@pytest.mark.parametrize("code", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_of_unicode_are_recognised(tmp_path: Path, code: str) -> None:
    path = stored_text(tmp_path, "image".encode(code))
    with pytest.raises(
        FileError, match=r"not text in UTF-8.*UTF-16.*; save it as UTF-8$"
    ) as caught:
        read_text(path, max_bytes=LIMIT)
    assert caught.value.path == str(path)


def test_the_line_of_the_first_bad_byte_is_named(tmp_path: Path) -> None:
    content = b"a\nb\n" + "Köln".encode("latin-1") + b"\n\xff"
    with pytest.raises(FileError, match=r"line 3 is not text in UTF-8; ask again$"):
        read_text(stored_text(tmp_path, content), max_bytes=LIMIT, hint="ask again")
    with pytest.raises(FileError, match="x: line 1 is not text"):
        decoded("x", b"\xc3")


def test_the_size_is_bounded(tmp_path: Path) -> None:
    path = stored_text(tmp_path, b"x" * LIMIT)
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
