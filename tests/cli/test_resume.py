"""Studies that are stopped, killed, changed or run twice, and resume where they left off."""

import json
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
from commands import Run, in_the_background, typed, wait_for_output
from phantoms import head, save
from studies import SMALL, read_json, results_of

import ndflow

SITES = ["Aachen", "Aachen", "Bonn", "Celle", "Celle"]
GREY = {"Aachen": 700.0, "Bonn": 800.0, "Celle": 620.0}
SCANS = [f"s{number}" for number in range(len(SITES))]
OPTIONS = {"individual": (), "site": ("--mode", "site")}  # few scans go one by one by default
REFERENCES = ["reference.json", *(f"reference_{site}.json" for site in GREY)]


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
        return ["cohort", str(self.table), str(out or self.out), "-q", *map(str, options)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A study that was run in both modes."""
    desk = Desk(tmp_path_factory.mktemp("resume") / "desk")
    desk.fill()
    for mode, options in OPTIONS.items():
        typed(*desk.words(*options, out=desk.folder / mode))
    return desk


@pytest.fixture
def desk(undisturbed: Desk) -> Iterator[Desk]:
    """That study with the results of one mode in its folder; restored after the test."""
    safe = undisturbed.folder.with_name("safe")
    shutil.copytree(undisturbed.folder, safe)
    shutil.copytree(safe / "individual", undisturbed.out)
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


@pytest.mark.parametrize("mode", ["individual", "site"])
def test_a_second_run_rewrites_nothing(run: Run, desk: Desk, mode: str) -> None:
    options = OPTIONS[mode]
    desk.out = desk.folder / mode
    first = results_of(desk.out)
    for path in desk.folder.glob("*.nii.gz"):
        os.utime(path)  # modification times do not matter
    assert redone(run, desk, *options, "-j", 2) == set()
    assert results_of(desk.out) == first
    assert redone(run, desk, *options, "--set", f"max-bytes={1 << 30}", "--force") == set()


def fresh(run: Run, desk: Desk, *options: object) -> dict[str, bytes]:
    """Return the results of a run in an empty folder."""
    out = desk.folder / "fresh"
    assert run(*desk.words(*options, out=out)).code == 0
    return results_of(out)


def test_a_changed_image_is_processed_again(run: Run, desk: Desk) -> None:
    desk.out = desk.folder / "site"
    save(desk.folder / "s2.nii.gz", image(2, seed=99))
    again = redone(run, desk, "--mode", "site")
    # The references of its site and of all sites change, hence every image, but no other model.
    assert again == MAPPED | results("s2") | {"reference.json", "reference_Bonn.json"} | {
        f"map_{site}.json" for site in GREY
    }
    assert results_of(desk.out) == fresh(run, desk, "--mode", "site")


def test_with_a_given_reference_only_the_changed_scan_is_done_again(run: Run, desk: Desk) -> None:
    reference = desk.folder / "r.json"
    models = [ndflow.fit(desk.folder / f"{name}.nii.gz").mixture for name in SCANS[:3]]
    ndflow.save(reference, ndflow.reference(models))
    options = ("--reference", reference)
    assert run(*desk.words(*options, "--force")).code == 0
    save(desk.folder / "s2.nii.gz", image(2, seed=99))
    assert redone(run, desk, *options) == results("s2") | {"reference_Bonn.json"}
    ndflow.save(reference, ndflow.reference(models[:2]), force=True)
    assert redone(run, desk, *options) == MAPPED | {"reference.json"}


def test_a_mask_that_has_changed_changes_its_scan(run: Run, desk: Desk) -> None:
    save(desk.folder / "m.nii.gz", (image(1) > 1000).astype(np.uint8))
    again = redone(run, desk)
    assert again == MAPPED | results("s1") | {"reference.json", "reference_Aachen.json"}
    assert results_of(desk.out) == fresh(run, desk)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--set", "effective-count=300"), MAPPED | results(*SCANS) | set(REFERENCES)),
        (("--set", "average=density"), MAPPED | set(REFERENCES)),
        (("--range", 0, 100), MAPPED),
        (("--method", "affine", "--set", "average=quantile"), MAPPED),
        (("--set", "outside=zero"), MAPPED),
        (("--mode", "site"), MAPPED | {f"map_{site}.json" for site in GREY}),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else "",
)
def test_an_option_changes_what_depends_on_it_by_force_only(
    run: Run, desk: Desk, options: tuple[object, ...], expected: set[str]
) -> None:
    before = times(desk.out)
    ran = run(*desk.words(*options))
    assert ran.code == 2
    assert "5 images would be replaced" in ran.err
    assert "--force" in ran.err
    assert times(desk.out) == before
    assert redone(run, desk, *options, "--force") == expected


def test_rows_added_to_a_table_leave_other_models_untouched(run: Run, desk: Desk) -> None:
    whole = desk.table.read_text()
    desk.table.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    shutil.rmtree(desk.out)
    assert run(*desk.words()).code == 0
    desk.table.write_text(whole)
    assert redone(run, desk) == MAPPED | results("s4") | {"reference.json", "reference_Celle.json"}
    assert results_of(desk.out) == fresh(run, desk)


def test_a_corrected_site_is_corrected_everywhere(run: Run, desk: Desk) -> None:
    desk.table.write_text(desk.table.read_text().replace("Bonn", "Celle"))
    redone(run, desk)
    expected = fresh(run, desk)
    for name in ("reference_Celle.json", "maps/s2.json", "scans.tsv", "provenance.json"):
        assert (name, results_of(desk.out)[name]) == (name, expected[name])


@pytest.mark.parametrize("what", ["figures/s2.png", "images/s2.nii.gz", "models/s2.json"])
def test_a_missing_result_is_made_again(run: Run, desk: Desk, what: str) -> None:
    first = results_of(desk.out)
    (desk.out / what).unlink()
    expected = {what} if "models" in what else results("s2", kinds="images maps figures")
    assert redone(run, desk) == expected
    assert results_of(desk.out) == first


def test_what_no_record_lists_is_kept_until_it_is_moved(run: Run, desk: Desk) -> None:
    first = results_of(desk.out)
    (desk.out / "maps" / "s2.json").unlink()
    before = results_of(desk.out)
    for options in ((), ("--force",)):
        ran = run(*desk.words(*options))
        assert ran.code == 2
        assert f"{desk.out / 'images' / 's2.nii.gz'}: exists" in ran.err
        assert results_of(desk.out) == before
    (desk.out / "images" / "s2.nii.gz").unlink()
    (desk.out / "figures" / "s2.png").unlink()
    assert run(*desk.words()).code == 0
    assert results_of(desk.out) == first


@pytest.mark.parametrize("what", ["images/s2.nii.gz", "figures/s2.png"])
def test_a_file_that_its_record_does_not_list_is_never_replaced(
    run: Run, desk: Desk, what: str
) -> None:
    path, sidecar = desk.out / what, desk.out / "maps" / "s2.json"
    content = read_json(sidecar)
    content["outputs"] = {n: h for n, h in content["outputs"].items() if path.name not in n}
    content.pop("checksum")  # as of another program
    sidecar.write_text(json.dumps(content))
    path.write_bytes(b"somebody's work")
    ran = run(*desk.words("--range", 0, 1, "--force"))
    assert ran.code == 1
    assert f"{path}: exists, and was not written by ndflow" in ran.err
    assert path.read_bytes() == b"somebody's work"


def flip(path: Path, place: int) -> bytes:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    return bytes(content)


def places(path: Path) -> list[int]:
    """Return places of bytes that matter in different ways: syntax, checksum, numbers."""
    content = path.read_bytes()
    if path.suffix in (".gz", ".png"):
        return [0, len(content) // 2, len(content) - 1]
    digits = [match.end() - 3 for match in re.finditer(rb"\d\.\d{6,}", content)]
    return [content.index(b'"fingerprint"') + 20, digits[0], digits[-1]]


@pytest.mark.parametrize("what", sorted(results("s2")))
def test_a_result_that_was_changed_is_replaced_by_force_only(
    run: Run, desk: Desk, what: str
) -> None:
    first, path = results_of(desk.out), desk.out / what
    for place in places(path):
        changed = flip(path, place)
        ran = run(*desk.words())
        assert ran.code == 1, f"byte {place}"
        assert f"{path}: changed since ndflow wrote it" in ran.err
        assert path.read_bytes() == changed
        assert run(*desk.words("--force")).code == 0, f"byte {place}"
        assert results_of(desk.out) == first


@pytest.mark.parametrize("content", [b"", b'{"format": "ndflow"'])
def test_an_empty_or_truncated_record_is_no_crash(run: Run, desk: Desk, content: bytes) -> None:
    first = results_of(desk.out)
    for what in ("models/s2.json", "maps/s3.json"):
        (desk.out / what).write_bytes(content)
        ran = run(*desk.words())
        assert ran.code == 1  # that scan fails, and nothing else
        assert f"{desk.out / what}: changed since ndflow wrote it" in ran.err
        assert (desk.out / what).read_bytes() == content
        (desk.out / what).write_bytes(first[what])
        assert run(*desk.words()).code == 0
    (desk.out / "reference_Bonn.json").write_bytes(content)
    assert redone(run, desk) == {"reference_Bonn.json"}
    assert results_of(desk.out) == first


def test_a_reference_of_somebody_else_is_never_replaced(run: Run, desk: Desk) -> None:
    """Be it of a site that is new, or a map of a site that the study does not need."""
    for name in ("reference_Dresden.json", "map_Dresden.json"):
        path = desk.out / name
        path.write_text("somebody's work")
        with desk.table.open("a") as table:
            table.write("s5.nii.gz\tDresden\tn/a\n")
        save(desk.folder / "s5.nii.gz", image(0, seed=55))
        for options in ((), ("--force",)):
            ran = run(*desk.words(*options))
            assert ran.code == 2
            assert f"{path}: exists, and was not written by ndflow" in ran.err
            assert path.read_text() == "somebody's work"
        path.unlink()
        desk.table.write_text("".join(desk.table.read_text().splitlines(keepends=True)[:-1]))


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


def wait_until_gone(group: int) -> None:
    """Wait until no process of a group runs: on a busy machine, workers outlive their parent."""
    while any(_runs_in(group, Path(entry)) for entry in Path("/proc").glob("[0-9]*")):
        time.sleep(0.01)


def _runs_in(group: int, process: Path) -> bool:
    try:
        state, _, own = (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except OSError:  # it has just ended
        return False
    return int(own) == group and state not in "ZX"


def walk(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)


@pytest.mark.parametrize(("jobs", "moments"), [(1, [0, 4, 9, 13, 20]), (2, [4, 18])])
def test_a_run_that_was_killed_resumes_where_it_left_off(
    run: Run, undisturbed: Desk, tmp_path: Path, jobs: int, moments: list[int]
) -> None:
    expected = results_of(undisturbed.folder / "site")
    stopped = 0
    for moment in moments:
        out = tmp_path / f"out{moment}"
        words = undisturbed.words("--mode", "site", "-j", jobs, out=out)
        with started(words, env=os.environ | {"JOBLIB_TEMP_FOLDER": str(tmp_path)}) as child:
            wait_for(child, out, moment)
            time.sleep(0.001 * (moment % 4))
            os.killpg(child.pid, signal.SIGKILL)
        wait_until_gone(child.pid)
        stopped += child.returncode == -signal.SIGKILL
        assert run(*words[:-2]).code == 0
        assert results_of(out) == expected, f"killed when there were {moment} files"
    assert stopped > len(moments) // 2  # a run may finish before it is killed, but rarely


def test_leftovers_of_a_killed_run_are_removed_by_the_next(run: Run, desk: Desk) -> None:
    # Even of a scan that is no longer in the table.
    for kind in ("", "images", "maps", "models"):
        (desk.out / kind / ".ndflow-0123456789ab-1-89abcdef.tmp").write_bytes(b"half")
    assert run(*desk.words()).code == 0
    assert results_of(desk.out) == results_of(desk.folder / "individual")


@pytest.mark.parametrize(
    ("number", "code", "word", "jobs"),
    [
        (signal.SIGINT, 130, "interrupted", 1),
        (signal.SIGINT, 130, "interrupted", 2),
        (signal.SIGTERM, 143, "terminated", 1),
    ],
)
def test_a_run_that_is_stopped_says_how_to_resume(
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
    assert results_of(out) == results_of(undisturbed.folder / "site")
    assert len(err.splitlines()) == 1
    assert err.startswith(f"error: {word}; ")
    assert re.search("the same (command )?again", err)


@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").is_file(),
    reason="workers are looked for in /proc",
)
def test_workers_interrupted_at_start_print_nothing(desk: Desk) -> None:
    with started(desk.words("-j", 2, "--set", "effective-count=999", "--force")) as child:
        while not any("popen_loky" in words for words in children(child.pid)):
            assert child.poll() is None
            time.sleep(0.001)
        time.sleep(0.1)  # by now it is importing modules
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert len(err.splitlines()) == 1, err


def children(parent: int) -> Iterator[str]:
    """Return the command lines of the children of a process."""
    for number in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with suppress(OSError):
            yield Path(f"/proc/{number}/cmdline").read_text()


def test_workers_that_are_stopped_leave_nothing_half_written(desk: Desk) -> None:
    noise = np.random.default_rng(0).integers(1, 3000, (160, 160, 160), dtype=np.int16)
    save(desk.folder / "s6.nii", noise)
    desk.table.write_text("image\ns6.nii\ns0.nii.gz\ns1.nii.gz\n")
    with started(desk.words("-j", 2, "--force")) as child:
        wait_for_output(child, desk.out, "images/*.tmp")
        child.terminate()  # the first process only, as a batch system does
        _, err = child.communicate(timeout=60)
    assert child.returncode == 143, err
    assert not list(desk.out.rglob("*.tmp"))


def test_a_second_run_at_the_same_time_in_one_folder_is_refused(
    run: Run, undisturbed: Desk, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with started(undisturbed.words("--mode", "site", out=out)) as child:
        wait_for(child, out, 5)
        os.killpg(child.pid, signal.SIGSTOP)
        before = results_of(out)
        ran = run(*undisturbed.words("--range", 0, 1, out=out))
        after = results_of(out)
        os.killpg(child.pid, signal.SIGCONT)
        child.communicate(timeout=60)
    assert ran.code == 2
    assert ran.errors == [
        f"error: {out}: another run of ndflow is at work in it; "
        "wait until it has ended, or choose another folder"
    ]
    assert before == after
    assert child.returncode == 0
    assert results_of(out) == results_of(undisturbed.folder / "site")
