"""Which files are ours: those that a record lists with the hash of their content."""

import hashlib
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ndflow._version import RESULTS
from ndflow.errors import FileError
from ndflow.files.model_files import (
    list_outputs,
    model_bytes,
    not_ours,
    outputs_in,
    refuse_unlisted,
    relative_outputs,
    write_pending,
)
from ndflow.files.stream import fingerprint_of


def written(out: Path, content: bytes, record: str = "maps/a.json", *names: str) -> list[Path]:
    """Write files with their record, as every result is written."""
    files = [out / name for name in names or ("images/a.nii", "figures/a.png")]
    place = out / record
    for path in (place, *files):
        path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as pending:
        hashed = {path: write_pending(pending, path, content) for path in files}
        payload = {"outputs": relative_outputs(place, hashed)}
        list_outputs(pending, place, model_bytes("map", payload), files)
    return files


def test_a_record_lists_its_files_with_their_hashes(tmp_path: Path) -> None:
    files = written(tmp_path, b"one")
    record = tmp_path / "maps" / "a.json"
    assert outputs_in(record) == dict.fromkeys(files, hashlib.sha256(b"one").hexdigest())
    assert not_ours(record, files) == []
    files[0].write_bytes(b"edited")
    assert not_ours(record, files) == files[:1]
    files[0].unlink()
    assert not_ours(record, files) == []  # what is not there belongs to nobody
    mine = tmp_path / "images" / "mine.nii"
    mine.touch()
    assert not_ours(record, [*files, mine]) == [mine]
    refuse_unlisted([record], files)
    with pytest.raises(FileError, match=r"mine.*not written by ndflow"):
        refuse_unlisted([record], [*files, mine])
    record.write_bytes(record.read_bytes()[:-9])
    assert outputs_in(record) == {} == outputs_in(tmp_path / "none.json")


def test_of_a_folder_that_is_moved_or_named_otherwise_the_files_are_still_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "out", b"one")
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to("deep/er")
    monkeypatch.chdir(tmp_path)
    for folder in (moved, Path("moved"), tmp_path / "link" / ".." / ".." / "moved"):
        files = [folder / "images" / "a.nii", folder / "figures" / "a.png"]
        assert [path.exists() for path in files] == [True, True]
        assert not_ours(folder / "maps" / "a.json", files) == []
        assert all(path.exists() for path in outputs_in(folder / "maps" / "a.json"))


def test_results_are_replaced_together_or_not_at_all(tmp_path: Path) -> None:
    files = written(tmp_path, b"one")
    with suppress(KeyboardInterrupt), ExitStack() as pending:
        write_pending(pending, files[0], b"two")
        raise KeyboardInterrupt
    assert [path.read_bytes() for path in files] == [b"one", b"one"]
    written(tmp_path, b"two")
    assert [path.read_bytes() for path in files] == [b"two", b"two"]
    record, mine = tmp_path / "maps" / "a.json", tmp_path / "images" / "mine.nii"
    assert not_ours(record, files) == []
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 3
    mine.write_bytes(b"precious")
    with pytest.raises(FileError, match="exists already"), ExitStack() as pending:
        list_outputs(pending, record, b"", [*files, mine], force=False)
    with ExitStack() as pending:
        list_outputs(pending, record, model_bytes("map", {}), [mine])
    assert mine.read_bytes() == b"precious"
    assert all(path.exists() for path in files)


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_manifest import written
renamed, left = Path.replace, [int(sys.argv[3])]
def replace(path, target):
    if not left[0]:
        os._exit(9)
    left[0] -= 1
    return renamed(path, target)
Path.replace = replace
written(Path(sys.argv[1]), b"two")
"""


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_whenever_a_run_is_killed_every_file_with_a_name_is_listed(
    tmp_path: Path, renames: int
) -> None:
    out = tmp_path / "out"
    written(out, b"one")
    words = [sys.executable, "-c", KILLED, str(out), str(Path(__file__).parent), str(renames)]
    assert subprocess.run(words, check=False).returncode == 9
    record = out / "maps" / "a.json"
    named = [p for p in out.rglob("*") if p.is_file() and not p.name.startswith(".ndflow-")]
    assert not_ours(record, [path for path in named if path != record]) == []
    written(out, b"two")  # and the next run is not in its way
    assert not_ours(record, outputs_in(record)) == []
    assert not list(out.rglob(".ndflow-*"))


def test_a_fingerprint_depends_on_all_parts_but_not_on_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = fingerprint_of(inputs={"image": ["a"]}, settings={"x": 1, "y": 2})
    assert one == fingerprint_of(settings={"y": 2, "x": 1}, inputs={"image": ["a"]})
    assert one != fingerprint_of(inputs={"image": ["b"]}, settings={"x": 1, "y": 2})
    monkeypatch.setattr("ndflow.files.stream.RESULTS", RESULTS + 1)
    assert one != fingerprint_of(inputs={"image": ["a"]}, settings={"x": 1, "y": 2})
