"""The folder of a study: what it must not hold, what is removed from it, what has changed in it."""

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies import Silent, SiteStudy, contents, read_json, sha256

from ndflow.errors import FileError
from ndflow.image.mask import AUTO
from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Options
from ndflow.reporting.build import check_page
from ndflow.study import tasks
from ndflow.study.manifest import (
    check_place,
    remove_results,
    remove_unchanged,
    verify,
)
from ndflow.study.plan import PROVENANCE, REPORT, SCANS, Study
from ndflow.study.run import Asked, assemble, check_study, run_study
from ndflow.study.scan_steps import NormaliseStep
from ndflow.study.table import named, read_table, study_scans
from ndflow.study.tasks import Failure
from ndflow.subject.presets import Choices
from ndflow.subject.records import StudyRecord

SETTINGS = Study(Path("/out"), []).settings


def scans(*names: str, channel: str = "T1w") -> list[Subject]:
    found = [
        Subject({channel: f"/in/{name}.nii"}, origin=f"row {n}") for n, name in enumerate(names)
    ]
    return named(found)


def refused(study: Study) -> str:
    """Return why a folder is refused."""
    with pytest.raises(FileError) as caught:
        check_place(study, [])
    return str(caught.value)


# ── before a run ──────────────────────────────────────────────────────────────────────────────────


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    study = Study(tmp_path, scans("a"))
    check_place(replace(study, folder=tmp_path / "new"), [])
    check_place(study, [])
    (tmp_path / ".ndflow-lock").touch()  # another run may start at the same time
    check_place(study, [])
    (tmp_path / "mine.txt").touch()
    assert "--force" in refused(study)
    check_place(replace(study, options=Options(force=True)), [])
    StudyRecord(settings=SETTINGS, channels=("T1w",)).write(tmp_path / PROVENANCE)
    check_place(study, [])
    assert "'T1w', not a study of 'T2w'" in refused(Study(tmp_path, scans("a", channel="T2w")))


def test_a_folder_with_results_of_other_scans_is_refused(tmp_path: Path) -> None:
    for scan in scans("b", "c"):
        image = Study(tmp_path, [scan]).paths(scan).image
        image.parent.mkdir(exist_ok=True)
        image.touch()
    (tmp_path / SCANS).write_bytes(study_scans(tmp_path, scans("a", "b", "c")))
    listed = {SCANS: sha256(tmp_path / SCANS)}
    StudyRecord(settings=SETTINGS, channels=("T1w",), outputs=listed).write(tmp_path / PROVENANCE)
    check_place(Study(tmp_path, scans("c", "b", "a", "d")), [])
    check_place(Study(tmp_path, scans("c", "b")), [])  # the other has failed
    assert "2 scans not listed in this study, such as b" in refused(Study(tmp_path, scans("a")))


def test_inputs_in_the_folder_for_results_are_refused(tmp_path: Path) -> None:
    (scan,) = scans("a")
    inside = str(tmp_path / "out" / "deep" / "x.nii")
    check_place(Study(tmp_path / "out", [replace(scan, mask=AUTO)]), [])
    check_place(Study(tmp_path / "ou", [replace(scan, images={"T1w": inside})]), [])
    for changes in ({"images": {"T1w": inside}}, {"tissues": TissueMaps(wm=inside)}):
        cause = refused(Study(tmp_path / "out", [replace(scan, **changes)]))  # type: ignore[arg-type]
        assert cause.startswith(inside)
        assert "lies in the folder for the results (row 0)" in cause


# ── a finished study ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study, beside its scans and their table."""
    desk = SiteStudy(tmp_path_factory.mktemp("scans"), per_site=2)
    run_study(planned(desk.table("all").parent), Silent())
    return desk.folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def planned(folder: Path, **options: Any) -> Study:
    asked = Asked(Choices(options=options))
    return assemble(read_table(folder / "all.tsv"), folder / "out", asked)


def test_other_settings_need_force_and_are_named(place: Path) -> None:
    check_study(planned(place))
    check_study(planned(place, max_bytes=1 << 30))
    before = contents(place)
    with pytest.raises(FileError) as caught:
        run_study(planned(place, mode="site", dtype="float64"), Silent())
    for words in ("mode individual, now site", "dtype float32, now float64"):
        assert words in caught.value.cause
    assert "--force" in caught.value.hint
    assert contents(place) == before
    assert run_study(planned(place, dtype="float64", force=True), Silent())[:2] == (6, 0)
    assert verify(place / "out").findings == ()


