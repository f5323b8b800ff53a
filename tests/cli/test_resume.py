"""Studies that are stopped, killed, changed or run twice, and go on as if nothing had happened."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from phantoms import head, save

import ndflow
from ndflow.cli import main

Run = Callable[..., Any]

SHAPE = (14, 16, 12)
SITES = ["Aachen", "Aachen", "Bonn", "Celle", "Celle"]
GREY = {"Aachen": 700.0, "Bonn": 800.0, "Celle": 620.0}
SCANS = [f"s{number}" for number in range(len(SITES))]
REFERENCES = ["reference.json", *(f"reference_{site}.json" for site in GREY)]


def image(number: int, *, seed: int | None = None) -> np.ndarray:
    tissues = ((300.0, 60.0), (GREY[SITES[number]] + 10 * (number % 3), 50.0), (1000.0, 40.0))
    return head(number if seed is None else seed, shape=SHAPE, tissues=tissues, gain=1 + number)


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
        return ["cohort", str(self.table), str(out or self.out), "-q", *map(str, options)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A study that was run in both modes."""
    desk = Desk(tmp_path_factory.mktemp("resume") / "desk")
    desk.fill()
    with pytest.MonkeyPatch.context() as patch:
        for mode in ("individual", "site"):
            words = desk.words("--mode", mode, out=desk.folder / mode)
            patch.setattr(sys, "argv", ["ndflow", *words])
            assert main() == 0
    return desk


@pytest.fixture
def desk(undisturbed: Desk) -> Iterator[Desk]:
    """The same with the results of one mode as its own; whatever happens to it, is undone."""
    safe = undisturbed.folder.with_name("safe")
    shutil.copytree(undisturbed.folder, safe)
    shutil.copytree(safe / "individual", undisturbed.out)
    yield Desk(undisturbed.folder)
    shutil.rmtree(undisturbed.folder)
    safe.rename(undisturbed.folder)


def times(out: Path) -> dict[str, tuple[int, int]]:
    """When each result was written, and which file it is."""
    paths = [path for path in out.rglob("*") if path.is_file() and path.name[0] != "."]
    found = {str(path.relative_to(out)): path.stat() for path in paths}
    accounts = ("provenance.json", "scans.tsv")  # of the last run, whatever it did
    return {
        name: (stat.st_mtime_ns, stat.st_ino)
        for name, stat in found.items()
        if name not in accounts
    }


def tree(out: Path) -> dict[str, bytes]:
    """All that there is, but for the command that was typed."""
    found = {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }
    found.pop(".ndflow-lock", None)
    provenance = json.loads(found.pop("provenance.json"))
    del provenance["command"]
    return found | {"provenance.json": json.dumps(provenance).encode()}


def redone(run: Run, desk: Desk, *options: object) -> set[str]:
    """Run the study again; return what was written again or is gone."""
    before = times(desk.out)
    assert run(*desk.words(*options)).code == 0
    after = times(desk.out)
    return {name for name in before | after if before.get(name) != after.get(name)}


def results(*names: str, kinds: str = "models images maps") -> set[str]:
    ends = {"models": ".json", "images": ".nii.gz", "maps": ".json"}
    return {f"{kind}/{name}{ends[kind]}" for kind in kinds.split() for name in names}


MAPPED = results(*SCANS, kinds="images maps")


# ── what a second run does ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["individual", "site"])
def test_a_second_run_keeps_everything(run: Run, desk: Desk, mode: str) -> None:
    options = ("--mode", mode)
    desk.out = desk.folder / mode
    first = tree(desk.out)
    for path in desk.folder.glob("*.nii.gz"):
        os.utime(path)  # dates do not count
    assert redone(run, desk, *options, "-j", 2) == set()
    assert tree(desk.out) == first
    assert redone(run, desk, *options, "--max-bytes", 1 << 30, "--force") == set()


def fresh(run: Run, desk: Desk, *options: object) -> dict[str, bytes]:
    """Return what a run gives that finds nothing done."""
    out = desk.folder / "fresh"
    assert run(*desk.words(*options, out=out)).code == 0
    return tree(out)


def test_an_image_that_has_changed_is_done_again(run: Run, desk: Desk) -> None:
    desk.out = desk.folder / "site"
    save(desk.folder / "s2.nii.gz", image(2, seed=99))
    again = redone(run, desk, "--mode", "site")
    # Its site and the reference of all have changed, and with it every image; but no other model.
    assert again == MAPPED | results("s2") | {"reference.json", "reference_Bonn.json"} | {
        f"map_{site}.json" for site in GREY
    }
    assert tree(desk.out) == fresh(run, desk, "--mode", "site")


