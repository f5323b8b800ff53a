"""A folder is locked by one run at a time, for as long as that run lives."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ndflow.errors import FileError
from ndflow.files.atomic import folder_lock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")

HOLD = """
import sys
from pathlib import Path
from ndflow.files.atomic import folder_lock
with folder_lock(Path(sys.argv[1]), shared=sys.argv[2] == "True"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(folder: Path, *, shared: bool = False) -> Iterator["subprocess.Popen[str]"]:
    """Another process that locks a folder until its input ends."""
    words = [sys.executable, "-c", HOLD, str(folder), str(shared)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child


def is_free(folder: Path, *, shared: bool = False) -> bool:
    try:
        with folder_lock(folder, shared=shared):
            return True
    except FileError:
        return False


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    with held(tmp_path):
        with pytest.raises(FileError) as caught, folder_lock(tmp_path):
            pytest.fail("two at once")
        assert caught.value.path == str(tmp_path)
        assert caught.value.cause == "another run of ndflow is at work in it"
        assert "wait" in caught.value.hint
    assert is_free(tmp_path)


def test_a_lock_holds_within_one_process_too(tmp_path: Path) -> None:
    with folder_lock(tmp_path):
        assert not is_free(tmp_path)
        assert not is_free(tmp_path, shared=True)
    assert is_free(tmp_path)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_run_that_fails_releases_its_lock(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), folder_lock(tmp_path):
        raise error
    assert is_free(tmp_path)


def test_shared_locks_coexist(tmp_path: Path) -> None:
    with held(tmp_path, shared=True), folder_lock(tmp_path, shared=True), ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(folder_lock(tmp_path, shared=True))
        assert not is_free(tmp_path)  # but exclude an exclusive one
    assert is_free(tmp_path)


def test_an_exclusive_lock_excludes_shared_ones(tmp_path: Path) -> None:
    with held(tmp_path):
        assert not is_free(tmp_path, shared=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_lock_dies_with_its_process(tmp_path: Path, number: signal.Signals) -> None:
    with held(tmp_path) as child:
        assert not is_free(tmp_path)
        child.send_signal(number)
        child.wait(timeout=30)
        assert is_free(tmp_path)


def test_a_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    # A worker may outlive a run that was killed.
    stay = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with folder_lock(tmp_path):
        child = subprocess.Popen(stay, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
    with child:
        assert is_free(tmp_path)


def test_folders_are_locked_independently(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with folder_lock(tmp_path / "one"):
        assert is_free(tmp_path / "two")
        assert is_free(tmp_path)


def test_the_lock_file_is_hidden_and_stays_empty(tmp_path: Path) -> None:
    for _ in range(3):
        with folder_lock(tmp_path):
            pass
    left = list(tmp_path.iterdir())
    assert all(path.name.startswith(".ndflow-") for path in left)
    assert len(left) <= 1
    assert sum(path.stat().st_size for path in left) == 0


def test_a_file_system_without_locks_is_tolerated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(*_: object) -> None:
        raise OSError(os.strerror(95))

    monkeypatch.setattr("ndflow.files.atomic.fcntl.flock", unable)
    assert is_free(tmp_path)


@pytest.mark.parametrize("name", ["missing", "file"])
def test_only_an_existing_folder_can_be_locked(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError) as caught, folder_lock(tmp_path / name):
        pytest.fail("held")
    assert caught.value.path == str(tmp_path / name)
    assert caught.value.hint
