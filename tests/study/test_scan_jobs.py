"""The work on one scan: done once, and again when anything it depends on has changed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from phantoms import head, save
from studies import edit, read_json, sha256

from ndflow.errors import FileError
from ndflow.files.fingerprints import contents
from ndflow.image.subject import Subject, TissueMaps
from ndflow.methods.base import DensityModel
from ndflow.methods.modes import Goal
from ndflow.options import Options
from ndflow.study.plan import ResultPaths, Study
from ndflow.study.scan_jobs import ScanDone, fit_job, normalise_job
from ndflow.study.table import named_scans
from ndflow.subject.records import MapRecord, ScanModel
from ndflow.subject.results import hashes

SHAPE = (14, 16, 12)


class Desk(NamedTuple):
    """A scan whose density was estimated and which was normalised, and where it all is."""

    scan: Subject
    paths: ResultPaths
    goal: Goal

    def fit(self, scan: Subject | None = None, **changes: Any) -> ScanDone:
        done = fit_job(scan or self.scan, self.paths, **{"options": Options(), **changes})
        assert done.content == (sha256(Path((scan or self.scan).path)),)
        return done._replace(content=())

    def normalise(self, scan: Subject | None = None, **changes: Any) -> ScanDone:
        settings = {
            "goal": self.goal,
            "options": Options(),
            "settings": Options().of(),
        }
        return normalise_job(scan or self.scan, self.paths, **{**settings, **changes})


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    image = save(tmp_path / "s.nii.gz", head(0, shape=SHAPE))
    (scan,) = named_scans([Subject(str(image), site="A", origin="row 2")])
    paths = Study(tmp_path / "out", [scan]).paths(scan)
    other = save(tmp_path / "other.nii.gz", head(1, shape=SHAPE, gain=2))
    target = tmp_path / "target.json"
    assert not fit_job(Subject(str(other)), paths._replace(model=target), options=Options()).kept
    made = Desk(scan, paths, Goal(ScanModel.read(target).model, Options()))
    assert not made.fit().kept
    assert not made.normalise().kept
    return made


def changed_image(desk: Desk) -> Subject:
    save(Path(desk.scan.path), head(2, shape=SHAPE))
    return desk.scan


def moved(desk: Desk) -> Subject:
    image = Path(desk.scan.path)
    return replace(desk.scan, image=str(image.rename(image.with_name("elsewhere.nii.gz"))))


def test_what_is_there_already_is_kept(desk: Desk) -> None:
    before = {path: path.stat().st_mtime_ns for path in desk.paths}
    assert desk.fit().kept
    assert desk.normalise().kept
    assert {path: path.stat().st_mtime_ns for path in desk.paths} == before


def test_a_file_counts_by_its_content_and_not_by_its_name(desk: Desk) -> None:
    here = contents(hashes(desk.scan.files()))
    scan = moved(desk)
    assert contents(hashes(scan.files())) == here
    assert desk.fit(scan).kept
    assert desk.normalise(scan).kept


@pytest.mark.parametrize(
    "change",
    [
        lambda desk: desk.fit(changed_image(desk)),
        lambda desk: desk.fit(options=Options(effective_count=500)),
        lambda desk: desk.fit(options=Options(method="nyul")),
        lambda desk: desk.fit(replace(desk.scan, mask=desk.scan.image)),
        lambda desk: desk.normalise(replace(desk.scan, site="B")),
        lambda desk: desk.normalise(replace(desk.scan, metadata={"SkullStripped": True})),
        lambda desk: desk.normalise(goal=Goal(ScanModel.read(desk.paths.model).model, Options())),
        lambda desk: desk.normalise(settings=Options(solver="rk4").of()),
    ],
)
def test_whatever_a_result_depends_on_makes_it_again(
    desk: Desk, change: Callable[[Desk], ScanDone]
) -> None:
    assert not change(desk).kept


def test_an_image_that_was_replaced_after_the_fit_is_refused(desk: Desk) -> None:
    before = [path.read_bytes() for path in desk.paths]
    with pytest.raises(FileError, match="replaced after its density was estimated"):
        desk.normalise(changed_image(desk))
    assert [path.read_bytes() for path in desk.paths] == before
    assert not desk.fit().kept
    assert not desk.normalise().kept


def test_settings_that_change_no_result_do_not_count(desk: Desk) -> None:
    for more in ({"force": True}, {"max_bytes": 1 << 20}):
        assert desk.normalise(settings=Options().of() | more).kept


@pytest.mark.parametrize("damage", ["gone", "cut", "changed", "another"])
def test_a_damaged_file_is_written_again(desk: Desk, damage: str) -> None:
    intact = [path.read_bytes() for path in desk.paths]
    for path in (path for path in desk.paths if path != desk.paths.preview):
        again = desk.fit if path == desk.paths.model else desk.normalise
        content = path.read_bytes()
        if damage == "gone":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(content[:-20])
        elif damage == "changed" and path.suffix == ".json":
            path.write_text(json.dumps(read_json(path) | {"warnings": ["an edit by hand"]}))
        elif damage == "changed":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        else:
            path.write_bytes(desk.paths[path == desk.paths.model].read_bytes())
        assert not again().kept
    assert [path.read_bytes() for path in desk.paths] == intact


def test_a_record_is_current_if_it_is_intact_and_has_the_fingerprint(desk: Desk) -> None:
    path = desk.paths.sidecar
    fingerprint = str(MapRecord.read(path).fingerprint)
    record = MapRecord.read(path)
    assert record.match is not None
    assert record.match.divergence is not None
    current = MapRecord.up_to_date(path, fingerprint)
    assert current == (record.outputs, record.doubts, record.match.divergence.after, record.map)
    assert MapRecord.up_to_date(path, "other") is None
    assert ScanModel.up_to_date(path, fingerprint) is None
    edit(path, site="elsewhere")
    assert MapRecord.read(path).site == "elsewhere"
    assert MapRecord.up_to_date(path, fingerprint) is None


def test_the_sidecar_says_how_the_image_was_made(desk: Desk) -> None:
    record = MapRecord.read(desk.paths.sidecar)
    assert record.site == "A"
    assert record.setting("mask") == "nonzero"
    assert record.inputs == hashes(desk.scan.files())
    assert record.mixture == ScanModel.read(desk.paths.model).mixture
    assert record.match is not None
    assert record.map == desk.goal.solve(DensityModel(record.mixture)).imap


def test_tissue_maps_are_read_only_where_the_target_uses_them(desk: Desk) -> None:
    missing = TissueMaps("c.nii", "g.nii", "w.nii")
    assert desk.fit(replace(desk.scan, tissues=missing)).kept
    with pytest.raises(FileError, match=r"c\.nii"):
        desk.fit(replace(desk.scan, tissues=missing), options=Options(proportions="tissue"))
    with pytest.raises(FileError, match=r"not all of its tissues are known \(row 2\)") as caught:
        desk.fit(options=Options(proportions="tissue"))
    assert "--proportions adaptive" in caught.value.hint
