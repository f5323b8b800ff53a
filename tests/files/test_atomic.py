"""Files appear complete or not at all, none is lost, and one run at a time writes to a folder."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from ndflow.errors import FileError
from ndflow.files.atomic import folder_lock, new_file


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, content: bytes = b"new", **options: object) -> None:
    with new_file(path, **options) as file:  # type: ignore[arg-type]
        file.write(content)


@contextmanager
def inside(block: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that is within a block until its input ends."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom ndflow.files.atomic import *\n"
        f"with {block}:\n    print(flush=True)\n    sys.stdin.read()"
    )
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "\n"
        yield child


def test_a_file_appears_when_it_is_complete_and_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    synced: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append((os.fstat(fd).st_size, path.exists()))
    )
    with new_file(path) as file:
        file.write(b"abcd")
        assert not path.exists()
        (temporary,) = listing(tmp_path)
        assert temporary.startswith(".ndflow-")
    assert synced[0] == (4, False)
    assert path.read_bytes() == b"abcd"
    assert listing(tmp_path) == ["out"]


def test_an_interrupt_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with suppress(KeyboardInterrupt), new_file(path, force=True) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert listing(tmp_path) == ["out"]


def test_a_file_written_by_another_process_in_the_meantime_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out"

    def slow() -> None:
        with new_file(path) as file:
            file.write(b"new")
            path.write_bytes(b"theirs")

    with pytest.raises(FileError, match="in the meantime"):
        slow()
    assert path.read_bytes() == b"theirs"
    assert listing(tmp_path) == ["out"]


def test_a_file_is_replaced_only_with_force_and_an_input_never(tmp_path: Path) -> None:
    path = tmp_path / "scan"
    path.write_bytes(b"old")
    (tmp_path / "link").symlink_to("scan")
    (tmp_path / "folder").mkdir()
    inputs = [tmp_path / "missing", path]
    with pytest.raises(FileError, match=r"exists already.*--force"):
        write(path)
    with pytest.raises(FileError, match="symbolic link"):
        write(tmp_path / "link", b"other", force=True)
    assert (tmp_path / "link").is_symlink()
    assert path.read_bytes() == b"old"
    write(path, b"new", force=True)
    assert path.read_bytes() == b"new"
    (tmp_path / "hard").hardlink_to(path)
    for name in ("scan", "hard", "folder/../scan"):
        with pytest.raises(FileError, match="one of the inputs"):
            write(tmp_path / name, force=True, inputs=inputs)
    assert path.read_bytes() == b"new"


def test_paths_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    for name, message in [
        ("missing/out", "no folder .*mkdir -p"),
        ("file/out", "is not a folder"),
        (".", "a folder"),
        ("pipe", "not an ordinary file"),
        ("a", "symbolic link"),
        ("x" * 300, "cannot be written"),
        ("a\0b", "cannot be written"),
    ]:
        with pytest.raises(FileError, match=message):
            write(tmp_path / name, force=True)
    assert listing(tmp_path) == ["a", "b", "file", "pipe"]


def test_the_next_writer_cleans_up_after_a_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with inside(f"new_file({str(path)!r}, force=True)") as process:
        (theirs,) = listing(tmp_path)
        # While the process lives, its temporary file is kept; other outputs do not matter.
        write(tmp_path / "other")
        write(path)
        assert listing(tmp_path) == [theirs, "other", "out"]
        process.kill()
        process.wait(timeout=30)
    write(tmp_path / "other", force=True)
    assert listing(tmp_path) == [theirs, "other", "out"]
    assert path.read_bytes() == b"new"
    write(path, b"newer", force=True)
    assert listing(tmp_path) == ["other", "out"]


def test_a_full_disc_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write(tmp_path / "out", b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="the disc is full; make room"):
        write(tmp_path / "out", force=True)
    assert (tmp_path / "out").read_bytes() == b"old"
    assert listing(tmp_path) == ["out"]


# ── locks on folders ──────────────────────────────────────────────────────────────────────────────


def is_free(folder: Path, *, shared: bool = False) -> bool:
    try:
        with folder_lock(folder, shared=shared):
            return True
    except FileError:
        return False


@pytest.mark.parametrize("ours", [False, True], ids=["exclusive", "shared"])
@pytest.mark.parametrize("theirs", [False, True], ids=["exclusive", "shared"])
def test_only_shared_locks_coexist_and_all_die_with_their_process(
    tmp_path: Path, ours: bool, theirs: bool
) -> None:
    with inside(f"folder_lock(Path({str(tmp_path)!r}), shared={theirs})") as child:
        assert is_free(tmp_path, shared=ours) == (ours and theirs)
        if not ours:
            with pytest.raises(FileError, match="another run of ndflow is at work in it; wait"):
                folder_lock(tmp_path).__enter__()
        child.kill()
        child.wait(timeout=30)
        assert is_free(tmp_path, shared=ours)


def test_a_run_that_fails_releases_its_lock_and_a_child_does_not_inherit_it(tmp_path: Path) -> None:
    # A worker may outlive a run that was killed.
    with ExitStack() as stack:
        with suppress(KeyboardInterrupt), folder_lock(tmp_path):
            assert not is_free(tmp_path)  # not even in the same process
            raise KeyboardInterrupt
        with folder_lock(tmp_path):
            stack.enter_context(inside("open('/dev/null')"))
        assert is_free(tmp_path)


def test_a_file_system_without_locks_is_tolerated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(*_: object) -> None:
        raise OSError(os.strerror(95))

    monkeypatch.setattr("ndflow.files.atomic.fcntl.flock", unable)
    assert is_free(tmp_path)
