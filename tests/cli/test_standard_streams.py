"""Streams that are closed, full or gone, or have another encoding: no command dies of its words."""

import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
from commands import NDFLOW, Ran
from files_on_disc import dataset
from phantoms import head, save
from studies import SITES, SMALL, SiteStudy, contents

import ndflow
from ndflow.cli.app import COMMANDS

# ── streams ──────────────────────────────────────────────────────────────────────────────────────


class Streams(NamedTuple):
    """Where the words of a command go: what a shell does, or what the two descriptors lead to."""

    shell: str = ""
    gone: str = ""
    environment: Mapping[str, str] = MappingProxyType({})


STREAMS = {
    "stdout closed": Streams(">&-"),
    "stderr closed": Streams("2>&-"),
    "all closed": Streams("<&- >&- 2>&-"),
    "stdout full": Streams(">/dev/full"),
    "stderr full": Streams("2>/dev/full"),
    "both full": Streams(">/dev/full 2>&1"),
    "no reader": Streams(gone="pipe"),
    "no terminal": Streams(gone="terminal"),
    "ascii": Streams(environment={"PYTHONIOENCODING": "ascii:strict"}),
    "latin-1": Streams(environment={"PYTHONIOENCODING": "latin-1:strict"}),
    "C": Streams(environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "buffered": Streams(">/dev/full 2>&1", environment={"PYTHONUNBUFFERED": ""}),
}
FULL = {name for name, streams in STREAMS.items() if ">/dev/full" in streams.shell.split()}


@contextmanager
def without_reader(kind: str) -> Iterator[int]:
    """Yield a descriptor that can be written to, but that nobody can read from any more."""
    reader, writer = os.pipe() if kind == "pipe" else pty.openpty()
    os.close(reader)
    yield writer
    os.close(writer)


def run_with(streams: Streams, words: Sequence[object], folder: Path) -> Ran:
    """Run ``ndflow`` in a folder and in a process of its own."""
    command = ["sh", "-c", f'exec "$@" {streams.shell}', "sh", *NDFLOW, *map(str, words)]
    environment = os.environ | {"COLUMNS": "100"} | dict(streams.environment)

    def run(**where: int) -> Ran:
        done = subprocess.run(command, cwd=folder, env=environment, timeout=120, **where)
        texts = (text and text.decode("latin-1") for text in (done.stdout, done.stderr))
        return Ran(done.returncode, *texts)

    if not streams.gone:
        return run(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with without_reader(streams.gone) as writer:
        return run(stdout=writer, stderr=writer)


# ── commands ─────────────────────────────────────────────────────────────────────────────────────

WORDS: dict[str, Sequence[object]] = {
    "help": ("--help",),
    "help of a command": ("cohort", "--help"),
    "version": ("--version",),
    "wrong usage": ("normalise", "--nonsense"),
    "normalise": ("normalise", "s1.nii.gz", "missing", "--to", "r.json", "-o", "new"),
    "dry run": ("normalise", "Ü.nii.gz", "--to", "r.json", "-o", "n.nii", "--dry-run"),
    "prepare": (
        *("prepare", "all.tsv", "new", "--mask", "nonzero"),
        *("--no-bias-field", "--no-tissues", "--dry-run"),  # sidecars hold the time it took
    ),
    "cohort": ("cohort", "all.tsv", "new", "-j", 2),
    "bids": ("bids", "raw", "new", "participant"),
    "reference": ("reference", "s0.nii.gz", "s1.nii.gz", "--lesions", "auto", "-o", "new.json"),
    "fit": ("fit", "s0.nii.gz", "Ü.nii.gz", "missing", "-o", "new"),
    "apply": ("apply", "s0.nii.gz", "--map", "out/maps/s0.json", "-o", "new.nii.gz"),
    "evaluate": ("evaluate", "out", "--covariate", "missing"),
    "report": ("report", "out", "--sample", 0),
    "verify": ("verify", "out"),
    "demo": ("demo", "out"),
    "doctor": ("doctor",),
}
CODES = {"wrong usage": 2, "normalise": 1, "fit": 1, "evaluate": 2, "demo": 2}
TO_STDOUT = set(WORDS) - {"wrong usage", "evaluate", "demo"}
WORST = ["all closed", "both full", "no reader", "no terminal"]
CASES = [(words, streams) for words in WORDS for streams in ("all closed", "both full")]
# Where nobody reads any more, each way of writing is tried once: help, one scan, many, workers.
SPOKEN = ("help", "wrong usage", "normalise", "cohort", "evaluate", "verify")
CASES += [(words, streams) for words in SPOKEN for streams in ("no reader", "no terminal")]
CASES += [(words, "stdout full") for words in ("help", "version", "verify", "apply", "cohort")]
CASES += [
    (words, streams)
    for words in ("help", "dry run", "fit")
    for streams in STREAMS
    if streams not in WORST and (words, streams) not in CASES
]


def test_every_command_is_tried() -> None:
    assert {words[0] for words in WORDS.values()} >= set(COMMANDS)


class Done(NamedTuple):
    """What a command has printed, and what all files in its folder hold then."""

    ran: Ran
    files: dict[str, bytes]


class Desk:
    """A folder with everything that the commands read, made anew for each."""

    def __init__(self, folder: Path) -> None:
        self.safe, self.folder = folder / "safe", folder / "desk"
        self.safe.mkdir()
        study = SiteStudy(self.safe, {"Ülm": SITES["Bonn"]}, per_site=2)
        study.table("all")
        study.run("out")
        save(self.safe / "Ü.nii.gz", head(7, shape=SMALL))
        mixture = ndflow.fit(self.safe / "s0.nii.gz").mixture
        ndflow.save(self.safe / "r.json", ndflow.reference([mixture]))
        anat = dataset(self.safe / "raw") / "sub-1" / "anat"
        anat.mkdir(parents=True)
        shutil.copy(self.safe / "s0.nii.gz", anat / "sub-1_T1w.nii.gz")
        self._undisturbed: dict[str, Done] = {}

    def run(self, name: str, streams: Streams) -> Done:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.safe, self.folder)
        ran = run_with(streams, WORDS[name], self.folder)
        return Done(ran, contents(self.folder))

    def undisturbed(self, name: str) -> Done:
        if name not in self._undisturbed:
            self._undisturbed[name] = self.run(name, Streams())
        return self._undisturbed[name]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("streams"))


