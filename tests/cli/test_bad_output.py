"""Output is written completely or not at all, and replaces nothing that it should not."""

import json
import os
import re
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from bad_input import MAP, TARGET, model
from commands import Run, in_the_background, wait_for_output
from phantoms import head, save
from studies import snapshot

HEAD = head()
MASK = (HEAD > 0).astype(np.uint8)


def put_model(path: Path, kind: str, content: dict[str, Any]) -> Path:
    path.write_text(json.dumps(model(kind, **{kind: content})))
    return path


class Desk:
    """Inputs that must survive, and an empty folder for results."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder, self.run = folder, run
        self.scan, self.mask = (
            save(folder / "scan.nii.gz", HEAD),
            save(folder / "mask.nii.gz", MASK),
        )
        self.other = save(folder / "other.nii.gz", head(1, gain=1.3))
        self.target = put_model(folder / "target.json", "mixture", TARGET)
        self.map = put_model(folder / "map.json", "map", MAP)
        self.out = folder / "out"
        self.out.mkdir()

    def words(self, command: str, **more: object) -> list[str]:
        return [word.format(**vars(self), **more) for word in command.split()]

    def refused(self, about: Path, message: str, command: str, **more: object) -> None:
        """Check that a command fails with one line about a file, and changes nothing."""
        before = snapshot(self.folder)
        ran = self.run(*self.words(command, **more))
        assert ran.code == 2
        assert ran.out == ""
        (error,) = ran.err.splitlines()
        assert error.startswith(f"error: {about}: ")
        assert re.search(message, error), error
        assert snapshot(self.folder) == before

    def done(self, command: str, **more: object) -> None:
        ran = self.run(*self.words(command, **more))
        assert (ran.code, ran.errors) == (0, [])  # these phantoms give rise to doubts


@pytest.fixture
def desk(tmp_path: Path, run: Run) -> Desk:
    return Desk(tmp_path, run)


NORMALISE = "normalise {scan} --to {target} -o {new}"
ANOTHER = "; .*choose another name"

# ── files that must not be replaced ──────────────────────────────────────────────────────────────

INPUTS = [
    ("scan", "normalise {scan} --to {target} -o {new}"),
    ("mask", "normalise {scan} --to {target} --mask {mask} -o {new}"),
    ("mask", "normalise {scan} --to {target} --exclude {mask} --mask auto -o {new}"),
    ("other", "normalise {scan} --to {other} -o {new}"),
    ("mask", "normalise {scan} --to {other} --to-mask {mask} -o {new}"),
    ("scan", "apply {scan} --map {map} -o {new}"),
    ("mask", "apply {scan} --map {map} --mask {mask} -o {new}"),
]


@pytest.mark.parametrize(("role", "command"), INPUTS)
def test_an_input_is_never_replaced(desk: Desk, role: str, command: str) -> None:
    new = getattr(desk, role)
    for force in ("", " --force"):
        desk.refused(new, f"is one of the inputs{ANOTHER}", command + force, new=new)


@pytest.mark.parametrize("way", ["symbolic link", "hard link", "dots", "linked folder"])
def test_an_input_is_known_under_other_names(desk: Desk, way: str) -> None:
    new = desk.folder / "link.nii.gz"
    if way == "symbolic link":
        new.symlink_to(desk.mask)
    elif way == "hard link":
        new.hardlink_to(desk.mask)
    elif way == "dots":
        new = desk.out / ".." / desk.mask.name
    else:
        (desk.folder / "again").symlink_to(desk.folder)
        new = desk.folder / "again" / desk.mask.name
    command = "normalise {scan} --to {target} --mask {mask} -o {new} --force"
    desk.refused(new, f"is one of the inputs{ANOTHER}", command, new=new)


@pytest.mark.parametrize(
    ("about", "command"),
    [
        ("target.json", "normalise {scan} --to {target} -o {folder}/target.nii.gz"),
        ("map.json", "apply {scan} --map {map} -o {folder}/map.nii.gz"),
        ("map.json", "apply {scan} --map {map} --inverse -o {folder}/map.img.gz"),
        ("target.json", "reference {target} {scan} -o {target}"),
        ("linked.json", "reference {target} {scan} -o {folder}/linked.json"),
        ("mask.json", "fit {scan} --mask {folder}/mask.json -o {folder}/mask.json"),
    ],
)
def test_a_model_that_was_read_is_never_replaced(desk: Desk, about: str, command: str) -> None:
    (desk.folder / "linked.json").symlink_to(desk.target)
    (desk.folder / "mask.json").hardlink_to(desk.mask)
    for force in ("", " --force"):
        desk.refused(desk.folder / about, f"is one of the inputs{ANOTHER}", command + force)


@pytest.mark.parametrize(("given", "new"), [("pair.hdr", "pair.img"), ("pair.img", "pair.hdr")])
def test_neither_half_of_a_pair_is_replaced(desk: Desk, given: str, new: str) -> None:
    nibabel.save(nibabel.Nifti1Pair(HEAD, np.eye(4)), desk.folder / "pair.hdr")
    command = "normalise {folder}/%s --to {target} --force -o {folder}/%s" % (given, new)  # noqa: UP031
    desk.refused(desk.folder / "pair.hdr", f"is one of the inputs{ANOTHER}", command)


def test_scans_in_the_output_folder_are_not_replaced(desk: Desk) -> None:
    before = snapshot(desk.folder)
    ran = desk.run(*desk.words("normalise {scan} {other} --to {target} --force -o {folder}"))
    assert ran.code == 2
    assert [error.split(": ")[1] for error in ran.errors] == [str(desk.scan)]
    assert snapshot(desk.folder) == before


# ── files that exist already ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("there", ["x.nii.gz", "x.json"])
@pytest.mark.parametrize(
    "command",
    [
        "normalise {scan} --to {target} -o {out}/x.nii.gz",
        "apply {scan} --map {map} -o {out}/x.nii.gz",
    ],
)
def test_existing_files_are_replaced_only_by_force(desk: Desk, command: str, there: str) -> None:
    old = desk.out / there
    old.write_text("precious")
    desk.refused(old, "exists already; .*choose another name, or --force to replace it", command)
    desk.refused(old, "exists, and was not written by ndflow; ", command + " --force")
    old.unlink()
    desk.done(command)
    desk.done(command + " --force")
    assert set(snapshot(desk.out)) == {"x.nii.gz", "x.json"}
    assert nibabel.load(desk.out / "x.nii.gz").shape == HEAD.shape
    assert json.loads((desk.out / "x.json").read_text())["kind"] == "map"


@pytest.mark.parametrize("command", ["fit {scan} -o {new}", "reference {target} -o {new}"])
def test_a_model_that_exists_is_replaced_only_by_force(desk: Desk, command: str) -> None:
    new = desk.out / "x.json"
    new.write_text("precious")
    desk.refused(new, "exists already; .*--force", command, new=new)
    desk.refused(new, "exists, and was not written by ndflow; ", command + " --force", new=new)
    new.unlink()
    desk.done(command, new=new)
    desk.done(command + " --force", new=new)
    assert json.loads(new.read_text())["format"] == "ndflow"


@pytest.mark.parametrize("there", ["x.hdr", "x.img", "x.json"])
def test_either_half_of_an_existing_pair_is_kept(desk: Desk, there: str) -> None:
    (desk.out / there).write_text("precious")
    for name in ("x.hdr", "x.img"):
        desk.refused(desk.out / there, "exists already", NORMALISE, new=desk.out / name)


def test_only_scans_whose_results_exist_fail(desk: Desk) -> None:
    (desk.out / "other.json").write_text("precious")
    ran = desk.run(*desk.words("normalise {scan} {other} --to {target} -o {out}"))
    assert ran.code == 1
    assert ran.errors[0].startswith(f"error: {desk.out}/other.json: exists already; ")
    assert (desk.out / "other.json").read_text() == "precious"
    assert set(snapshot(desk.out)) == {"scan.nii.gz", "scan.json", "other.json", "failures.tsv"}
    assert str(desk.other) in (desk.out / "failures.tsv").read_text()


# ── places that cannot be written to ─────────────────────────────────────────────────────────────


def test_an_output_that_cannot_exist_is_refused(desk: Desk) -> None:
    missing = desk.out / "a" / "b"
    hint = re.escape(f'; create it: mkdir -p "{missing}"')
    for command, name in [
        (NORMALISE, "x.nii.gz"),
        ("apply {scan} --map {map} -o {new}", "x.nii.gz"),
        ("fit {scan} -o {new}", "x.json"),
        ("reference {target} -o {new}", "x.json"),
    ]:
        desk.refused(missing / name, f"there is no folder.*{hint}", command, new=missing / name)
    several = "normalise {scan} {other} --to {target} -o {new}"
    desk.refused(missing / "c", f"there is no folder.*{hint}", several, new=missing / "c")
    desk.refused(desk.map / "x.nii.gz", "is not a folder", NORMALISE, new=desk.map / "x.nii.gz")
    (desk.out / "x.nii.gz").mkdir()
    desk.refused(
        desk.out / "x.txt",
        "does not end like that of an image; .*nii.gz",
        NORMALISE,
        new=desk.out / "x.txt",
    )
    desk.refused(desk.out / "x", "as JSON; .*.json", "fit {scan} -o {new}", new=desk.out / "x")


def test_pipes_and_devices_are_not_replaced(desk: Desk) -> None:
    os.mkfifo(desk.out / "x.nii")
    device = desk.out / "y.nii"
    device.symlink_to("/dev/null")
    for new in (desk.out / "x.nii", device):
        message = f"not an ordinary file{ANOTHER}"
        desk.refused(new, message, NORMALISE + " --force", new=new)
    assert stat.S_ISFIFO((desk.out / "x.nii").stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_output_names_that_are_too_long_or_lead_nowhere_are_refused(desk: Desk) -> None:
    long = desk.out / f"{'n' * 300}.nii.gz"
    desk.refused(long, f"cannot be written.*{ANOTHER}", NORMALISE, new=long)
    loop = desk.out / "loop.nii.gz"
    loop.symlink_to(loop)
    desk.refused(loop, "; ", NORMALISE + " --force", new=loop)
    nowhere = desk.out / "nowhere.nii.gz"
    nowhere.symlink_to(desk.out / "missing" / "x.nii.gz")
    desk.refused(nowhere, "there is no folder", NORMALISE + " --force", new=nowhere)


@pytest.mark.parametrize("old", [True, False], ids=["to a file", "to nothing yet"])
def test_a_symbolic_link_is_followed_and_kept(desk: Desk, old: bool) -> None:
    archive = desk.folder / "archive"
    archive.mkdir()
    link = desk.out / "x.nii.gz"
    link.symlink_to(archive / "real.nii.gz")
    if old:
        desk.done(NORMALISE + " --range 0 50", new=link)
        desk.refused(link, "exists already; .*--force", NORMALISE, new=link)
    desk.done(NORMALISE + (" --force" if old else ""), new=link)
    assert link.is_symlink()
    assert set(snapshot(archive)) == {"real.nii.gz"}
    assert set(snapshot(desk.out)) == {"x.nii.gz", "x.json"}
    assert nibabel.load(archive / "real.nii.gz").shape == HEAD.shape


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_to_write_is_refused(desk: Desk) -> None:
    desk.out.chmod(0o500)
    new = desk.out / "x.nii.gz"
    desk.refused(new, "may not write to the folder.*; check its permissions", NORMALISE, new=new)


def test_a_read_only_disc_is_refused(desk: Desk, small_disc: Path) -> None:
    (small_disc / "x.nii.gz").write_text("precious")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disc)], check=True)
    message = "may not write to the folder.*; check its permissions, or write elsewhere"
    for new in (small_disc / "x.nii.gz", small_disc / "y.nii.gz"):
        desk.refused(new, message, NORMALISE + " --force", new=new)
    model = small_disc / "x.json"
    desk.refused(model, message, "fit {scan} -o {new}", new=model)
    desk.refused(small_disc / "new", ".", "fit {scan} {other} -o {new}", new=small_disc / "new")


def leave(small_disc: Path, room: int) -> None:
    """Fill a disc, except for some bytes."""
    free = os.statvfs(small_disc)
    with (small_disc / "filler").open("wb") as file:
        file.write(bytes(free.f_bavail * free.f_frsize - room))


FULL = "the disc is full; make room, or write elsewhere"


def pages(path: Path) -> int:
    return -(-path.stat().st_size // 4096) * 4096


@pytest.mark.parametrize(
    ("name", "holds", "precious"),
    [
        ("x.nii", [], False),
        ("x.nii.gz", [], True),
        ("x.nii.gz", ["x.nii.gz"], False),
        ("x.nii", ["x.nii"], True),
        ("x.hdr", ["x.img"], True),
        ("x.hdr", ["x.img", "x.hdr"], True),
    ],
)
def test_a_full_disc_leaves_no_half_written_image(
    desk: Desk, small_disc: Path, name: str, holds: list[str], precious: bool
) -> None:
    desk.done(NORMALISE, new=desk.out / name)
    written = list(snapshot(desk.out))
    if precious:
        desk.done(NORMALISE + " --range 0 50", new=small_disc / name)
    leave(small_disc, sum(pages(desk.out / part) for part in holds))  # room for these files only
    before = snapshot(small_disc)
    ran = desk.run(*desk.words(NORMALISE + " --force" * precious, new=small_disc / name))
    assert ran.code == 2
    assert re.fullmatch(rf"error: {small_disc}/x\.[a-z.]+: {FULL}\n", ran.err)
    assert snapshot(small_disc) == before
    (small_disc / "filler").unlink()
    desk.done(NORMALISE + " --force", new=small_disc / name)
    for part in set(written) - {"x.json"}:
        assert (small_disc / part).read_bytes() == (desk.out / part).read_bytes()


@pytest.mark.parametrize("command", ["fit {scan} -o {new}", "reference {target} -o {new}"])
def test_a_full_disc_keeps_the_old_model(desk: Desk, small_disc: Path, command: str) -> None:
    desk.done(command, new=small_disc / "x.json")
    leave(small_disc, 0)
    desk.refused(small_disc / "x.json", FULL, command + " --force", new=small_disc / "x.json")


# ── when the work is cut short ───────────────────────────────────────────────────────────────────


def started(
    desk: Desk, new: Path, more: str = "", output: str = "{new} --force"
) -> "subprocess.Popen[str]":
    """Start a command, and return when it is writing a large image."""
    noise = np.random.default_rng(0).integers(1, 3000, (200, 200, 200), dtype=np.int16)
    save(desk.folder / "large.nii", noise)
    command = f"normalise {{folder}}/large.nii {more} --to {{target}} -o {output}"
    child = in_the_background(*desk.words(command, new=new))
    wait_for_output(child, new.parent, ".ndflow-*.tmp")
    return child


@pytest.mark.parametrize(
    ("number", "code", "said", "precious"),
    [
        (signal.SIGKILL, -signal.SIGKILL, "", False),
        (signal.SIGKILL, -signal.SIGKILL, "", True),
        (signal.SIGINT, 130, "error: interrupted; .*complete", False),
        (signal.SIGTERM, 143, "error: terminated; .*complete", True),
    ],
)
def test_a_command_that_is_stopped_leaves_nothing_half_written(
    desk: Desk, number: signal.Signals, code: int, said: str, precious: bool
) -> None:
    if precious:
        desk.done(NORMALISE + " --range 0 50", new=desk.out / "x.nii.gz")
    old = snapshot(desk.out)
    child = started(desk, desk.out / "x.nii.gz")
    child.send_signal(number)
    _, err = child.communicate(timeout=60)
    assert child.returncode == code
    assert re.fullmatch(said, err.strip())
    left = snapshot(desk.out)
    assert {name: part for name, part in left.items() if not name.endswith(".tmp")} == old
    if number == signal.SIGKILL:
        assert any(name.endswith(".tmp") for name in left)  # it could not clean up
    else:
        assert left == old
    # The next run of the same command cleans up.
    desk.done(NORMALISE + " --force" * precious, new=desk.out / "x.nii.gz")
    assert set(snapshot(desk.out)) == {"x.nii.gz", "x.json"}


def test_workers_that_are_stopped_leave_nothing_behind(desk: Desk) -> None:
    child = started(desk, desk.out / "large.nii", "{scan} -j 2", "{out}")
    child.terminate()  # the first process only, as a batch system does
    _, err = child.communicate(timeout=60)
    assert child.returncode == 143
    assert len(err.splitlines()) == 1
    left = set(snapshot(desk.out)) - {"scan.nii.gz", "scan.json"}
    assert left in (set(), {"large.nii", "large.json"})  # a worker may have finished before


# ── names ────────────────────────────────────────────────────────────────────────────────────────

NAMES = [
    "with space.nii.gz",
    "über 脳 🧠.nii.gz",
    """it's "quoted" `date` $(date) %s {x}.nii.gz""",
    "new\nline\ttab.nii.gz",
    os.fsdecode(b"caf\xe9 \xff.nii.gz"),  # not UTF-8
    "[bold red]markup[link].nii.gz",
]