def test_results_of_scans_that_fail_are_removed_unless_somebody_changed_them(place: Path) -> None:
    study, edited = planned(place), place / "out/images/s1.nii.gz"
    edited.write_bytes(b"precious")
    failures = [Failure(name, "a cause", "", "", "") for name in ("s0", "s1")]
    for _ in range(2):  # a second time does no harm
        remove_results(NormaliseStep.of(study), study.scans, failures)
    left = {p.relative_to(place / "out").as_posix() for p in (place / "out").rglob("s[01].*")}
    assert left == {
        *("models/s0.json", "models/s1.json"),
        *("images/s1.nii.gz", "maps/s1.json", "figures/s1.png"),
    }


# ── the report ────────────────────────────────────────────────────────────────────────────────────


def test_only_a_report_of_ours_is_removed_or_replaced(tmp_path: Path) -> None:
    page = tmp_path / REPORT
    check_page(page)
    page.write_text("mine")
    with pytest.raises(FileError, match="not written by ndflow"):
        check_page(page, force=True)
    StudyRecord(settings={}, outputs={REPORT: sha256(page)}).write(tmp_path / PROVENANCE)
    check_page(page)
    page.write_text("edited")
    with pytest.raises(FileError, match=r"changed since.*--force"):
        check_page(page)
    check_page(page, force=True)
    remove_unchanged(tmp_path, [page.name])
    assert page.exists()
    page.write_text("mine")
    remove_unchanged(tmp_path, [page.name])
    assert not page.exists()


# ── verify ────────────────────────────────────────────────────────────────────────────────────────


def unseal(path: Path) -> None:
    """Change a record of ours, and remove its checksum."""
    data = {**read_json(path), "edited": True}
    del data["checksum"]
    path.write_text(json.dumps(data))


def problems(out: Path) -> list[tuple[str, str]]:
    return sorted((one.problem, Path(one.path).name) for one in verify(out).findings)


def test_whatever_is_missing_changed_or_foreign_is_found(made: Path, place: Path) -> None:
    assert problems(made / "out") == []
    for name in ("images/s0.nii.gz", "reference_Bonn.json"):
        path = place / "out" / name
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    (place / "out" / "reference_Celle.json").unlink()
    for name in ("mine.txt", "images/s9.nii.gz", ".ndflow-x.tmp"):
        (place / "out" / name).touch()
    found = [("changed", "reference_Bonn.json"), ("changed", "s0.nii.gz")]
    found += [
        ("foreign", "mine.txt"),
        ("foreign", "s9.nii.gz"),
        ("missing", "reference_Celle.json"),
    ]
    assert problems(place / "out") == found
    assert verify(place / "out", jobs=2) == verify(place / "out")


def test_an_edited_record_list_or_table_is_found(place: Path) -> None:
    out = place / "out"
    (out / "failures.tsv").write_text("scan\tstage\tcause\ttry\ns1\tfit\tinvented\tn/a\n")
    unseal(out / "models" / "s0.json")
    assert problems(out) == [("changed", "s0.json"), ("foreign", "failures.tsv")]
    unseal(out / PROVENANCE)
    with pytest.raises(FileError, match="its checksum is missing"):
        verify(out)
    with pytest.raises(FileError, match="its checksum is missing"):
        run_study(planned(place, force=True), Silent())


def test_an_edited_list_or_a_link_is_named_for_what_it_is(place: Path) -> None:
    (place / "out" / SCANS).write_text("n/a")
    with pytest.raises(FileError, match=f"{SCANS}: changed since ndflow wrote it"):
        run_study(planned(place), Silent())
    sidecar = place / "out" / "maps" / "s1.json"
    sidecar.unlink()
    sidecar.symlink_to("nowhere")
    (failure,) = run_study(planned(place, force=True), tasks.Silent()).failures
    assert failure.cause.startswith(f"{sidecar}: a symbolic link")


def test_the_table_of_the_user_and_the_failures_are_checked_too(place: Path) -> None:
    table, bad = place / "all.tsv", place / "s0.nii.gz"
    bad.write_bytes(b"none")
    assert len(run_study(planned(place), tasks.Silent()).failures) == 1
    bad.unlink()
    failures = place / "out" / "failures.tsv"
    assert problems(place / "out") == []
    failures.write_text("")
    table.write_text(table.read_text() + "\n")
    assert problems(place / "out") == [("changed", "all.tsv"), ("changed", "failures.tsv")]


def test_what_is_compressed_again_is_as_it_was(place: Path) -> None:
    image = place / "out" / "images" / "s0.nii.gz"
    image.write_bytes(gzip.compress(gzip.decompress(image.read_bytes()), 1))
    assert problems(place / "out") == []
    assert run_study(planned(place), Silent()).kept == 6