def test_with_a_given_reference_only_the_changed_scan_is_done_again(run: Run, desk: Desk) -> None:
    reference = desk.folder / "r.json"
    models = [ndflow.fit_image(desk.folder / f"{name}.nii.gz").mixture for name in SCANS[:3]]
    ndflow.save(reference, ndflow.reference(models))
    options = ("--reference", reference)
    assert run(*desk.words(*options)).code == 0
    save(desk.folder / "s2.nii.gz", image(2, seed=99))
    assert redone(run, desk, *options) == results("s2") | {"reference_Bonn.json"}
    ndflow.save(reference, ndflow.reference(models[:2]), force=True)
    assert redone(run, desk, *options) == MAPPED | {"reference.json"}


def test_a_mask_that_has_changed_changes_its_scan(run: Run, desk: Desk) -> None:
    save(desk.folder / "m.nii.gz", (image(1) > 1000).astype(np.uint8))
    again = redone(run, desk)
    assert again == MAPPED | results("s1") | {"reference.json", "reference_Aachen.json"}
    assert tree(desk.out) == fresh(run, desk)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--effective-count", 300), MAPPED | results(*SCANS) | set(REFERENCES)),
        (("--average", "quantile"), MAPPED | set(REFERENCES)),
        (("--range", 0, 100), MAPPED),
        (("--method", "affine"), MAPPED),
        (("--outside", "zero"), MAPPED),
        (("--mode", "site"), MAPPED | {f"map_{site}.json" for site in GREY}),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else "",
)
def test_an_option_changes_what_depends_on_it(
    run: Run, desk: Desk, options: tuple[object, ...], expected: set[str]
) -> None:
    assert redone(run, desk, *options) == expected


def test_a_table_that_has_grown_keeps_the_models(run: Run, desk: Desk) -> None:
    whole = desk.table.read_text()
    desk.table.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    shutil.rmtree(desk.out)
    assert run(*desk.words()).code == 0
    desk.table.write_text(whole)
    assert redone(run, desk) == MAPPED | results("s4") | {"reference.json", "reference_Celle.json"}
    assert tree(desk.out) == fresh(run, desk)


def test_a_site_that_is_corrected_is_corrected_everywhere(run: Run, desk: Desk) -> None:
    desk.table.write_text(desk.table.read_text().replace("Bonn", "Celle"))
    redone(run, desk)
    expected = fresh(run, desk)
    for name in ("reference_Celle.json", "maps/s2.json", "scans.tsv", "provenance.json"):
        assert (name, tree(desk.out)[name]) == (name, expected[name])