@pytest.mark.parametrize(
    "locale",
    [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["C", "ASCII"],
)
def test_unusual_file_names_work_in_any_locale(
    desk: Desk, process: Run, locale: dict[str, str]
) -> None:
    folder = desk.folder / "Ünï 'cödé' \n folder"
    folder.mkdir()
    content = desk.scan.read_bytes()
    for name in NAMES:
        (folder / name).write_bytes(content)
    bad = os.fsdecode(b"bad\n\xe9 \xc3\xbc.nii.gz")
    (folder / bad).write_bytes(content[:-1])
    before = snapshot(folder)
    out = folder / "out \"'"
    scans = [folder / name for name in (*NAMES, bad)]
    ran = process("normalise", *scans, "--to", desk.target, "-o", out, **locale)
    assert ran.code == 1
    error, summary = ran.errors  # one line each, whatever the name
    assert all(line.startswith(("error: ", "warning: ")) for line in ran.err.splitlines())
    assert error.startswith("error: /")
    assert re.search(r"/bad\\n.*\.nii\.gz: cut short", error)
    assert "1 of 7 scans failed" in summary
    _, row = (out / "failures.tsv").read_text("utf-8").splitlines()
    assert len(row.split("\t")) == 4
    for name in NAMES:
        assert nibabel.load(out / name).shape == HEAD.shape
        record = json.loads((out / name.replace("nii.gz", "json")).read_text("utf-8"))
        typed = record["inputs"]["image"][0]["file"]
        assert os.fsencode(typed) == os.fsencode(folder / name)
    assert len(snapshot(out)) == 2 * len(NAMES) + 1
    assert {
        name: part for name, part in snapshot(folder).items() if not name.startswith("out")
    } == before
    # Also as the names of a map, a mask and a result.
    scan = folder / NAMES[1]
    once = process(
        "apply", out / NAMES[1], "--map", out / NAMES[1].replace("nii.gz", "json"), "--mask", scan,
        "-o", folder / NAMES[2].replace("it's", "its"), "--inverse", **locale,
    )  # fmt: skip
    assert once.code == 0, once.err


@pytest.mark.parametrize(
    "command", ["normalise {0}/scan.nii.gz --to {0}/reference.json -o {0}/x.nii", "fit {0}/x.nii"]
)
def test_a_sidecar_of_the_acquisition_survives_force(run: Run, inputs: Path, command: str) -> None:
    save(inputs / "x.nii", HEAD)
    acquisition = inputs / "x.json"
    acquisition.write_text(json.dumps({"EchoTime": 0.003}))
    words = command.format(inputs).split()
    done = run(*words, *([] if "-o" in words else ["-o", f"{inputs}/"]), "--force")
    assert done.code == 2
    assert ": exists, and was not written by ndflow" in done.errors[0]
    assert json.loads(acquisition.read_text()) == {"EchoTime": 0.003}
