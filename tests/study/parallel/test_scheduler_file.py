"""Scheduler files of Dask that are missing, or something else."""

from pathlib import Path

import pytest

from ndflow.errors import FileError
from ndflow.study.workers import connect

pytest.importorskip("distributed")


@pytest.mark.parametrize("content", ["{}", "[]", '{"address": 1}', "", "nonsense", "\xff"])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "scheduler"
    file.write_text(content, "latin-1")
    with pytest.raises(FileError, match="not a scheduler file of Dask; give the file") as caught:
        connect(str(file))
    assert caught.value.path == str(file)


@pytest.mark.parametrize("name", ["scheduler.json", "folder/scheduler"])
def test_a_missing_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=f"^{name}: no such file; check"):
        connect(name)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="a folder, not a file"):
        connect(str(tmp_path))


def test_a_name_without_folder_may_be_a_host() -> None:
    with pytest.raises(FileError, match="no Dask scheduler answers there"):
        connect("host-without-port")
