"""Results are written completely or not at all, and replace nothing that they should not."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from commands import Run, in_the_background, wait_for_output
from phantoms import save
from studies import SiteStudy, contents, snapshot

import ndflow
from ndflow.files.atomic import folder_lock

NORMALISE = "normalise {scan} --to {reference} -o {new}"
COMMANDS = {
    NORMALISE: "x.nii.gz",
    "apply {scan} --map {map} -o {new}": "x.nii.gz",
    "fit {scan} -o {new}": "x.json",
    "reference {scan} -o {new}": "x.json",
}


class Desk:
    """Inputs that must survive, and an empty folder for results."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.run, self.folder, self.out = run, folder, folder / "out"
        self.out.mkdir()
        self.scan, self.mask, self.other, self.reference = (
            folder / name
            for name in ("scan.nii.gz", "mask.nii.gz", "other.nii.gz", "reference.json")
        )
        self.map = folder / "map.json"
        ndflow.save(self.map, ndflow.Affine(2.0, 5.0))

    def words(self, command: str, new: Path) -> list[str]:
        return [word.format(**vars(self), new=new) for word in command.split()]

    def refused(self, about: Path, command: str, new: Path) -> None:
        """Check that a command fails with one line about a file, and changes nothing."""
        before = snapshot(self.folder)
        ran = self.run(*self.words(command, new))
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
        assert ran.err.startswith(f"error: {about}: ")
        assert snapshot(self.folder) == before

    def done(self, command: str, new: Path) -> None:
        ran = self.run(*self.words(command, new))
        assert (ran.code, ran.errors) == (0, [])


@pytest.fixture
def desk(inputs: Path, run: Run) -> Desk:
    return Desk(inputs, run)


# ── files that must not be replaced ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("role", "command"),
    [
        ("scan", "normalise {scan} --to {reference} -o {new}"),
        ("mask", "normalise {scan} --to {reference} --mask {mask} -o {new}"),
        ("mask", "normalise {scan} --to {reference} --exclude {mask} -o {new}"),
        ("other", "normalise {scan} --to {other} -o {new}"),
        ("mask", "normalise {scan} --to {other} --to-mask {mask} -o {new}"),
        ("mask", "apply {scan} --map {map} --mask {mask} -o {new}"),
        ("reference", "reference {reference} {scan} -o {new}"),
    ],
)
def test_an_input_is_never_replaced(desk: Desk, role: str, command: str) -> None:
    new = getattr(desk, role)
    link = desk.folder / f"link.{new.name.partition('.')[2]}"
    link.symlink_to(new)
    for name in (new, link, desk.out / ".." / new.name):
        desk.refused(name, f"{command} --force", name)


def test_nor_is_a_model_that_was_read_by_a_record(desk: Desk) -> None:
    desk.refused(desk.map, "apply {scan} --map {map} -o {new} --force", desk.folder / "map.nii.gz")
    new = desk.folder / "reference.nii.gz"
    desk.refused(desk.reference, f"{NORMALISE} --force", new)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["itself", "record"])
def test_files_are_replaced_by_force_only_and_only_if_they_are_ours(
    desk: Desk, command: str, name: str
) -> None:
    new = desk.out / COMMANDS[command]
    old = new if name == "itself" else desk.out / "x.json"
    old.write_text('{"EchoTime": 0.003}')  # such as a sidecar of the acquisition
    desk.refused(old, command, new)
    desk.refused(old, f"{command} --force", new)
    old.unlink()
    desk.done(command, new)
    desk.refused(new, command, new)
    desk.done(f"{command} --force", new)
    assert json.loads((desk.out / "x.json").read_text())["format"] == "ndflow"


@pytest.mark.parametrize(
    ("number", "code", "jobs"),
    [(signal.SIGKILL, -9, 1), (signal.SIGINT, 130, 1), (signal.SIGTERM, 143, 2)],
)
def test_a_command_that_is_stopped_leaves_nothing_half_written(
    desk: Desk, number: signal.Signals, code: int, jobs: int
) -> None:
    desk.done(f"{NORMALISE} --range 0 50", desk.out / "large.nii.gz")  # of an earlier run
    old = snapshot(desk.out)
    noise = np.random.default_rng(0).integers(1, 3000, (200, 200, 200), dtype=np.int16)
    large = save(desk.folder / "large.nii.gz", noise)
    words = ("normalise", large, "--to", desk.reference, "-o", desk.out, "--force", "-j", jobs)
    child = in_the_background(*words)
    wait_for_output(child, desk.out, ".ndflow-*.tmp")
    child.send_signal(number)
    _, err = child.communicate(timeout=60)
    assert child.returncode == code
    assert len(err.splitlines()) == (number != signal.SIGKILL)
    left = snapshot(desk.out)
    assert {name: part for name, part in left.items() if not name.endswith(".tmp")} == old
    if number == signal.SIGKILL:  # it could not clean up, but the next run does
        desk.done(f"{NORMALISE} --force", desk.out / "large.nii.gz")
    assert {*snapshot(desk.out)} == {"large.nii.gz", "large.json"}


