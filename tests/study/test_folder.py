"""The folder of a study: what it must not hold, and what is removed from it."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from ndflow.errors import FileError
from ndflow.image.mask import AUTO
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study.folder import (
    PROVENANCE,
    REPORT,
    SCANS,
    UNSIGNED,
    refuse_foreign,
    refuse_foreign_page,
    refuse_inputs_inside,
    refuse_other_scans,
    remove_failed,
    remove_leftovers,
    remove_page,
    signed,
)
from ndflow.study.plan import Study
from ndflow.study.table import named_scans, write_study_scans
from ndflow.study.tasks import Failure
from ndflow.subject.records import StudyRecord

OURS = (
    f'<head><meta name="generator" content="ndflow 9">'
    f'<meta name="ndflow-sha256" content="{UNSIGNED}"><title>mine</title><body>'
)


def scans(*names: str) -> list[Subject]:
    return named_scans(
        [Subject(f"/in/{name}.nii", origin=f"row {n}") for n, name in enumerate(names)]
    )


def failed(*names: str) -> list[Failure]:
    return [Failure(name, "a cause", "", "", "") for name in names]


def with_results(folder: Path, *names: str) -> Study:
    """Return a study with a file for each of its results."""
    study = Study(folder, scans(*names))
    for scan in study.scans:
        for path in study.paths(scan):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return study


def files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    refuse_foreign(tmp_path / "new", "T1w")
    refuse_foreign(tmp_path, "T1w")
    (tmp_path / ".ndflow-lock").touch()  # another run may start at the same time
    refuse_foreign(tmp_path, "T1w")
    (tmp_path / "mine.txt").touch()
    with pytest.raises(FileError, match="not the result of a study") as caught:
        refuse_foreign(tmp_path, "T1w")
    assert "--force" in caught.value.hint
    StudyRecord(settings={}, channel="T1w").write(tmp_path / PROVENANCE)
    refuse_foreign(tmp_path, "T1w")
    with pytest.raises(FileError, match="holds a study of 'T1w', not of 'T2w'"):
        refuse_foreign(tmp_path, "T2w")


def test_a_folder_with_results_of_other_scans_is_refused(tmp_path: Path) -> None:
    refuse_other_scans(Study(tmp_path, scans("a")))
    with_results(tmp_path, "b", "c")
    write_study_scans(tmp_path / SCANS, scans("a", "b", "c"))
    refuse_other_scans(Study(tmp_path, scans("c", "b", "a", "d")))
    refuse_other_scans(Study(tmp_path, scans("c", "b")))  # the other has failed
    with pytest.raises(FileError, match="holds 2 scans that are not in this study, such as b"):
        refuse_other_scans(Study(tmp_path, scans("a")))


@pytest.mark.parametrize("part", ["image", "mask", "lesion", "wm"])
def test_inputs_in_the_folder_for_results_are_refused(tmp_path: Path, part: str) -> None:
    (scan,) = scans("a")
    inside = str(tmp_path / "out" / "deep" / "x.nii")
    refuse_inputs_inside(Study(tmp_path / "out", [replace(scan, mask=AUTO)]))
    refuse_inputs_inside(Study(tmp_path / "ou", [replace(scan, image=inside)]))
    change = {"tissues": TissueMaps(wm=inside)} if part == "wm" else {part: inside}
    with pytest.raises(FileError, match=r"lies in the folder for the results \(row 0\)") as caught:
        refuse_inputs_inside(Study(tmp_path / "out", [replace(scan, **change)]))
    assert caught.value.path == inside


def test_of_scans_that_failed_only_what_is_still_valid_stays(tmp_path: Path) -> None:
    study = with_results(tmp_path, "a", "b", "c")
    remove_failed(study, failed("a"), failed("b"))
    results = ("models/c.json", "images/c.nii.gz", "maps/c.json", "figures/c.png")
    assert files(tmp_path) == {"models/b.json", *results}
    remove_failed(study, failed("a"), failed("b"))  # a second time does no harm


@pytest.mark.parametrize(
    ("content", "ours"),
    [
        (signed(OURS), True),
        (signed(OURS).replace(b"mine", b"MINE"), False),
        (OURS.encode(), False),
        (b"<head><title>mine</title><body>" + signed(OURS), False),
        (signed(OURS.replace("ndflow 9", "ndflower 9")), False),
        (b"", False),
    ],
)
def test_only_a_page_of_ours_is_removed_or_replaced(
    tmp_path: Path, content: bytes, ours: bool
) -> None:
    page = tmp_path / REPORT
    remove_page(tmp_path)
    refuse_foreign_page(page)
    page.write_bytes(content)
    with nullcontext() if ours else pytest.raises(FileError, match=r"written by ndflow|edited"):
        refuse_foreign_page(page)
    remove_page(tmp_path)
    assert page.exists() is not ours


def test_an_edited_page_is_replaced_by_force_but_never_one_of_anybody_else(tmp_path: Path) -> None:
    page = tmp_path / REPORT
    page.write_bytes(signed(OURS).replace(b"mine", b"MINE"))
    refuse_foreign_page(page, force=True)
    page.write_text("<title>mine</title>")
    with pytest.raises(FileError, match="not written by ndflow"):
        refuse_foreign_page(page, force=True)


def test_temporary_files_of_killed_runs_are_removed(tmp_path: Path) -> None:
    study = with_results(tmp_path, "a")
    before = files(tmp_path)
    for folder in ("", "images/", "maps/", "models/"):
        (tmp_path / f"{folder}.ndflow-0123.tmp").touch()
    remove_leftovers(study)
    assert files(tmp_path) == before