@pytest.mark.parametrize(("words", "streams"), CASES)
def test_a_command_does_the_same_wherever_its_words_go(
    desk: Desk, words: str, streams: str
) -> None:
    plain = desk.undisturbed(words)
    assert plain.ran.code == CODES.get(words, 0), plain.ran.err
    assert bool(plain.ran.out) == (words in TO_STDOUT)
    done = desk.run(words, STREAMS[streams])
    lost = streams in FULL and words in TO_STDOUT
    assert done.ran.code == (1 if lost else plain.ran.code), done.ran.err
    assert done.files == plain.files
    for line in f"{done.ran.out or ''}{done.ran.err or ''}".splitlines():
        assert not re.search("Traceback|Exception ignored|unexpected", line)
    if lost and streams == "stdout full":
        *others, last = done.ran.errors
        assert others == plain.ran.errors
        assert last.startswith("error: stdout: cannot be written (No space left on device); ")


def test_letters_that_an_encoding_lacks_are_escaped(desk: Desk) -> None:
    shown = {name: desk.run("dry run", STREAMS[name]).ran.out for name in ("ascii", "latin-1")}
    assert shown["ascii"] == "would write n.nii from \\xdc.nii.gz\n"
    assert shown["latin-1"] == "would write n.nii from Ü.nii.gz\n"


def test_a_terminal_may_go_while_progress_is_shown_on_it(desk: Desk, tmp_path: Path) -> None:
    scans = [save(tmp_path / f"{number}.nii", head(number)) for number in range(6)]
    controller, terminal = pty.openpty()
    words = ("normalise", *scans, "--to", desk.safe / "r.json", "-o", tmp_path / "new")
    with subprocess.Popen([*NDFLOW, *map(str, words)], stdout=terminal, stderr=terminal) as child:
        os.close(terminal)
        assert os.read(controller, 1 << 16).startswith(b"\x1b[")  # the progress bars have begun
        os.close(controller)
        assert child.wait(timeout=120) == 0
    assert len(list((tmp_path / "new").glob("*.nii"))) == 6


# ── descriptors ──────────────────────────────────────────────────────────────────────────────────

PROGRAM = """
import os, subprocess, sys
from pathlib import Path
from ndflow.cli.standard_streams import standard_streams
with standard_streams():
    with Path(sys.argv[1]).open("w") as data:
        os.write(1, b"words")
        os.write(2, b"words")  # as a library written in C does
        subprocess.run(["sh", "-c", "echo words; echo words >&2"])
        data.write("data")
"""


def test_words_of_libraries_never_end_up_in_a_file_of_data(tmp_path: Path) -> None:
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", PROGRAM]
    assert subprocess.run([*command, tmp_path / "data"], timeout=60).returncode == 0
    assert (tmp_path / "data").read_text() == "data"


WAITING = """
import os
from ndflow.cli.standard_streams import standard_streams
os.set_blocking(1, False)
with standard_streams() as lost:
    print("x" * (1 << 20))
    assert lost() is None
"""


def test_a_pipe_that_does_not_block_gets_every_word() -> None:
    ran = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, timeout=60)
    assert (ran.returncode, len(ran.stdout), ran.stderr) == (0, (1 << 20) + 1, b"")