ODD = [
    """it's "quoted" `date` $(date) %s {x}.nii.gz""",
    "über 脳 new\nline\ttab [bold red].nii.gz",
    os.fsdecode(b"caf\xe9 \xff.nii.gz"),  # not UTF-8
]


def test_odd_file_names_work_in_any_locale(desk: Desk, process: Run) -> None:
    folder = desk.folder / "Ünï \n folder"
    folder.mkdir()
    for name in ODD:
        shutil.copy(desk.scan, folder / name)
    bad = folder / os.fsdecode(b"bad\n\xe9.nii.gz")
    bad.write_bytes(desk.scan.read_bytes()[:-1])
    out, scans = folder / "out \"'", [*(folder / name for name in ODD), bad]
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = process("normalise", *scans, "--to", desk.reference, "-o", out, **locale)
    assert ran.code == 1
    assert all(line.startswith(("error: ", "warning: ")) for line in ran.err.splitlines())
    assert re.search(r"/bad\\n.*\.nii\.gz: ", ran.errors[0])
    assert len((out / "failures.tsv").read_text("utf-8").splitlines()) == 2
    for name in ODD:
        record = json.loads((out / name.replace("nii.gz", "json")).read_text("utf-8"))
        typed = record["inputs"]["image"][0]["file"]
        assert os.fsencode(typed) == os.fsencode(folder / name)


# ── studies ──────────────────────────────────────────────────────────────────────────────────────

TWO_LEVEL = ("--mode", "two-level", "--proportions", "tissue")


@pytest.mark.parametrize("command", ["cohort", "evaluate", "report", "verify"])
def test_a_study_at_work_is_neither_read_nor_written(
    run: Run, study: SiteStudy, out: Path, command: str
) -> None:
    before = contents(out)
    words = (study.folder / "all.tsv", out, *TWO_LEVEL) if command == "cohort" else (out,)
    with folder_lock(out):
        done = run(command, *words)
    assert (done.code, contents(out)) == (2, before)
    assert f"{out}: another run of ndflow is at work" in done.err


FOLDERS = ("images", "maps", "models", "figures")
AGAIN = {  # what writes a part of a study again; the rest is written by ``cohort``
    "evaluation": ("evaluate", "--permutations", 0, "--trees", 2),
    "report.html": ("report",),
}


@pytest.mark.parametrize("same", [True, False])
def test_nothing_is_ever_written_through_a_link(
    run: Run, study: SiteStudy, out: Path, tmp_path: Path, *, same: bool
) -> None:
    """All files and folders of a study become links to others outside; then it is run again."""
    assert run(AGAIN["evaluation"][0], out, *AGAIN["evaluation"][1:]).code == 0
    outside = shutil.copytree(out, tmp_path / "outside")
    for path in outside.rglob("*"):
        if path.is_file() and not same:
            path.write_bytes(b"precious")
    before, kept = snapshot(outside), out.rename(tmp_path / "kept")
    places = [path.relative_to(kept) for path in kept.rglob("*") if path.name[0] != "."]
    scans = [path for path in places if path.suffix and path.parent.name in FOLDERS]
    assert len(scans) == len(FOLDERS) * len(study.rows)
    other = ("--set", "effective-count=500", "--no-report")  # all is to be made again
    cohort = ("cohort", *TWO_LEVEL, *other, study.folder / "all.tsv")
    for names in (
        *([name] for name in places if name not in scans),
        *([name for name in scans if name.parent.name == folder] for folder in FOLDERS),
    ):
        shutil.copytree(kept, out)
        for path in (out / name for name in names):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.symlink_to(outside / path.relative_to(out))
        done = run(*AGAIN.get(names[0].parts[0], cohort), out, "--force")
        assert done.code, names
        assert any(f"{out / name}: " in done.err for name in names), done.err
        assert all((out / name).is_symlink() for name in names), names
        assert snapshot(outside) == before, names
        shutil.rmtree(out)
