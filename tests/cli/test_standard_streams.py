"""Streams that are closed, that nobody reads, or that have another encoding."""

import os
import subprocess
from pathlib import Path

import pytest
from commands import NDFLOW
from phantoms import head, save


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return save(tmp_path / "Ü.nii.gz", head(1))


@pytest.mark.parametrize("shell", [">&-", "2>&-", ">&- 2>&-"])
def test_a_stream_may_be_closed(scan: Path, tmp_path: Path, shell: str) -> None:
    words = [*NDFLOW, "fit", str(scan), "-o", str(tmp_path / "x.json")]
    ran = subprocess.run(["sh", "-c", f'exec "$@" {shell}', "sh", *words], timeout=60)
    assert ran.returncode == 0
    assert (tmp_path / "x.json").exists()


def test_a_reader_that_has_seen_enough_ends_a_command_quietly(scan: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [*NDFLOW, "fit", str(scan), "-o", str(tmp_path / "x.json")]
    ran = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, b"")
    assert (tmp_path / "x.json").exists()


def test_letters_that_an_encoding_lacks_are_escaped(scan: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [*NDFLOW, "fit", scan.name, "-o", "Ü.json"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (0, b"wrote \\xdc.json\n")
