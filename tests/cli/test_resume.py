"""Studies that are stopped, killed, changed or run twice, and resume where they left off."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run, in_the_background, typed, wait_until
from phantoms import head, save
from studies import SMALL, results_of, snapshot

SITES = ["Aachen", "Aachen", "Bonn", "Celle", "Celle"]
GREY = {"Aachen": 700.0, "Bonn": 800.0, "Celle": 620.0}
SCANS = [f"s{number}" for number in range(len(SITES))]


def image(number: int, *, seed: int | None = None) -> np.ndarray:
    tissues = ((300.0, 60.0), (GREY[SITES[number]] + 10 * (number % 3), 50.0), (1000.0, 40.0))
    return head(number if seed is None else seed, shape=SMALL, tissues=tissues, gain=1 + number)


class Desk:
    """A study of five scans, and a folder for its results."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.table = folder, folder / "out", folder / "scans.tsv"

    def fill(self) -> None:
        self.folder.mkdir()
        lines = ["image\tsite\tmask"]
        for number, (name, site) in enumerate(zip(SCANS, SITES, strict=True)):
            save(self.folder / f"{name}.nii.gz", image(number))
            lines.append(f"{name}.nii.gz\t{site}\t{'m.nii.gz' if number == 1 else 'n/a'}")
        save(self.folder / "m.nii.gz", (image(1) > 0).astype(np.uint8))
        self.table.write_text("\n".join([*lines, ""]))

    def words(self, *options: object, out: Path | None = None) -> list[str]:
        words = ["cohort", self.table, out or self.out, "-q", "--mode", "site", *options]
        return [str(word) for word in words]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A study that was run."""
    desk = Desk(tmp_path_factory.mktemp("resume") / "desk")
    desk.fill()
    typed(*desk.words(out=desk.folder / "site"))
    return desk


@pytest.fixture
def desk(undisturbed: Desk) -> Iterator[Desk]:
    """That study with results in its folder, which may be changed; restored after the test."""
    safe = undisturbed.folder.with_name("safe")
    shutil.copytree(undisturbed.folder, safe)
    shutil.copytree(safe / "site", undisturbed.out)
    yield Desk(undisturbed.folder)
    shutil.rmtree(undisturbed.folder)
    safe.rename(undisturbed.folder)


def times(out: Path) -> dict[str, tuple[int, int]]:
    """Return the modification time and inode of each result."""
    paths = [path for path in out.rglob("*") if path.is_file() and path.name[0] != "."]
    found = {str(path.relative_to(out)): path.stat() for path in paths}
    accounts = ("provenance.json", "scans.tsv")  # written by every run
    return {
        name: (stat.st_mtime_ns, stat.st_ino)
        for name, stat in found.items()
        if name not in accounts
    }


def redone(run: Run, desk: Desk, *options: object) -> set[str]:
    """Run the study again; return the results that were rewritten or removed."""
    before = times(desk.out)
    assert run(*desk.words(*options)).code == 0
    after = times(desk.out)
    return {name for name in before | after if before.get(name) != after.get(name)}


def results(*names: str, kinds: str = "models images maps figures") -> set[str]:
    ends = {"models": ".json", "images": ".nii.gz", "maps": ".json", "figures": ".png"}
    return {f"{kind}/{name}{ends[kind]}" for kind in kinds.split() for name in names}


MAPPED = results(*SCANS, kinds="images maps figures")


# ── what a second run does ───────────────────────────────────────────────────────────────────────


def test_a_second_run_rewrites_nothing_and_starts_no_workers(
    run: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.study.tasks.run_in_workers", None)
    first = results_of(desk.out)
    for path in desk.folder.glob("*.nii.gz"):
        os.utime(path)  # modification times do not matter
    assert redone(run, desk, "-j", 2) == set()
    assert results_of(desk.out) == first


# ── runs that end before their time ──────────────────────────────────────────────────────────────


@contextmanager
def started(words: list[str], **more: Any) -> Iterator["subprocess.Popen[str]"]:
    """Start a run in a process group of its own, and kill the group at the end."""
    with in_the_background(*words, start_new_session=True, **more) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    for left in Path("/dev/shm").glob(f"sem.loky-{child.pid}-*"):
        left.unlink(missing_ok=True)


def wait_for(child: "subprocess.Popen[str]", out: Path, number: int) -> None:
    """Wait until there are this many files of any kind, or the run has ended."""
    while child.poll() is None and sum(path.is_file() for path in walk(out)) < number:
        time.sleep(0.002)


def alive(session: int) -> dict[int, str]:
    """Return the command lines of the processes of a session, by their numbers."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, own = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(own) == session and state not in "ZX":
                found[int(folder.name)] = (folder / "cmdline").read_text()
    return found


def walk(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)


@pytest.mark.parametrize(
    ("number", "code", "word", "jobs", "moment"),
    [
        (signal.SIGINT, 130, "interrupted", 2, 5),
        (signal.SIGTERM, 143, "terminated", 1, 5),
        (signal.SIGKILL, -9, "", 1, 4),
        (signal.SIGKILL, -9, "", 1, 13),
        (signal.SIGKILL, -9, "", 2, 4),
    ],
)
def test_a_run_that_was_stopped_resumes_where_it_left_off(
    run: Run,
    undisturbed: Desk,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    word: str,
    jobs: int,
    moment: int,
) -> None:
    out = tmp_path / "out"
    words = undisturbed.words("-j", jobs, out=out)
    with started(words, env=os.environ | {"JOBLIB_TEMP_FOLDER": str(tmp_path)}) as child:
        wait_for(child, out, moment)
        os.killpg(child.pid, number)  # as a terminal does with Ctrl-C
        _, err = child.communicate(timeout=60)
    wait_until(lambda: not alive(child.pid))  # on a busy machine, workers outlive their parent
    late = {0} if moment > 5 else set()  # it may finish before it is killed, but rarely
    assert child.returncode in {code} | late, err
    if word:
        assert not list(out.rglob("*.tmp"))
        assert len(err.splitlines()) == 1
        assert re.match(f"error: {word}; .*the same (command )?again", err)
    assert run(*words[:-2]).code == 0
    assert results_of(out) == results_of(undisturbed.folder / "site")


def test_a_dry_run_says_what_a_run_does(run: Run, desk: Desk) -> None:
    def rehearsed(*words: object) -> list[list[str]]:
        before = snapshot(desk.folder)
        ran = run("cohort", desk.table, desk.out, "--mode", "site", "--dry-run", *words)
        assert (ran.code, snapshot(desk.folder)) == (0, before)
        return [re.split(r" {2,}", line)[1:] for line in ran.out.splitlines()]

    assert rehearsed() == [["keep", "up to date"]] * 5
    save(desk.folder / "s2.nii.gz", image(2, seed=99))
    found = rehearsed()
    assert found[2] == ["fit and write", "changed: image"]
    assert {action for action, _ in found[:2] + found[3:]} == {"keep or write"}
    # The references of its site and of all sites change, hence every image, but no other model.
    references = {"reference.json", "reference_Bonn.json", *(f"map_{site}.json" for site in GREY)}
    assert redone(run, desk) == MAPPED | results("s2") | references
    for path in desk.out.glob("*/s3*"):
        path.unlink()
    found = rehearsed()
    assert found.pop(3) == ["fit and write", "new"]
    assert {action for action, _ in found} == {"keep or write"}
    assert redone(run, desk) == results("s3")
