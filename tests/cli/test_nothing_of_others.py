"""``--force`` replaces what we wrote, and nothing else."""

import shutil
from pathlib import Path

import pytest
from commands import Run
from studies import SITES, SiteStudy, contents

import ndflow

TWO = {name: SITES[name] for name in ("Aachen", "Bonn")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    """Four scans of two sites, and a study of them, which tests must not change."""
    study = SiteStudy(tmp_path_factory.mktemp("study"), TWO, per_site=2)
    study.run("out", "--mode", "site")
    return study


@pytest.fixture
def study(made: SiteStudy, tmp_path: Path) -> Path:
    """A folder with the scans, their table ``all.tsv`` and the results ``out``."""
    shutil.copytree(made.folder, tmp_path / "w")
    return tmp_path / "w"


def test_the_table_is_never_overwritten(run: Run, study: Path) -> None:
    shutil.rmtree(study / "out")
    table = (study / "all.tsv").rename(study / "scans.tsv")
    (study / "in").mkdir()
    for image in study.glob("*.nii.gz"):
        image.rename(study.parent / image.name)
    table.write_text(table.read_text().replace("s0", "../s0").replace("s1", "../s1"))
    table.write_text(table.read_text().replace("s2", "../s2").replace("s3", "../s3"))
    before = contents(study)
    for more in ((), ("--dry-run",)):
        ran = run("cohort", table, study, "--force", *more)
        assert (ran.code, len(ran.errors)) == (2, 1)
        assert f"{table}: lies where the study writes a file of that name" in ran.errors[0]
        assert contents(study) == before


def test_a_study_is_not_run_on_its_own_list(run: Run, study: Path) -> None:
    ran = run("cohort", study / "out" / "scans.tsv", study / "out", "--force")
    assert (ran.code, len(ran.errors)) == (2, 1)


def test_the_reference_that_was_given_is_never_overwritten(run: Run, study: Path) -> None:
    before = contents(study)
    reference = study / "out" / "reference.json"
    ran = run("cohort", study / "all.tsv", study / "out", "--reference", reference, "--force")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"{reference}: lies where the study writes" in ran.errors[0]
    assert contents(study) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("images/s1.nii.gz", "precious"),
        ("maps/s1.json", '{"format": "mine"}'),
        ("models/s1.json", ""),
        ("map_Bonn.json", "precious"),
        ("provenance.json", '{"format": "mine"}'),
        ("reference.json", "precious"),
        ("reference_Aachen.json", ""),
        ("scans.tsv", "precious"),
    ],
)
def test_files_of_others_are_never_replaced(run: Run, study: Path, name: str, content: str) -> None:
    new = study / "new"
    (new / name).parent.mkdir(parents=True)
    (new / name).write_text(content)
    for more in ((), ("--dry-run",)):
        ran = run("cohort", study / "all.tsv", new, "--mode", "site", "--force", *more)
        assert (ran.code, len(ran.errors)) == (2, 1)
        assert f"{new / name}: exists, and was not written by ndflow; move it" in ran.errors[0]
        assert contents(new) == {name: content.encode()}


@pytest.mark.parametrize("name", ["images/new.nii.gz", "maps/new.json", "models/new.json"])
def test_nor_are_those_in_the_folder_of_a_study(run: Run, study: Path, name: str) -> None:
    shutil.copy(study / "s0.nii.gz", study / "new.nii.gz")
    (study / "out" / name).write_text("precious")
    (study / "all.tsv").write_text((study / "all.tsv").read_text() + "new.nii.gz\tBonn\tp9\n")
    ran = run("cohort", study / "all.tsv", study / "out", "--mode", "site", "--force")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"{study / 'out' / name}: exists, and was not written by ndflow" in ran.errors[0]
    assert (study / "out" / name).read_text() == "precious"


def test_what_we_wrote_is_replaced(run: Run, study: Path) -> None:
    words = ("cohort", study / "all.tsv", study / "out", "--mode", "site")
    expected = contents(study / "out" / "images")
    for name in ("images/s0.nii.gz", "maps/s1.json", "models/s2.json", "reference.json"):
        (study / "out" / name).write_bytes(b"damaged")
    assert run(*words, "--force").code == 0
    assert contents(study / "out" / "images") == expected
    assert run(*words, "--force", "--range", 0, 1000).code == 0
    assert contents(study / "out" / "images") != expected


def test_without_its_record_nothing_in_a_folder_is_ours(run: Run, study: Path) -> None:
    (study / "out" / "provenance.json").unlink()
    before = contents(study)
    ran = run("cohort", study / "all.tsv", study / "out", "--mode", "site", "--force")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert "exists, and was not written by ndflow" in ran.errors[0]
    assert contents(study) == before


def test_a_model_of_another_kind_is_not_ours(run: Run, study: Path) -> None:
    new = study / "new"
    (new / "models").mkdir(parents=True)
    ndflow.save(new / "models" / "s1.json", ndflow.Affine(1.0, 0.0))
    ran = run("cohort", study / "all.tsv", new, "--force")
    assert (ran.code, len(ran.errors)) == (2, 1)


def test_scans_of_others_in_a_folder_for_results_are_left_alone(run: Run, study: Path) -> None:
    other = study / "other"
    other.mkdir()
    words = ("normalise", study / "s0.nii.gz", study / "s1.nii.gz", "-o", other, "--force")
    to = ("--to", study / "out" / "reference.json")
    shutil.copy(study / "s2.nii.gz", other / "s1.nii.gz")
    before = contents(other)
    ran = run(*words, *to)
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"{other / 's1.nii.gz'}: exists, and was not written by ndflow" in ran.errors[0]
    assert contents(other) == before
    (other / "s1.nii.gz").unlink()
    for _ in range(2):  # results of ours are replaced
        assert run(*words, *to).code == 0


@pytest.mark.parametrize("name", ["fitness.tsv", "pair.png"])
def test_an_evaluation_replaces_no_files_of_others(run: Run, study: Path, name: str) -> None:
    folder = study / "e"
    folder.mkdir()
    (folder / name).write_text("precious")
    ran = run("evaluate", study / "out", "-o", folder, "--force", "--permutations", 0)
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"{folder / name}: exists, and was not written by ndflow" in ran.errors[0]
    assert contents(folder) == {name: b"precious"}
