"""``ndflow verify``: what is missing, changed or foreign in a finished study."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Run, typed
from phantoms import head, save, tissue_shares
from studies import SMALL, SiteStudy, sha256

import ndflow
from ndflow.files.atomic import folder_lock


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with masks, tissue maps and an evaluation, and its scans beside it."""
    folder = tmp_path_factory.mktemp("made")
    study = SiteStudy(folder, per_site=2)
    maps = {
        tissue: save(folder / f"{tissue}.nii.gz", (100 * share).astype("uint8"))
        for tissue, share in tissue_shares(SMALL).items()
    }
    for number, row in enumerate(study.rows):
        inside = (head(number, shape=SMALL) != 0).astype("uint8")
        row |= {name: path.name for name, path in maps.items()}
        row["mask"] = save(folder / f"mask{number}.nii.gz", inside).name
    out = study.run("out", "--no-report", "--proportions", "tissue", "--mode", "two-level")
    typed("evaluate", out, "-q", "--permutations", 0)
    return folder


def test_a_study_as_it_was_made_is_accepted(run: Run, made: Path) -> None:
    done = run("verify", made / "out")
    assert done.code == 0
    assert "6 scans, all as they were" in done.out
    assert run("verify", made / "out", "-q") == (0, "", "")
    assert ndflow.verify(made / "out", jobs=2).findings == ()


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def swap(path: Path) -> None:
    other = next(one for one in sorted(path.parent.iterdir()) if one != path)
    shutil.copyfile(other, path)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("images/s1.nii.gz", append),
        ("images/s1.nii.gz", swap),
        ("images/s1.nii.gz", Path.unlink),
        ("maps/s1.json", swap),
        ("models/s1.json", append),
        ("reference.json", swap),
        ("reference_Bonn.json", append),
        ("map_Bonn.json", Path.unlink),
        ("scans.tsv", append),
        ("evaluation/summary.txt", append),
        ("evaluation/evaluation.json", swap),
    ],
)
def test_a_result_that_is_not_as_it_was_is_named(
    run: Run, made: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    shutil.copytree(made / "out", tmp_path / "out")
    damage(tmp_path / "out" / name)
    done = run("verify", tmp_path / "out")
    problem, named = "missing" if damage is Path.unlink else "changed", tmp_path / "out" / name
    assert done.code == 1
    assert f"{problem}: {named}: " in done.out
    assert done.errors[-1].startswith(f"error: {tmp_path / 'out'}: ")


@pytest.mark.parametrize(
    ("name", "problem"),
    [("s1.nii.gz", "changed"), ("mask1.nii.gz", "missing"), ("gm.nii.gz", "changed")],
)
def test_an_input_that_is_not_as_it_was_is_named(
    run: Run, made: Path, tmp_path: Path, name: str, problem: str
) -> None:
    """The files of the study itself are all there; only the scans have moved and changed."""
    shutil.copytree(made, tmp_path / "copy")
    table = (tmp_path / "copy" / "out" / "scans.tsv").read_text(encoding="utf-8")
    moved = table.replace(str(made), str(tmp_path / "copy"))
    (tmp_path / "copy" / "out" / "scans.tsv").write_text(moved, encoding="utf-8")
    path = tmp_path / "copy" / name
    append(path) if problem == "changed" else path.unlink()
    done = run("verify", tmp_path / "copy" / "out")
    assert done.code == 1
    assert f"{problem}: {path}: " in done.out


def test_a_file_that_nobody_knows_is_foreign(run: Run, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "out", tmp_path / "out")
    for name in ("notes.txt", "images/stranger.nii.gz", "evaluation/more.tsv"):
        (tmp_path / "out" / name).write_text("?")
    done = run("verify", tmp_path / "out")
    assert done.code == 1
    assert [line.split(": ")[:2] for line in done.out.splitlines()] == [
        ["foreign", str(tmp_path / "out" / name)]
        for name in ("evaluation/more.tsv", "images/stranger.nii.gz", "notes.txt")
    ]


def test_what_verify_says_is_what_a_second_run_mends(run: Run, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "out", tmp_path / "out")
    append(tmp_path / "out" / "images" / "s1.nii.gz")
    (tmp_path / "out" / "models" / "s2.json").unlink()
    assert run("verify", tmp_path / "out").code == 1
    words = ("--no-report", "-q", "--proportions", "tissue", "--mode", "two-level")
    assert run("cohort", made / "all.tsv", tmp_path / "out", *words, "--force").code == 0
    assert run("verify", tmp_path / "out").code == 0
    for name in ("images/s1.nii.gz", "models/s2.json"):
        assert sha256(tmp_path / "out" / name) == sha256(made / "out" / name)


def test_a_reference_that_was_given_is_checked(run: Run, made: Path, tmp_path: Path) -> None:
    given = tmp_path / "given.json"
    shutil.copyfile(made / "out" / "reference.json", given)
    words = ("--no-report", "-q", "--reference", given)
    assert run("cohort", made / "all.tsv", tmp_path / "out", *words).code == 0
    assert run("verify", tmp_path / "out").code == 0
    given.unlink()
    done = run("verify", tmp_path / "out")
    assert (done.code, done.out) == (1, f"missing: {given}: no such file\n")


def test_no_study_and_a_study_at_work_are_refused(run: Run, made: Path, tmp_path: Path) -> None:
    assert "holds no study" in run("verify", tmp_path).err
    assert run("verify", tmp_path / "nowhere").code == 2
    with folder_lock(made / "out"):
        done = run("verify", made / "out")
    assert done.code == 2
    assert "another run of ndflow is at work in it" in done.err
