"""``ndflow verify``: what is missing, changed or foreign in a finished study."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Run
from studies import SiteStudy, edit, sha256

from ndflow.files.atomic import folder_lock


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def swap(path: Path) -> None:
    other = next(one for one in sorted(path.parent.iterdir()) if one != path and one.is_file())
    shutil.copyfile(other, path)


def test_a_study_as_it_was_made_is_accepted_in_a_process(process: Run, out: Path) -> None:
    assert process("verify", out).code == 0
    assert process("verify", out, "-q", "-j", 2) == (0, "", "")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("images/s1.nii.gz", append),
        ("images/s1.nii.gz", Path.unlink),
        ("maps/s1.json", swap),
        ("models/s1.json", append),
        ("reference.json", swap),
        ("reference_Bonn.json", append),
        ("map_Bonn.json", Path.unlink),
        ("scans.tsv", append),
        ("evaluation/fitness.tsv", append),
    ],
)
def test_a_result_that_is_not_as_it_was_is_named(
    run: Run, out: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: Callable[[Path], None]
) -> None:
    if "evaluation" in name:
        monkeypatch.setattr("ndflow.evaluation.save.drawings", lambda _: [])
        words = ("--permutations", 0, "--trees", 2, "-q")
        assert run("evaluate", out, *words).code == 0
        assert run("verify", out).code == 0
    damage(out / name)
    done = run("verify", out)
    assert done.code == 1
    assert f"{'missing' if damage is Path.unlink else 'changed'}: {out / name}: " in done.out
    assert len(done.errors) == 1


@pytest.mark.parametrize(
    ("name", "problem"),
    [("s1.nii.gz", "changed"), ("mask1.nii.gz", "missing"), ("gm.nii.gz", "changed")],
)
def test_an_input_that_is_not_as_it_was_is_named(
    run: Run, study: SiteStudy, work: Path, name: str, problem: str
) -> None:
    table = work / "out" / "scans.tsv"  # of the copy, so that the scans are those of the copy
    table.write_text(table.read_text("utf-8").replace(str(study.folder), str(work)), "utf-8")
    append(work / name) if problem == "changed" else (work / name).unlink()
    done = run("verify", work / "out")
    assert done.code == 1
    assert f"{problem}: {work / name}: " in done.out


def test_what_is_foreign_is_named_and_what_is_at_work_is_left_alone(run: Run, out: Path) -> None:
    for name in ("notes.txt", "images/stranger.nii.gz"):
        (out / name).write_text("?")
    done = run("verify", out)
    assert done.code == 1
    assert [line.split(": ")[:2] for line in done.out.splitlines()] == [
        ["foreign", str(out / name)] for name in ("images/stranger.nii.gz", "notes.txt")
    ]
    with folder_lock(out):
        assert run("verify", out).code == 2


def test_what_verify_finds_a_second_run_mends(run: Run, study: SiteStudy, out: Path) -> None:
    append(out / "images" / "s1.nii.gz")
    (out / "models" / "s2.json").unlink()
    words = ("-q", "--proportions", "tissue", "--mode", "two-level", "--force")
    assert run("cohort", study.folder / "all.tsv", out, *words).code == 0
    assert run("verify", out).code == 0
    for name in ("images/s1.nii.gz", "models/s2.json"):
        assert sha256(out / name) == sha256(study.folder / "out" / name)


def test_a_reference_that_was_given_is_checked(run: Run, study: SiteStudy, tmp_path: Path) -> None:
    given = shutil.copy(study.folder / "out" / "reference.json", tmp_path / "given.json")
    words = ("-q", "--reference", given)
    assert run("cohort", study.folder / "all.tsv", tmp_path / "out", *words).code == 0
    assert run("verify", tmp_path / "out").code == 0
    edit(Path(given), comment="improved")
    done = run("verify", tmp_path / "out")
    assert (done.code, done.out.count(str(given))) == (1, 1)
