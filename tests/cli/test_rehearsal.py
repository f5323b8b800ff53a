"""A dry run of a study says what would be done for each scan, and why; a run does just that."""

import re
import shutil
from pathlib import Path

import pytest
from commands import Run
from studies import SITES, SiteStudy, contents, snapshot

TWO = {name: SITES[name] for name in ("Aachen", "Bonn")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    study = SiteStudy(tmp_path_factory.mktemp("study"), TWO, per_site=2, drift=0.1)
    study.run("out")
    return study


@pytest.fixture
def study(made: SiteStudy, tmp_path: Path) -> Path:
    shutil.copytree(made.folder, tmp_path / "w")
    return tmp_path / "w"


def rehearsed(run: Run, study: Path, *words: object) -> list[tuple[str, str]]:
    """Return what would be done for each scan and why, and check that nothing is written."""
    before = snapshot(study)
    ran = run("cohort", study / "all.tsv", study / "out", "--dry-run", *words)
    assert ran.code == 0
    assert snapshot(study) == before
    lines = [re.split(r" {2,}", line) for line in ran.out.splitlines()]
    assert [name for name, _, _ in lines] == [f"s{number}" for number in range(len(lines))]
    assert max(map(len, ran.out.splitlines())) <= 100
    return [(action, why) for _, action, why in lines]


def changed(run: Run, study: Path, *words: object) -> set[str]:
    """Run, and return which results were written again."""
    before = contents(study / "out")
    dates = {name: (study / "out" / name).stat().st_mtime_ns for name in before}
    assert run("cohort", study / "all.tsv", study / "out", "-q", *words).code == 0
    return {
        name
        for name in contents(study / "out")
        if "/" in name and dates.get(name) != (study / "out" / name).stat().st_mtime_ns
    }


@pytest.mark.parametrize("mode", ["individual", "site", "two-level"])
def test_what_is_up_to_date_is_kept(run: Run, study: Path, mode: str) -> None:
    assert run("cohort", study / "all.tsv", study / "out", "--mode", mode, "--force").code == 0
    assert rehearsed(run, study, "--mode", mode) == [("keep", "up to date")] * 4
    assert changed(run, study, "--mode", mode) == set()


def test_a_change_of_settings_is_named(run: Run, study: Path) -> None:
    words = ("--set", "effective-count=5000", "--force")
    assert rehearsed(run, study, *words) == [("fit and write", "changed: effective_count")] * 4
    words = ("--range", 0, 1000, "--dtype", "int16", "--force")
    assert rehearsed(run, study, *words) == [("write", "changed: scale, range, dtype")] * 4
    folders = {name.split("/")[0] for name in changed(run, study, *words)}
    assert folders == {"images", "maps", "figures"}
    assert rehearsed(run, study, *words) == [("keep", "up to date")] * 4


def test_a_change_of_inputs_is_named_and_the_rest_depends_on_the_reference(
    run: Run, study: Path
) -> None:
    shutil.copy(study / "s0.nii.gz", study / "x.nii.gz")
    (study / "s1.nii.gz").write_bytes((study / "s0.nii.gz").read_bytes())
    depends = ("keep or write", "depends on the reference, which may change")
    steps = rehearsed(run, study)
    assert steps == [depends, ("fit and write", "changed: image"), depends, depends]


def test_with_a_reference_the_others_do_not_depend_on_a_new_scan(run: Run, study: Path) -> None:
    shutil.move(study / "out" / "reference.json", study / "r.json")
    words = ("--reference", study / "r.json", "--force")
    assert run("cohort", study / "all.tsv", study / "out", *words).code == 0
    for path in study.glob("out/*/s2*"):
        path.unlink()
    kept = ("keep", "up to date")
    assert rehearsed(run, study, *words) == [kept, kept, ("fit and write", "new"), kept]
    assert changed(run, study, *words) == {f"{kind}/s2.json" for kind in ("maps", "models")} | {
        "images/s2.nii.gz",
        "figures/s2.png",
    }


def test_results_that_were_lost_are_made_again_and_those_of_others_are_named(
    run: Run, study: Path
) -> None:
    out = study / "out"
    (out / "images" / "s0.nii.gz").unlink()
    assert rehearsed(run, study)[0] == ("write", "missing: s0.nii.gz")
    edited = out / "images" / "s1.nii.gz"
    edited.write_bytes(b"edited")
    before = snapshot(study)
    ran = run("cohort", study / "all.tsv", out, "--dry-run")
    assert ran.code == 1
    assert f"{edited}: changed since ndflow wrote it" in ran.err
    assert len(ran.out.splitlines()) == 3
    assert snapshot(study) == before
    assert rehearsed(run, study, "--force")[1] == ("write", "changed: s1.nii.gz")
    written = {name.partition(".")[0] for name in changed(run, study, "--force")}
    assert written == {f"{kind}/s{n}" for kind in ("images", "maps", "figures") for n in range(2)}
