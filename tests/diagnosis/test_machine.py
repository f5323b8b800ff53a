"""What the machine offers: limits of containers and queues are found."""

import os
import sys
from pathlib import Path

import pytest

from ndflow.diagnosis import machine as module
from ndflow.diagnosis.machine import machine


@pytest.fixture
def limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the one where the kernel says what groups of processes may use."""
    monkeypatch.setattr(module, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(module, "_LIMITS", tmp_path)
    return tmp_path


def test_cores_are_those_that_may_be_used() -> None:
    found = machine()
    assert 1 <= found.cores <= found.cores_in_all
    if hasattr(os, "sched_getaffinity"):
        assert found.cores <= len(os.sched_getaffinity(0))
    assert found.temporary is not None


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        ("0::/queue/job/step", "queue/job/memory.max"),  # of a group above it
        ("0::/queue/job", "queue/job/memory.max"),
        ("2:cpu:/else\n4:memory:/queue/job", "memory/queue/job/memory.limit_in_bytes"),
        ("0::/not/seen/from/within", "memory.max"),
    ],
)
def test_the_limit_of_a_group_is_found(limits: Path, groups: str, file: str) -> None:
    (limits / "groups").write_text(f"{groups}\n")
    (limits / file).parent.mkdir(parents=True, exist_ok=True)
    (limits / file).write_text(f"{1 << 20}\n")
    assert machine().memory_limit == 1 << 20


@pytest.mark.parametrize("limit", ["max", str(1 << 62), "", "nonsense"])
def test_a_limit_above_the_memory_is_none(limits: Path, limit: str) -> None:
    (limits / "groups").write_text("0::/\n")
    (limits / "memory.max").write_text(limit)
    assert machine().memory_limit is None


def test_a_missing_folder_for_temporary_files_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    assert machine().temporary is None


def test_cores_are_counted_without_joblib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)  # it cannot be imported
    found = machine()
    assert 1 <= found.cores <= found.cores_in_all