@pytest.mark.parametrize("what", ["models/s2.json", "images/s2.nii.gz", "maps/s2.json"])
def test_a_result_that_is_gone_is_made_again(run: Run, desk: Desk, what: str) -> None:
    first = tree(desk.out)
    (desk.out / what).unlink()
    expected = {what} if "models" in what else results("s2", kinds="images maps")
    assert redone(run, desk) == expected
    assert tree(desk.out) == first


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def places(path: Path) -> list[int]:
    """Bytes whose change hurts in different ways: syntax, stamp, a digit of the model itself."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        return [0, len(content) // 2, len(content) - 1]
    digits = [match.end() - 3 for match in re.finditer(rb"\d\.\d{6,}", content)]
    return [0, content.index(b'"stamp"') + 20, digits[0], digits[len(digits) // 2], digits[-1]]


@pytest.mark.parametrize("what", ["models/s2.json", "images/s2.nii.gz", "maps/s2.json"])
def test_a_result_that_is_damaged_is_made_again(run: Run, desk: Desk, what: str) -> None:
    first = tree(desk.out)
    expected = {what} if "models" in what else results("s2", kinds="images maps")
    for place in places(desk.out / what):
        flip(desk.out / what, place)
        assert redone(run, desk) >= expected, f"byte {place}"
        assert tree(desk.out) == first


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": "ndflow"'])
def test_a_file_that_was_cut_short_is_made_again(run: Run, desk: Desk, content: bytes) -> None:
    first = tree(desk.out)
    for what in ("models/s2.json", "maps/s3.json", "images/s4.nii.gz", "reference_Bonn.json"):
        (desk.out / what).write_bytes(content)
    expected = results("s3", "s4", kinds="images maps")
    assert redone(run, desk) == {"models/s2.json", "reference_Bonn.json"} | expected
    assert tree(desk.out) == first


# ── runs that end before their time ──────────────────────────────────────────────────────────────


@contextmanager
def started(words: list[str], **more: Any) -> Iterator["subprocess.Popen[str]"]:
    """A run in a process group of its own, which is gone at the end."""
    child = subprocess.Popen(
        [sys.executable, "-m", "ndflow", *words],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **more,
    )
    with child:
        try:
            yield child
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    for left in Path("/dev/shm").glob(f"sem.loky-{child.pid}-*"):
        left.unlink(missing_ok=True)


def wait_for(child: "subprocess.Popen[str]", out: Path, number: int) -> None:
    """Wait until there are so many files, whatever they are, or the run has ended."""
    while child.poll() is None and sum(path.is_file() for path in walk(out)) < number:
        time.sleep(0.002)


def walk(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)


@pytest.mark.parametrize(("jobs", "moments"), [(1, [0, 1, 4, 8, 9, 13, 16, 20]), (2, [4, 18])])
def test_a_run_that_is_killed_goes_on_as_if_it_had_not_been(
    run: Run, undisturbed: Desk, tmp_path: Path, jobs: int, moments: list[int]
) -> None:
    expected = tree(undisturbed.folder / "site")
    stopped = 0
    for moment in moments:
        out = tmp_path / f"out{moment}"
        words = undisturbed.words("--mode", "site", "-j", jobs, out=out)
        with started(words, env=os.environ | {"JOBLIB_TEMP_FOLDER": str(tmp_path)}) as child:
            wait_for(child, out, moment)
            time.sleep(0.001 * (moment % 4))
            os.killpg(child.pid, signal.SIGKILL)
        stopped += child.returncode == -signal.SIGKILL
        assert run(*words[:-2]).code == 0
        assert tree(out) == expected, f"killed when there were {moment} files"
    assert stopped > len(moments) // 2  # a run may have been quicker than the kill, but not often


def test_what_a_killed_run_left_behind_goes_with_the_next(run: Run, desk: Desk) -> None:
    # Also of a scan that the table has no more.
    for kind in ("", "images", "maps", "models"):
        (desk.out / kind / ".ndflow-0123456789ab-1-89abcdef.tmp").write_bytes(b"half")
    assert run(*desk.words()).code == 0
    assert tree(desk.out) == tree(desk.folder / "individual")


@pytest.mark.parametrize(
    ("number", "code", "word", "jobs"),
    [
        (signal.SIGINT, 130, "interrupted", 1),
        (signal.SIGINT, 130, "interrupted", 2),
        (signal.SIGTERM, 143, "terminated", 1),
    ],
)
def test_a_run_that_is_stopped_says_how_to_go_on(
    run: Run,
    undisturbed: Desk,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    word: str,
    jobs: int,
) -> None:
    out = tmp_path / "out"
    words = undisturbed.words("--mode", "site", "-j", jobs, out=out)
    with started(words) as child:
        wait_for(child, out, 5)
        os.killpg(child.pid, number)  # as a terminal does with Ctrl-C
        _, err = child.communicate(timeout=60)
    assert child.returncode == code, err
    assert not list(out.rglob("*.tmp"))
    assert run(*words[:-2]).code == 0
    assert tree(out) == tree(undisturbed.folder / "site")
    assert len(err.splitlines()) == 1
    assert err.startswith(f"error: {word}; ")
    assert re.search("the same (command )?again", err)


@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").is_file(),
    reason="workers are looked for in /proc",
)
def test_workers_that_are_interrupted_while_they_start_say_nothing(desk: Desk) -> None:
    with started(desk.words("-j", 2, "--force")) as child:
        while not any("popen_loky" in words for words in children(child.pid)):
            assert child.poll() is None
            time.sleep(0.001)
        time.sleep(0.1)  # now it loads modules
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert len(err.splitlines()) == 1, err


def children(parent: int) -> Iterator[str]:
    """How the processes that another has started were called."""
    for number in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with suppress(OSError):
            yield Path(f"/proc/{number}/cmdline").read_text()


def test_workers_that_are_stopped_leave_nothing_half_written(desk: Desk) -> None:
    noise = np.random.default_rng(0).integers(1, 3000, (160, 160, 160), dtype=np.int16)
    save(desk.folder / "s6.nii", noise)
    desk.table.write_text("image\ns6.nii\ns0.nii.gz\ns1.nii.gz\n")
    with started(desk.words("-j", 2, "--force")) as child:
        while not any(size(path) > 1 << 20 for path in desk.out.glob("images/*.tmp")):
            assert child.poll() is None
            time.sleep(0.001)
        child.terminate()  # the first process only, as a batch system does
        _, err = child.communicate(timeout=60)
    assert child.returncode == 143, err
    assert not list(desk.out.rglob("*.tmp"))


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def test_of_two_runs_in_one_folder_one_is_refused(
    run: Run, undisturbed: Desk, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with started(undisturbed.words("--mode", "site", out=out)) as child:
        wait_for(child, out, 5)
        os.killpg(child.pid, signal.SIGSTOP)
        before = tree(out)
        ran = run(*undisturbed.words("--range", 0, 1, out=out))
        after = tree(out)
        os.killpg(child.pid, signal.SIGCONT)
        child.communicate(timeout=60)
    assert ran.code == 2
    assert ran.errors == [
        f"error: {out}: another run of ndflow is at work in it; "
        "wait until it has ended, or choose another folder"
    ]
    assert before == after
    assert child.returncode == 0
    assert tree(out) == tree(undisturbed.folder / "site")
