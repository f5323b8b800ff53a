"""Steps: work on each scan, kept until something that it depends on has changed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from phantoms import head, radii, save
from studies import SMALL, edit

from ndflow.errors import FileError
from ndflow.image.mask import AUTO
from ndflow.image.subject import Subject
from ndflow.methods.modes import Goal
from ndflow.options import Options
from ndflow.study.plan import Study
from ndflow.study.scan_steps import FitStep, NormaliseStep
from ndflow.study.steps import Done, Step, attempt, look, run_step
from ndflow.study.table import named
from ndflow.study.tasks import Silent, Task
from ndflow.subject.records import ScanModel


def do(step: Step, scan: Subject) -> Done:
    """Do a step for a scan, and raise an error where it fails."""
    outcome = attempt(Task(scan.name, {"step": step, "scan": scan}))
    if outcome.failure is not None:
        raise FileError("", outcome.failure.cause, outcome.failure.hint)
    assert isinstance(outcome.result, Done)
    return outcome.result


class Bench(NamedTuple):
    """A scan whose density was estimated and which was normalised, and where it all is."""

    study: Study
    scan: Subject
    goal: Goal

    def step(self, goal: Goal | None = None, **options: Any) -> NormaliseStep:
        return replace(NormaliseStep.of(self._with(options)), goal=goal or self.goal)

    def fit(self, scan: Subject | None = None, **options: Any) -> Done:
        return do(FitStep.of(self._with(options)), scan or self.scan)

    def normalise(self, scan: Subject | None = None, **options: Any) -> Done:
        return do(self.step(**options), scan or self.scan)

    def why(self, **options: Any) -> str:
        """Say why the image is not up to date."""
        return str(look(self.step(**options), self.scan))

    def _with(self, options: dict[str, Any]) -> Study:
        return replace(self.study, options=replace(self.study.options, **options))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    images = [save(tmp_path / f"{n}.nii.gz", head(n, shape=SMALL, gain=n + 1)) for n in range(2)]
    scan, other = named([Subject(str(i), site="A", origin="row 2") for i in images])
    study = Study(tmp_path / "out", [scan, other])
    assert not do(FitStep.of(study), other).kept
    made = Bench(study, scan, Goal(ScanModel.read(study.model(other)).model, Options()))
    assert not made.fit().kept
    assert made.why() == "new"
    assert not made.normalise().kept
    return made


def test_what_has_changed_is_named_and_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = bench.study.paths(bench.scan)
    assert bench.why(dtype="float64") == "changed: dtype"
    paths.preview.unlink()
    assert bench.why() == "missing: 0.png"
    assert not bench.normalise().kept
    assert paths.preview.exists()
    assert bench.normalise().kept
    save(Path(bench.scan.path), head(2, shape=SMALL))
    assert bench.why() == "changed: image"
    with pytest.raises(FileError, match="replaced after its density was estimated"):
        bench.normalise()
    monkeypatch.setattr("ndflow.files.stream.RESULTS", "another")
    assert "version" in str(look(FitStep.of(bench.study), bench.study.scans[1]))


@pytest.mark.parametrize("name", ["image", "sidecar"])
def test_what_somebody_has_edited_is_replaced_by_force_only(bench: Bench, name: str) -> None:
    path = getattr(bench.study.paths(bench.scan), name)
    path.write_bytes(path.read_bytes()[:-20])
    edited = path.read_bytes()
    with pytest.raises(FileError, match=rf"{path.name}: changed since.*copy it elsewhere; --force"):
        bench.normalise()
    assert path.read_bytes() == edited
    assert not bench.normalise(force=True).kept
    assert bench.normalise().kept


@pytest.mark.parametrize("force", [False, True])
def test_a_file_that_no_record_lists_is_never_replaced(bench: Bench, *, force: bool) -> None:
    paths = bench.study.paths(bench.scan)
    edit(paths.sidecar, outputs={}, fingerprint="")
    paths.image.write_bytes(b"precious")
    with pytest.raises(FileError, match="was not written by ndflow"):
        bench.normalise(force=force)
    assert paths.image.read_bytes() == b"precious"


def test_neither_the_name_of_a_file_nor_settings_without_effect_count(bench: Bench) -> None:
    before = {path: path.stat().st_mtime_ns for path in bench.study.paths(bench.scan)}
    moved = Path(bench.scan.path).rename(Path(bench.scan.path).with_name("elsewhere.nii.gz"))
    scan = replace(bench.scan, images={"intensity": str(moved)})
    for more in ({}, {"force": True}, {"max_bytes": 1 << 20}):
        assert bench.fit(scan, **more).kept
        assert bench.normalise(scan, **more).kept
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_what_was_looked_at_for_the_density_is_not_read_again(bench: Bench) -> None:
    model = ScanModel.read(bench.study.model(bench.scan))
    other = replace(model, sha256={**(model.sha256 or {}), "image": ("other",)})
    Path(bench.scan.path).unlink()
    assert isinstance(look(replace(bench.step(), model=model), bench.scan), Done)
    assert look(replace(bench.step(), model=other), bench.scan) == "changed: image"


def test_images_are_kept_beside_a_lesion_that_did_not_change(bench: Bench) -> None:
    lesion = save(bench.study.folder.with_name("lesion.nii"), (radii(SMALL) < 0.3).astype(np.uint8))
    scan = replace(bench.scan, lesion=str(lesion))
    for kept in (False, True):
        assert (bench.fit(scan).kept, bench.normalise(scan).kept) == (kept, kept)


@pytest.mark.parametrize(
    "change",
    [
        lambda bench: bench.fit(changed_image(bench)),
        lambda bench: bench.fit(effective_count=500),
        lambda bench: bench.fit(method="nyul"),
        lambda bench: bench.fit(replace(bench.scan, mask=AUTO)),
        lambda bench: bench.normalise(replace(bench.scan, site="B")),
        lambda bench: bench.normalise(
            goal=Goal(ScanModel.read(bench.study.model(bench.scan)).model, Options())
        ),
        lambda bench: bench.normalise(solver="rk4"),
        lambda bench: bench.normalise(dtype="float64"),
    ],
)
def test_whatever_a_result_depends_on_makes_it_again(
    bench: Bench, change: Callable[[Bench], Done]
) -> None:
    assert not change(bench).kept


def changed_image(bench: Bench) -> Subject:
    save(Path(bench.scan.path), head(2, shape=SMALL))
    return bench.scan


# ── many scans ────────────────────────────────────────────────────────────────────────────────────


def test_a_scan_that_fails_is_left_out_and_the_others_are_kept_the_next_time(
    scans: list[Subject], tmp_path: Path
) -> None:
    gone = replace(scans[1], images={"T1w": str(tmp_path / "gone.nii.gz")})
    (tmp_path / "copy.nii.gz").write_bytes(Path(scans[0].path).read_bytes())
    copy = replace(scans[3], images={"T1w": str(tmp_path / "copy.nii.gz")})
    study = Study(tmp_path / "out", [scans[0], gone, scans[2], copy])
    for kept in (0, 2):
        found = run_step([(FitStep.of(study), scan) for scan in study.scans], study, Silent())
        assert ({*found.done}, found.kept) == ({"scan0", "scan2"}, kept)
        causes = {failure.scan: failure.cause for failure in found.failures}
        assert "no such file (row 3)" in causes["scan1"]
        assert "the same image as" in causes["scan3"]
