"""Steps: work on each scan, kept until something that it depends on has changed."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from phantoms import head, save
from studies import SMALL, Silent, SiteStudy, edit, read_json

from ndflow.errors import FileError
from ndflow.files.fingerprints import contents
from ndflow.files.model_files import list_outputs, relative_outputs, write_pending
from ndflow.image.mask import AUTO
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel
from ndflow.methods.modes import Goal
from ndflow.options import Options
from ndflow.study import run
from ndflow.study.assemble import Asked, assemble
from ndflow.study.fit_step import FitStep
from ndflow.study.manifest import verify
from ndflow.study.normalise_step import NormaliseStep
from ndflow.study.plan import Study
from ndflow.study.steps import Done, Key, Step, attempt, look, run_step
from ndflow.study.table import named, read_table
from ndflow.study.tasks import Outcome, Task
from ndflow.subject.records import FileRecord, ScanModel
from ndflow.subject.results import hashes


def do(step: Step, scan: Subject) -> Done:
    """Do a step for a scan, and raise an error where it fails."""
    outcome = attempt(Task(scan.name, {"step": step, "scan": scan}))
    if outcome.failure is not None:
        raise FileError("", outcome.failure.cause, outcome.failure.hint)
    assert isinstance(outcome.result, Done)
    return outcome.result


def why(step: Step, scan: Subject) -> str | None:
    """Say why the results of a step are not up to date."""
    found = look(step, scan)
    return found if isinstance(found, str) else None


# ── a step of our own ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class DefaceRecord(FileRecord):
    """How a scan was defaced."""

    kind: ClassVar[str] = "defacing"

    settings: dict[str, Any]
    sha256: dict[str, tuple[str, ...]]
    fingerprint: str
    outputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DefaceStep(Step):
    """All that has to be written to add a step: here, half of each normalised image."""

    name = "deface"

    def records(self, scan: Subject) -> list[Path]:
        return [self.study.folder / "defaced" / f"{scan.name}.json"]

    def outputs(self, scan: Subject) -> list[Path]:
        return [self.study.folder / "defaced" / f"{scan.name}.half"]

    def files(self, scan: Subject) -> Mapping[str, Sequence[str]]:
        return {"normalised": [str(self.study.paths(scan).image)]}

    def key(self, scan: Subject, inputs: Mapping[str, Sequence[str]]) -> Key:
        return Key(inputs, {"dtype": self.study.options.dtype})

    def make(self, scan: Subject) -> Done:
        key = self.key(scan, contents(hashes(self.files(scan))))
        (record,), (output,) = self.records(scan), self.outputs(scan)
        whole = self.study.paths(scan).image.read_bytes()
        with ExitStack() as pending:
            written = {output: write_pending(pending, output, whole[: len(whole) // 2])}
            about = DefaceRecord(
                dict(key.settings),
                dict(key.inputs),
                key.fingerprint,
                relative_outputs(record, written),
            )
            list_outputs(pending, record, about.content(), written)
        return Done(False)


class Desk(NamedTuple):
    """A scan of a study, with an image to deface."""

    study: Study
    scan: Subject

    @property
    def step(self) -> DefaceStep:
        return DefaceStep.of(self.study)

    @property
    def image(self) -> Path:
        return self.study.paths(self.scan).image

    @property
    def half(self) -> Path:
        return self.step.outputs(self.scan)[0]

    @property
    def record(self) -> Path:
        return self.step.records(self.scan)[0]

    def chosen(self, **options: Any) -> DefaceStep:
        return DefaceStep.of(replace(self.study, options=Options(**options)))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (scan,) = named([Subject("/in/a.nii", origin="row 2")])
    made = Desk(Study(tmp_path, [scan]), scan)
    made.image.parent.mkdir()
    made.image.write_bytes(b"0123456789")
    assert why(made.step, scan) == "new"
    assert not do(made.step, scan).kept
    assert made.half.read_bytes() == b"01234"
    return made


def test_whatever_has_changed_is_named_and_made_again(desk: Desk) -> None:
    desk.image.write_bytes(b"abcdefghij")
    assert why(desk.step, desk.scan) == "changed: normalised"
    assert not do(desk.step, desk.scan).kept
    assert desk.half.read_bytes() == b"abcde"
    other = desk.chosen(dtype="float64")
    assert why(other, desk.scan) == "changed: dtype"
    assert not do(other, desk.scan).kept
    assert do(other, desk.scan).kept
    desk.half.unlink()
    assert why(other, desk.scan) == "missing: a.half"
    assert not do(other, desk.scan).kept
    desk.record.unlink()
    desk.half.unlink()
    assert why(other, desk.scan) == "new"


def test_a_result_of_another_version_is_made_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.files.fingerprints.RESULTS", "another")
    assert "version" in str(why(desk.step, desk.scan))


def test_an_edited_result_is_replaced_by_force_only(desk: Desk) -> None:
    desk.half.write_bytes(b"precious")
    assert why(desk.step, desk.scan) == "changed: a.half"
    with pytest.raises(FileError, match=r"a\.half: changed since ndflow wrote it.*--force"):
        do(desk.step, desk.scan)
    assert desk.half.read_bytes() == b"precious"
    assert not do(desk.chosen(force=True), desk.scan).kept
    assert desk.half.read_bytes() == b"01234"


@pytest.mark.parametrize("damage", ["cut", "edited"])
def test_a_damaged_record_is_replaced_by_force_only(desk: Desk, damage: str) -> None:
    if damage == "cut":
        desk.record.write_bytes(desk.record.read_bytes()[:-20])
    else:
        desk.record.write_text(desk.record.read_text().replace("float32", "float16"))
    changed = desk.record.read_bytes()
    assert "damaged" in str(why(desk.step, desk.scan))
    with pytest.raises(FileError, match=r"a\.json: changed since ndflow wrote it.*--force"):
        do(desk.step, desk.scan)
    assert desk.record.read_bytes() == changed
    assert not do(desk.chosen(force=True), desk.scan).kept
    assert do(desk.step, desk.scan).kept


@pytest.mark.parametrize("force", [False, True])
def test_a_file_that_no_record_lists_is_never_replaced(desk: Desk, *, force: bool) -> None:
    edit(desk.record, outputs={}, fingerprint="")
    desk.half.write_bytes(b"precious")
    with pytest.raises(FileError, match="was not written by ndflow"):
        do(desk.chosen(force=force), desk.scan)
    assert desk.half.read_bytes() == b"precious"


def test_a_step_that_is_added_runs_is_kept_rehearsed_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MORE", (DefaceStep,))
    table, out = SiteStudy(tmp_path, per_site=1).table("all"), tmp_path / "out"
    study, seen = assemble(read_table(table), out, Asked()), Recorded()
    summary = run.run_study(study, seen)
    assert summary.done == 3
    assert summary.distances is not None  # what the study says is that of its normalisation
    assert seen.begun[-1] == ("deface", 3)
    assert read_json(out / "provenance.json")["done"]["deface"] == 3
    halves = {path: path.stat().st_mtime_ns for path in (out / "defaced").glob("*.half")}
    assert len(halves) == 3
    assert run.run_study(study, Silent())[:2] == (3, 3)
    assert {path: path.stat().st_mtime_ns for path in halves} == halves
    assert verify(out).findings == ()
    assert [one.action for one in run.rehearse(study)] == ["keep"] * 3
    lost, edited, _ = sorted(halves)
    lost.unlink()
    edited.write_bytes(b"?")
    assert {(one.problem, Path(one.path).name) for one in verify(out).findings} == {
        ("missing", lost.name),
        ("changed", edited.name),
    }
    first, second, third = run.rehearse(study)
    assert first.why == f"missing: {lost.name}"
    assert second.error is not None
    assert third.action == "keep"
    summary = run.run_study(study, Recorded())
    assert [failure.scan for failure in summary.failures] == [second.scan.name]
    assert lost.exists()
    assert edited.read_bytes() == b"?"


# ── densities and images ──────────────────────────────────────────────────────────────────────────


class Bench(NamedTuple):
    """A scan whose density was estimated and which was normalised, and where it all is."""

    study: Study
    scan: Subject
    goal: Goal

    @property
    def files(self) -> list[Path]:
        return [*self.study.paths(self.scan)]

    def fit(self, scan: Subject | None = None, **options: Any) -> Done:
        return do(FitStep.of(self._with(options)), scan or self.scan)

    def normalise(self, scan: Subject | None = None, goal: Goal | None = None, **more: Any) -> Done:
        step = NormaliseStep.of(self._with(more))
        return do(replace(step, goal=goal or self.goal), scan or self.scan)

    def _with(self, options: dict[str, Any]) -> Study:
        return replace(self.study, options=replace(self.study.options, **options))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    images = [save(tmp_path / f"{n}.nii.gz", head(n, shape=SMALL, gain=n + 1)) for n in range(2)]
    scan, other = named([Subject(str(i), site="A", origin="row 2") for i in images])
    study = Study(tmp_path / "out", [scan, other])
    assert not do(FitStep.of(study), other).kept
    made = Bench(study, scan, Goal(ScanModel.read(study.model(other)).model, Options()))
    done = made.fit()
    assert (done.kept, len(done.content)) == (False, 1)
    assert not made.normalise().kept
    return made


def changed_image(bench: Bench) -> Subject:
    save(Path(bench.scan.path), head(2, shape=SMALL))
    return bench.scan


def test_a_file_counts_by_its_content_and_not_by_its_name(bench: Bench) -> None:
    before = {path: path.stat().st_mtime_ns for path in bench.files}
    moved = Path(bench.scan.path).rename(Path(bench.scan.path).with_name("elsewhere.nii.gz"))
    scan = replace(bench.scan, images={"intensity": str(moved)})
    assert bench.fit(scan).kept
    assert bench.normalise(scan).kept
    assert {path: path.stat().st_mtime_ns for path in bench.files} == before


@pytest.mark.parametrize(
    "change",
    [
        lambda bench: bench.fit(changed_image(bench)),
        lambda bench: bench.fit(effective_count=500),
        lambda bench: bench.fit(method="nyul"),
        lambda bench: bench.fit(replace(bench.scan, mask=bench.scan.image)),
        lambda bench: bench.fit(replace(bench.scan, mask=AUTO)),
        lambda bench: bench.normalise(replace(bench.scan, site="B")),
        lambda bench: bench.normalise(with_metadata(bench.scan)),
        lambda bench: bench.normalise(goal=Goal(own_model(bench), Options())),
        lambda bench: bench.normalise(solver="rk4"),
        lambda bench: bench.normalise(dtype="float64"),
    ],
)
def test_whatever_a_result_depends_on_makes_it_again(
    bench: Bench, change: Callable[[Bench], Done]
) -> None:
    assert not change(bench).kept


def own_model(bench: Bench) -> DensityModel:
    return ScanModel.read(bench.study.model(bench.scan)).model


def with_metadata(scan: Subject) -> Subject:
    output = scan.output._replace(metadata={"SkullStripped": True})
    return replace(scan, outputs={scan.channels[0]: output})


def test_settings_that_change_no_result_do_not_count(bench: Bench) -> None:
    for more in ({"force": True}, {"max_bytes": 1 << 20}):
        assert bench.fit(**more).kept
        assert bench.normalise(**more).kept


# ── many scans ────────────────────────────────────────────────────────────────────────────────────


class Recorded:
    """Progress that is recorded instead of shown."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.steps: list[tuple[str, str]] = []

    def begin(self, stage: str, total: int) -> None:
        self.begun.append((stage, total))

    def step(self, stage: str, outcome: Outcome) -> None:
        self.steps.append((stage, outcome.scan))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_scan_that_fails_is_left_out_and_the_others_are_kept_the_next_time(
    scans: list[Subject], tmp_path: Path, jobs: int
) -> None:
    gone = replace(scans[1], images={"T1w": str(tmp_path / "gone.nii.gz")})
    study, seen = Study(tmp_path / "out", [scans[0], gone, scans[2]], jobs=jobs), Recorded()
    for kept in (0, 2):
        found = run_step([(FitStep.of(study), scan) for scan in study.scans], study, seen)
        assert ({*found.done}, found.kept) == ({"scan0", "scan2"}, kept)
        assert [failure.scan for failure in found.failures] == ["scan1"]
        assert "row 3" in found.failures[0].cause
    assert seen.begun == [("fit", 3)] * 2
    assert seen.steps == [("fit", f"scan{n}") for n in range(3)] * 2


def test_a_scan_with_the_content_of_another_fails(scans: list[Subject], tmp_path: Path) -> None:
    copy = tmp_path / "copy.nii.gz"
    copy.write_bytes(Path(scans[0].path).read_bytes())
    pair = [scans[0], replace(scans[1], images={"T1w": str(copy)})]
    for _ in range(2):
        study = Study(tmp_path / "out", pair)
        found = run_step([(FitStep.of(study), scan) for scan in pair], study, Recorded())
        assert found.done.keys() == {"scan0"}
        assert "the same image as" in found.failures[0].cause
